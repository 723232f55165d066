"""The run file: whole after every record, never truncated, put back when removed."""

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from stepscope.codec import encode
from stepscope.errors import BadValue, RunFileError
from stepscope.records import Message, Step
from stepscope.sinks import jsonfile
from stepscope.sinks.jsonfile import JsonFile
from stepscope.sinks.late import LateFile
from tests.conftest import load


def test_the_file_is_json_after_every_record(tmp_path: Path) -> None:
    """From the very first moment, and ends as the format says."""
    file = JsonFile.create(tmp_path / "a" / "b.json")
    assert load(file.path) == []
    for number in range(3):
        file.write(Step(step=number))
        assert len(load(file.path)) == number + 1
        assert file.path.read_bytes().endswith(b"}\n]\n")
    assert file.path.read_text().count("\n") == 5
    file.close()


def test_an_append_is_one_positioned_write_on_the_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the record."""
    file = JsonFile.create(tmp_path / "a.json")
    file.write(Step(step=0))
    calls, real = [], os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: calls.append((len(data), at)) or real(fd, data, at))
    size = file.path.stat().st_size
    file.write(Message(message="x" * 300_000))
    assert [at for _, at in calls] == [size - 3]
    file.close()


def test_the_device_is_flushed_off_the_callers_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a timer, and at close."""
    threads, flushed, real = [], threading.Event(), os.fsync

    def fsync(fd: int) -> None:
        threads.append(threading.current_thread().name)
        real(fd)
        flushed.set()

    monkeypatch.setattr(os, "fsync", fsync)
    file = JsonFile.create(tmp_path / "a.json", sync_every=0.01)
    file.write(Step(step=0))
    assert flushed.wait(5)
    file.write(Step(step=1))
    file.close()
    assert set(threads) == {"stepscope-fsync"}
    assert len(threads) >= 2


def test_a_refused_write_leaves_the_file_whole_and_the_record_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk refused is written when there is room again, in order."""
    troubles: list[str] = []
    file = JsonFile.create(tmp_path / "a.json", lambda rule, message, advice: troubles.append(rule))
    file.write(Step(step=0))
    real, full = os.pwrite, [True]

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if full[0] and len(data) > 10:
            real(fd, data[:7], at)  # a short write, as a full disk makes it
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    for number in (1, 2, 3):
        file.write(Step(step=number))
        assert [record["step"] for record in load(file.path)] == [0]
    full[0] = False
    monkeypatch.setattr(jsonfile, "perf_counter", lambda: 1e9)  # a second later
    file.write(Step(step=4))
    assert [record["step"] for record in load(file.path)] == [0, 1, 2, 3, 4]
    file.close()
    assert troubles[0] == "run-file-refused"
    assert file.lost == 0


def test_what_waits_for_the_disk_is_bounded_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is the training's."""
    file = JsonFile.create(tmp_path / "a.json")
    file.write(Step(step=0))
    monkeypatch.setattr(jsonfile, "HELD_BYTES", 1000)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)
    for number in range(100):
        file.write(Step(step=number))
    file.close()
    assert file.lost == 100
    assert len(file._held) * len(encode(Step(step=50))) <= 1000


def test_the_record_at_which_the_disk_recovers_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when the memory for those before it was full."""
    file = JsonFile.create(tmp_path / "a.json")
    file.write(Step(step=0))
    monkeypatch.setattr(jsonfile, "HELD_BYTES", 100)
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda fd, data, at: 0)
        for number in range(1, 9):
            file.write(Step(step=number))
    monkeypatch.setattr(jsonfile, "perf_counter", lambda: 1e9)
    file.write(Step(step=9))
    file.close()
    assert [record["step"] for record in load(file.path)][-1] == 9
    assert file.lost == 10 - len(load(file.path))


def test_a_handler_that_logs_in_the_middle_of_a_write_tears_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record comes behind the one that is being written."""
    file = JsonFile.create(tmp_path / "a.json")
    file.write(Step(step=0))
    real, once = os.pwrite, [True]

    def pwrite(fd: int, data: bytes, at: int) -> int:
        done = real(fd, data, at)
        if once:
            once.clear()
            file.write(Message(message="from a handler"))
        return done

    monkeypatch.setattr(os, "pwrite", pwrite)
    file.write(Step(step=1))
    file.write(Step(step=2))
    file.close()
    assert [record.get("step", -1) for record in load(file.path)] == [0, 1, 0, 2]


def test_an_error_of_a_handler_is_not_taken_for_the_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline of the program's own goes through."""
    file = JsonFile.create(tmp_path / "a.json")
    file.write(Step(step=0))
    real = os.pwrite

    def pwrite(fd: int, data: bytes, at: int) -> int:
        real(fd, data, at)
        raise TimeoutError("the program's own")

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(TimeoutError):
        file.write(Step(step=1))
    monkeypatch.setattr(os, "pwrite", real)
    file.write(Step(step=2))
    assert len(load(file.path)) in (2, 3)
    file.close()


def test_ctrl_c_in_the_middle_of_a_write_tears_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is taken back; the next one is whole."""
    file = JsonFile.create(tmp_path / "a.json")
    file.write(Step(step=0))
    real, once = os.pwrite, [True]

    def pwrite(fd: int, data: bytes, at: int) -> int:
        done = real(fd, data, at)
        if once:
            once.clear()
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(KeyboardInterrupt):
        file.write(Message(message="long" * 100))
    file.write(Step(step=1))
    file.close()
    assert [record["log"] for record in load(file.path)] == ["step", "step"]


def test_a_slow_write_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time that it took."""
    said: list[str] = []
    file = JsonFile.create(tmp_path / "a.json", lambda rule, message, advice: said.append(message))
    times = iter([0.0, 3.0, 3.0])
    monkeypatch.setattr(jsonfile, "perf_counter", lambda: next(times, 3.0))
    file.write(Step(step=0))
    file.close()
    assert "took 3.0 s" in said[0]


def test_a_removed_file_is_put_back(tmp_path: Path) -> None:
    """With everything that was in it."""
    restored = threading.Event()
    file = JsonFile.create(tmp_path / "a.json", lambda *said: restored.set(), sync_every=0.02)
    for number in range(1000):
        file.write(Step(step=number))
        if number == 500:
            file.path.unlink()
    assert restored.wait(5)
    file.write(Step(step=1000))
    file.close()
    assert [record["step"] for record in load(tmp_path / "a.json")] == list(range(1001))


def test_a_removed_folder_is_said_and_training_goes_on(tmp_path: Path) -> None:
    """There is nowhere to put it."""
    said: list[str] = []
    told = threading.Event()
    file = JsonFile.create(
        tmp_path / "out" / "a.json", lambda rule, *_: (said.append(rule), told.set()), sync_every=0.02
    )
    file.write(Step(step=0))
    file.path.unlink()
    file.path.parent.rmdir()
    file.write(Step(step=1))
    assert told.wait(5)
    file.close()
    assert said[0] == "run-file-removed"


def test_a_moved_file_goes_on_where_it_is(tmp_path: Path) -> None:
    """It is still the run's file."""
    file = JsonFile.create(tmp_path / "a.json")
    file.write(Step(step=0))
    file.path.rename(tmp_path / "b.json")
    file.write(Step(step=1))
    file.close()
    assert len(load(tmp_path / "b.json")) == 2
    assert not (tmp_path / "a.json").exists()


def test_a_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """That names it."""
    with pytest.raises(BadValue, match="is a folder"):
        JsonFile.create(tmp_path)
    with pytest.raises(RunFileError, match="choose another log_file"):
        JsonFile.create("/proc/nowhere/a.json")
    with pytest.raises(RunFileError, match=r"cannot make .*x{300}\.json: File name too long"):
        JsonFile.create(tmp_path / f"{'x' * 300}.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(RunFileError, match="does not begin with"):
        JsonFile.resume(tmp_path / "text.json")
    assert (tmp_path / "text.json").read_text() == "hello"


def test_the_late_file_writes_everything_by_its_close(tmp_path: Path) -> None:
    """From its own thread."""
    file = LateFile(JsonFile.create(tmp_path / "a.json"), lambda *said: None)
    for number in range(1000):
        file.put(encode(Step(step=number)))
    file.close()
    assert [record["step"] for record in load(file.path)] == list(range(1000))


def test_the_late_file_never_waits_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is bounded, and said."""
    said: list[str] = []
    file = LateFile(JsonFile.create(tmp_path / "a.json"), lambda rule, *_: said.append(rule), limit=1000)
    hang = threading.Event()
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: hang.wait(10) and len(data))
    for number in range(100):
        file.put(encode(Step(step=number)))
    assert said[0] == "run-file-behind"
    file.close(deadline=0.01)
    hang.set()


def test_the_format_is_what_json_makes_of_it(tmp_path: Path) -> None:
    """Another writer's array of the same records reads the same."""
    file = JsonFile.create(tmp_path / "a.json")
    for number in range(5):
        file.write(Step(step=number, loss=number / 3))
    file.close()
    again = tmp_path / "b.json"
    again.write_text(json.dumps(load(file.path)))
    assert load(again) == load(file.path)
