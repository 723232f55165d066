"""However a process ends, what was logged is in the file, and the file and the exit status say how it ended."""

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import Program, Start, end, kinds, records, steps

BEGIN = "run = logger(verbosity=-2); steps(10)"
OF_A_THREAD = """
run.close()
made = []
thread = threading.Thread(target=lambda: made.append(logger(verbosity=-2, resume=True)))
thread.start()
thread.join()
signal.raise_signal(signal.SIGTERM)
"""
# A program's end, its exit status, and what the `end` record says; None where there can be none.
ENDS = {
    "no close": ("", 0, ("exited", None)),
    "close": ("run.close()", 0, ("finished", None)),
    "close twice": ("run.close(); run.close('failed')", 0, ("finished", None)),
    "with": ("with run: pass", 0, ("finished", None)),
    "with, exception": ("with run: raise RuntimeError('boom\\nand more')", 1, ("failed", "RuntimeError: boom")),
    "with, Ctrl-C": ("with run: raise KeyboardInterrupt", -signal.SIGINT, ("stopped", "KeyboardInterrupt")),
    "with, sys.exit()": ("with run: sys.exit()", 0, ("finished", None)),
    "with, sys.exit(3)": ("with run: sys.exit(3)", 3, ("failed", "SystemExit: 3")),
    "exception": ("raise ValueError('boom')", 1, ("failed", "ValueError: boom")),
    "sys.exit(3)": ("sys.exit(3)", 3, ("exited", None)),
    "Ctrl-C": ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT, ("stopped", "KeyboardInterrupt")),
    "SIGTERM": ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM, ("stopped", "SIGTERM")),
    "SIGTERM in with": ("with run: signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM, ("stopped", "SIGTERM")),
    "SIGKILL": ("signal.raise_signal(signal.SIGKILL)", -signal.SIGKILL, None),
    "os._exit": ("os._exit(5)", 5, None),
    "abort": ("os.abort()", -signal.SIGABRT, None),
    "logger of a thread": (OF_A_THREAD, -signal.SIGTERM, None),
}


@pytest.mark.parametrize(("last", "status", "ended"), ENDS.values(), ids=ENDS.keys())
def test_the_end_is_told(
    program: Program, tmp_path: Path, last: str, status: int, ended: tuple[str, str | None] | None
) -> None:
    """The exit status is what it would be without a run, the file holds all steps, and its last record says how."""
    done = program(BEGIN, last)
    assert done.status == status, done.err
    assert steps(tmp_path / "training.json") == list(range(10))
    found = end(tmp_path / "training.json")
    assert (found is None) == (ended is None)
    if found and ended:
        assert found["status"] == ended[0]
        assert ended[1] is None or found["reason"] == ended[1]


@pytest.mark.parametrize(("last", "status", "ended"), ENDS.values(), ids=ENDS.keys())
def test_a_run_goes_on_after_any_end(
    program: Program, tmp_path: Path, last: str, status: int, ended: tuple[str, str | None] | None
) -> None:
    """With `resume=True` the next attempt is in the same file, behind all that was there."""
    program(BEGIN, last)
    attempts = kinds(tmp_path / "training.json").count("run")
    done = program("run = logger(verbosity=-2, resume=True); steps(10, 20); run.close()")
    assert (done.status, done.err) == (0, "")
    assert steps(tmp_path / "training.json") == list(range(20))
    headers = [record for record in records(tmp_path / "training.json") if record["log"] == "run"]
    assert [header.get("attempt", 1) for header in headers] == list(range(1, attempts + 2))
    assert len({header["id"] for header in headers}) == 1


@pytest.mark.parametrize("name", ["no close", "close", "with, exception", "sys.exit(3)", "Ctrl-C", "SIGTERM"])
def test_a_file_written_from_a_thread_is_whole_as_well(program: Program, tmp_path: Path, name: str) -> None:
    """With `background=True` every end that Python survives to see writes what still waits."""
    last, status, ended = ENDS[name]
    done = program("run = logger(verbosity=-2, background=True); steps(2000)", last)
    assert done.status == status, done.err
    assert steps(tmp_path / "training.json") == list(range(2000))
    assert ended is not None
    assert (end(tmp_path / "training.json") or {})["status"] == ended[0]


HANDLERS = {
    "before": ("signal.signal(signal.SIGTERM, mine)", "", ["mine"], 0),
    "after": ("", "signal.signal(signal.SIGTERM, mine)", ["mine"], 0),
    "ignored before": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "", [], 0),
    "ignored after": ("", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", [], 0),
    "after, and ours": ("", "ours = signal.signal(signal.SIGTERM, both)", ["mine"], -signal.SIGTERM),
    "after, exits": ("", "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))", [], 9),
}


@pytest.mark.parametrize(("before", "after", "said", "status"), HANDLERS.values(), ids=HANDLERS.keys())
def test_the_users_handler_is_not_stolen(
    program: Program, tmp_path: Path, before: str, after: str, said: list[str], status: int
) -> None:
    """A handler of the user's own, made before the run or after it, gets the signal; ours can be called from it."""
    code = """
    def mine(*_): print("mine", flush=True)
    def both(*what): mine(); ours(*what)
    """
    done = program(code, before, BEGIN, after, "signal.raise_signal(signal.SIGTERM); steps(10, 20)")
    assert (done.out.split(), done.status) == (said, status), done.err
    assert steps(tmp_path / "training.json") == list(range(20 if status == 0 else 10))


def test_the_default_comes_back_after_the_run(program: Program) -> None:
    """Once the last run is closed, SIGTERM has its default handler again, and a later one has ours again."""
    code = """
    first, second = logger("a.json", verbosity=-2), logger("b.json", verbosity=-2)
    first.close(); print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    second.close(); print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    third = logger("c.json", verbosity=-2); signal.raise_signal(signal.SIGTERM)
    """
    done = program(code)
    assert (done.out.split(), done.status) == (["False", "True"], -signal.SIGTERM), done.err


HANG = """
import ctypes
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
threading.Timer(0.3, print, ["hangs"], {"flush": True}).start()
libc.pthread_mutex_lock(mutex)  # for ever, and no signal interrupts it
"""


def terminated(process: "subprocess.Popen[str]", until: str) -> float:
    """Seconds from SIGTERM to the end of a process that has printed `until`."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == until
    began = time.monotonic()
    process.terminate()
    process.wait(20)
    return time.monotonic() - began


def test_a_hanging_program_dies_of_sigterm(start: Start, tmp_path: Path) -> None:
    """Where the main thread never comes back from a call into C, the run is closed and the process dies in seconds."""
    process = start(BEGIN, HANG)
    assert 2 < terminated(process, "hangs") < 8
    assert process.returncode == -signal.SIGTERM
    assert steps(tmp_path / "training.json") == list(range(10))
    assert (end(tmp_path / "training.json") or {})["reason"] == "SIGTERM"


def test_a_write_that_hangs_does_not_hold_the_process(start: Start, tmp_path: Path) -> None:
    """A thread that hangs in a write holds the run's lock for ever: SIGTERM ends the process all the same."""
    code = """
    def hang(*_):
        print("hangs", flush=True)
        threading.Event().wait()
    os.pwrite = hang
    threading.Thread(target=step, args=[10], daemon=True).start()
    time.sleep(60)
    """
    process = start(BEGIN, code)
    assert terminated(process, "hangs") < 8
    assert process.returncode == -signal.SIGTERM
    assert steps(tmp_path / "training.json") == list(range(10))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_sigterm_in_the_middle_of_a_record(program: Program, tmp_path: Path, moment: str) -> None:
    """A signal that comes while a record is written waits until it is whole, and then ends the process."""
    code = f"""
    real = os.pwrite
    def pwrite(*arguments):
        os.pwrite = real
        if {moment == "before"}: signal.raise_signal(signal.SIGTERM)
        written = real(*arguments)
        if {moment == "after"}: signal.raise_signal(signal.SIGTERM)
        return written
    os.pwrite = pwrite
    step(10)
    print("still here")
    """
    done = program(BEGIN, code)
    assert (done.status, done.out, done.err) == (-signal.SIGTERM, "", "")
    assert steps(tmp_path / "training.json") == list(range(11))
    assert (end(tmp_path / "training.json") or {})["status"] == "stopped"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_ctrl_c_in_the_middle_of_a_record(program: Program, tmp_path: Path, moment: str) -> None:
    """Ctrl-C while a record is written leaves a whole file, which can be written further."""
    code = f"""
    real = os.pwrite
    def pwrite(*arguments):
        os.pwrite = real
        if {moment == "before"}: raise KeyboardInterrupt
        real(*arguments)
        raise KeyboardInterrupt
    os.pwrite = pwrite
    try: step(10)
    except KeyboardInterrupt: print("caught")
    steps(11, 20); run.close()
    """
    done = program(BEGIN, code)
    assert (done.status, done.out, done.err) == (0, "caught\n", "")
    assert [number for number in steps(tmp_path / "training.json") if number != 10] == [*range(10), *range(11, 20)]


@pytest.mark.parametrize("count", [10, pytest.param(150, marks=pytest.mark.slow)])
def test_sigterm_at_any_moment_of_logging(program: Program, tmp_path: Path, count: int) -> None:
    """Many processes that do nothing but log: each dies of its SIGTERM and leaves a whole file with its end."""
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)
    code = f"""
    random = __import__("random").Random({seed})
    for number in range({count}):
        child = os.fork()
        if child == 0:
            run = logger(f"{{number}}.json", verbosity=-2); steps(10**9)
        while not (os.path.exists(f"{{number}}.json") and os.path.getsize(f"{{number}}.json") > 2000): time.sleep(0.001)
        time.sleep(random.uniform(0, 0.005))
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = program(code)
    assert done.out.split() == [str(-signal.SIGTERM)] * count, done.err
    for number in range(count):
        assert (end(tmp_path / f"{number}.json") or {}).get("reason") == "SIGTERM"
        found = steps(tmp_path / f"{number}.json")
        assert found == list(range(len(found)))
