"""A run among forked children and threads: what is the parent's stays the parent's, and no record is torn."""

import os
import signal
from pathlib import Path

import pytest

from .conftest import Program, Start, kinds, records, steps

BEGIN = "run = logger(verbosity=-2); steps(10)"
FORK = """
child = os.fork()
if child == 0:
    {child}
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
steps(10, 20)
print(status)
"""
CHILDREN = {
    "logs and exits": ("steps(100, 200); run.event('mine'); run.close(); sys.exit(7)", 7),
    "exits without close": ("steps(100, 200); os._exit(7)", 7),
    "raises": ("raise ValueError", 1),
    "SIGTERM": ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
    "SIGKILL": ("signal.raise_signal(signal.SIGKILL)", -signal.SIGKILL),
}


@pytest.mark.parametrize(("child", "status"), CHILDREN.values(), ids=CHILDREN.keys())
def test_a_forked_child_leaves_the_run_alone(program: Program, tmp_path: Path, child: str, status: int) -> None:
    """Whatever a forked child logs and however it ends, the parent's file holds the parent's records alone."""
    done = program(BEGIN, FORK.format(child=child), "run.close()")
    assert (done.status, done.out) == (0, f"{status}\n"), done.err
    assert steps(tmp_path / "training.json") == list(range(20))
    assert kinds(tmp_path / "training.json") == ["run", *["step"] * 20, "end"]


def test_a_forked_child_can_have_a_run_of_its_own(program: Program, tmp_path: Path) -> None:
    """In the child a new logger works as ever; the parent's file is taken, so it gets a free name."""
    child = "run = logger(verbosity=-2); steps(5); run.close(); os._exit(0)"
    done = program(BEGIN, FORK.format(child=child), "run.close()")
    assert (done.status, done.out) == (0, "0\n"), done.err
    assert steps(tmp_path / "training.json") == list(range(20))
    assert steps(tmp_path / "training-2.json") == list(range(5))


def test_a_signal_to_a_child_is_not_taken_for_the_parents(program: Program, tmp_path: Path) -> None:
    """SIGTERM that reaches a child in the very moment of its birth ends the child, and never the parent."""
    early = """
    import stepscope.ending
    stepscope.ending.GRACE_S = 0.1
    os.register_at_fork(after_in_child=lambda: signal.raise_signal(signal.SIGTERM))
    """
    done = program(early, BEGIN, FORK.format(child="signal.pause()"), "time.sleep(0.5); print('alive')")
    assert (done.status, done.out) == (0, f"{-signal.SIGTERM}\nalive\n"), done.err
    assert steps(tmp_path / "training.json") == list(range(20))


def test_workers_of_a_data_loader_die_as_they_should(program: Program, tmp_path: Path) -> None:
    """Forked workers that inherit the run are ended by SIGTERM at once, and leave no trace in the file."""
    code = """
    import multiprocessing
    workers = [multiprocessing.get_context("fork").Process(target=time.sleep, args=[5], daemon=True) for _ in range(4)]
    for worker in workers: worker.start()
    for worker in workers: worker.terminate()
    for worker in workers: worker.join(5)
    print([worker.exitcode for worker in workers])
    steps(10, 20); run.close()
    """
    done = program(BEGIN, code)
    assert done.out == f"{[-signal.SIGTERM.value] * 4}\n", done.err
    assert kinds(tmp_path / "training.json") == ["run", *["step"] * 20, "end"]


def test_an_orphaned_worker_does_not_hold_the_file(start: Start, program: Program, tmp_path: Path) -> None:
    """A forked worker that outlives its killed parent keeps nobody from resuming the run."""
    code = """
    if os.fork() == 0: print(os.getpid(), flush=True); time.sleep(60)
    signal.pause()
    """
    process = start(BEGIN, code)
    assert process.stdout is not None
    orphan = int(process.stdout.readline())
    process.kill()
    process.wait(10)
    done = program("run = logger(verbosity=-2, resume=True); steps(10, 20); run.close()")
    os.kill(orphan, signal.SIGKILL)
    assert (done.status, done.err) == (0, "")
    assert steps(tmp_path / "training.json") == list(range(20))


def test_forks_in_the_middle_of_a_threads_records(program: Program, tmp_path: Path) -> None:
    """A thread that logs without pause while others fork: no child hangs in a lock, and no record is torn."""
    code = """
    run = logger(verbosity=-2)
    stop = threading.Event()
    def log():
        n = 0
        while not stop.is_set(): step(n); n += 1
        print(n)
    thread = threading.Thread(target=log); thread.start()
    children = []
    for _ in range(40):
        child = os.fork()
        if child == 0:
            run.log_step(0, 0.5); run.close(); os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    stop.set(); thread.join(); run.close()
    """
    done = program(code)
    assert (done.status, done.err) == (0, "")
    assert steps(tmp_path / "training.json") == list(range(int(done.out)))


def test_threads_log_side_by_side(program: Program, tmp_path: Path) -> None:
    """Eight threads with a thousand records each: all are there, each whole, each thread's in its order."""
    code = """
    run = logger(verbosity=-2)
    def work(name):
        for n in range(1000): run.log({f"{name}/number": n}, step=n)
    threads = [threading.Thread(target=work, args=[name]) for name in "abcdefgh"]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    run.close()
    """
    assert program(code).status == 0
    found: dict[str, list[int]] = {}
    for record in records(tmp_path / "training.json")[1:-1]:
        (name,) = record["values"]
        assert record["values"][name] == record["step"]
        found.setdefault(name, []).append(record["step"])
    assert found == {f"{name}/number": list(range(1000)) for name in "abcdefgh"}
