"""A disk that refuses: training goes on, says it once, and loses nothing that fits."""

import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope import StepscopeError, TrainingRunLogger
from stepscope.sinks import jsonfile

from .conftest import Program, rules, steps

LIMIT = """
import resource
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
"""
CLOSE = "print('through'); run.close()"


class Disk:
    """The system's writes, which can be made to fail or to take long; time stands still else."""

    def __init__(self) -> None:
        self.refusal: int | None = None
        self.room: int | None = None  # bytes that a write can take, while there is no more
        self.slowness = 0.0
        self.now = 1000.0
        self._pwrite = os.pwrite

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        self.now += self.slowness
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if self.room is not None and len(data) > 3:  # the tail overwrites what is there
            return self._pwrite(fd, data[: self.room], offset)
        return self._pwrite(fd, data, offset)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk in the test's hand."""
    found = Disk()
    monkeypatch.setattr(os, "pwrite", found.pwrite)
    monkeypatch.setattr(jsonfile, "perf_counter", lambda: found.now)
    return found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting does not work here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def step(run: TrainingRunLogger, number: int) -> None:
    """One step."""
    run.log_step(number, 0.5, 1024, 10, 0.5, 2.0, 1e-3)


def test_a_full_disk_ends_nothing(program: Program, tmp_path: Path) -> None:
    """The loop goes on past the disk's limit, says it once, and what fitted is whole."""
    done = program(LIMIT, "limit(20_000); run = logger(); steps(500)", CLOSE)
    assert (done.status, done.err) == (0, "")
    assert len(done.said) == 1
    assert "the run file cannot be written (no space left): training.json; training goes on" in done.said[0]
    kept = steps(tmp_path / "training.json")
    assert kept == list(range(len(kept)))
    assert 50 < len(kept) < 150
    assert 0 <= int(done.said_at_close[0].split()[2]) - (500 - len(kept)) <= 3  # events, and the end


def test_space_that_comes_back_brings_the_records(program: Program, tmp_path: Path) -> None:
    """What the disk refused waits in memory and is written, in order, when there is room, with an event."""
    code = "limit(20_000); run = logger(); steps(400); limit(10**9); steps(400, 500)"
    done = program(LIMIT, code, CLOSE)
    assert done.status == 0
    assert len(done.said) == 1
    assert steps(tmp_path / "training.json") == list(range(500))
    assert rules(tmp_path / "training.json")[0] == "run-file-refused"


def test_a_full_file_system_ends_nothing(program: Program, small_disk: Path) -> None:
    """On a real file system without room: one message, all that fitted, and the rest once there is room."""
    file = small_disk / "training.json"
    code = f"""
    run = logger({str(file)!r})
    with open({str(small_disk / "filler")!r}, "wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)): pass
        except OSError: pass
    steps(200)
    print("held so far:", len(stepscope.read_run({str(file)!r}).steps))
    os.unlink({str(small_disk / "filler")!r})
    steps(200, 250)
    """
    done = program(code, CLOSE)
    assert (done.status, done.err) == (0, "")
    assert 10 < int(done.out.partition("held so far: ")[2].split()[0]) < 50
    assert len(done.said) == 1
    assert steps(file) == list(range(250))


@pytest.mark.parametrize("refusal", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
def test_a_refusal_is_outlived(disk: Disk, make_run: Callable[..., Any], refusal: int) -> None:
    """No refusal of the disk reaches the caller; a second later the records are tried again, and none is lost."""
    run = make_run(strict=False)
    step(run, 0)
    disk.refusal = refusal
    step(run, 1)
    step(run, 2)
    assert steps(run.path) == [0]
    disk.refusal, disk.now = None, disk.now + 1.1
    step(run, 3)
    assert steps(run.path) == [0, 1, 2, 3]
    assert rules(run.path) == ["run-file-refused"]


def test_a_write_that_is_cut_short_leaves_no_trace(disk: Disk, make_run: Callable[..., Any]) -> None:
    """Where the disk takes a part of a record only, the file ends behind the record before it."""
    run = make_run(strict=False)
    step(run, 0)
    for disk.room in (0, 1, 2, 3, 50, 100):
        step(run, 1)
        assert steps(run.path) == [0]
        disk.now += 2
    disk.room = None
    run.close()
    assert steps(run.path) == [0, 1, 1, 1, 1, 1, 1]


def test_the_file_grows_no_faster_than_the_disk_allows(disk: Disk, make_run: Callable[..., Any]) -> None:
    """While the disk refuses, it is asked once a second, not at every record."""
    run = make_run(strict=False)
    asked = []
    disk.refusal = errno.ENOSPC
    step(run, 0)
    real, os.pwrite = os.pwrite, lambda *arguments: asked.append(arguments) or real(*arguments)
    for number in range(100):
        step(run, number)
        disk.now += 0.1
    os.pwrite = real
    assert 8 <= sum(len(data) > 3 for _, data, _ in asked) <= 11


def test_what_memory_cannot_hold_is_counted(disk: Disk, make_run: Callable[..., Any], capsys: Any) -> None:
    """Past eight megabytes the newest records are lost, and the end of the run says how many."""
    run = make_run(strict=False, verbosity=0)
    disk.refusal = errno.ENOSPC
    for number in range(12):
        run.message("x" * (1 << 20), step=number)
    disk.refusal = None
    run.close()
    lost = [number for number in range(12) if f'"step":{number},"message":"xxx' not in run.path.read_text()]
    assert lost
    assert lost == list(range(lost[0], 12))
    assert f"{len(lost)} records" in capsys.readouterr().out


def test_a_slow_write_is_said(disk: Disk, make_run: Callable[..., Any]) -> None:
    """A write that takes long is an event with the time it took, once; the end says how often."""
    run = make_run(strict=False)
    disk.slowness = 2.0
    for number in range(3):
        step(run, number)
    disk.slowness = 0.0
    run.close()
    assert steps(run.path) == [0, 1, 2]
    assert rules(run.path)[0] == "run-file-slow"
    assert "took 2.0 s" in run.path.read_text()


def test_a_file_written_from_a_thread_never_waits(
    monkeypatch: pytest.MonkeyPatch, make_run: Callable[..., Any]
) -> None:
    """With `background=True` a write that hangs holds up nobody, and what waited is written once it goes on."""
    run = make_run(background=True)
    goes_on, real = threading.Event(), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *arguments: goes_on.wait(30) and real(*arguments))
    for number in range(100):
        step(run, number)
    assert steps(run.path) == []
    goes_on.set()
    run.close()
    assert steps(run.path) == list(range(100))


def test_strict_raises_what_training_would_outlive(disk: Disk, make_run: Callable[..., Any]) -> None:
    """With `strict=True` the refusal is an error at the call."""
    run = make_run()
    disk.refusal = errno.ENOSPC
    with pytest.raises(StepscopeError, match="No space left on device"):
        step(run, 0)


def test_a_disk_without_any_room_raises_when_the_logger_is_made(disk: Disk, tmp_path: Path) -> None:
    """Where not even the empty array can be written, the logger is not made and leaves no file."""
    disk.refusal = errno.ENOSPC
    with pytest.raises(StepscopeError, match="No space left on device; choose another log_file"):
        TrainingRunLogger(tmp_path / "training.json", verbosity=-2)
    assert list(tmp_path.iterdir()) == []
