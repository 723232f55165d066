"""Handlers, callbacks and a second signal, in the worst moment: nothing is torn, and the end is told."""

import signal
from pathlib import Path

from .conftest import Program, end, kinds, records, steps

HANGING = """
from stepscope.sinks import backends
from stepscope.sinks.background import Background

def hanging(name, settings):
    return lambda header, on_trouble, on_ready=None: Background(lambda: time.sleep(100), name, on_trouble)

backends.connect = hanging
run = logger(verbosity=-2, report_to="tensorboard"); steps(10)
"""


def test_a_handler_that_logs_loses_nothing(program: Program, tmp_path: Path) -> None:
    """Thousands of times, at any moment: every acknowledged step is there, and the file is whole."""
    code = """
    run = logger(verbosity=-2)
    handled = []
    def handler(*_):
        run.message("from the handler"); handled.append(1)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
    n, until = 0, time.monotonic() + 2
    while time.monotonic() < until:
        step(n); n += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    run.close()
    print(n, len(handled))
    """
    done = program(code)
    assert (done.status, done.err) == (0, "")
    logged, handled = map(int, done.out.split())
    assert handled > 100
    assert steps(tmp_path / "training.json") == list(range(logged))
    assert kinds(tmp_path / "training.json").count("message") == handled


def test_an_impatient_ctrl_c_while_a_backend_hangs_loses_no_end(program: Program, tmp_path: Path) -> None:
    """The end is written before the interrupt goes on."""
    code = "threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()\nwith run: pass"
    done = program(HANGING, code)
    assert done.status == -signal.SIGINT
    found = end(tmp_path / "training.json")
    assert found is not None
    assert found["status"] == "finished"


def test_sigterm_while_a_backend_hangs_loses_no_end(program: Program, tmp_path: Path) -> None:
    """The signal waits for the end of the close, which has a deadline."""
    code = "threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM]).start(); run.close(); time.sleep(5)"
    done = program(HANGING, code)
    assert done.status == -signal.SIGTERM
    assert kinds(tmp_path / "training.json")[-1] == "end"


def test_one_runs_failing_end_costs_another_nothing(program: Program, tmp_path: Path) -> None:
    """At exit, each run is closed on its own."""
    code = """
    def broken(line):
        if '"log":"end"' in line: raise KeyboardInterrupt
    first = logger("a.json", callback=broken, verbosity=-2)
    second = logger("b.json", verbosity=-2)
    """
    program(code)
    assert [kinds(tmp_path / name)[-1] for name in ("a.json", "b.json")] == ["end", "end"]


def test_an_earlier_cells_error_is_not_this_runs(program: Program, tmp_path: Path) -> None:
    """A notebook remembers its last error for ever."""
    program("sys.last_value = NameError('an old cell')", "run = logger(verbosity=-2); steps(3)")
    found = end(tmp_path / "training.json")
    assert found is not None
    assert found["status"] == "exited"


def test_a_closed_stderr_never_becomes_the_run_file(program: Program, tmp_path: Path) -> None:
    """A library that writes to descriptor 2 writes nowhere, not over the header."""
    code = """
    os.close(2); os.close(1)
    run = logger(verbosity=-2); steps(3)
    for fd in (1, 2):
        try: os.write(fd, b"NCCL WARN hello\\n")
        except OSError: pass
    run.close()
    """
    program(code)
    assert [record["log"] for record in records(tmp_path / "training.json")] == ["run", "step", "step", "step", "end"]


def test_a_run_may_begin_at_the_end_of_the_interpreter(program: Program, tmp_path: Path) -> None:
    """Where no thread can be started any more, the file is written all the same."""
    code = """
    import atexit
    def late():
        run = logger("late.json", verbosity=-2, background=True)
        run.log_step(1, loss=2.0)
        run.close()
    atexit.register(late)
    """
    done = program(code)
    assert (done.status, done.err) == (0, "")
    assert kinds(tmp_path / "late.json") == ["run", "step", "end"]
