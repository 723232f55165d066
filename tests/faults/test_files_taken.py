"""A run file or its folder that somebody takes away, or that cannot be had: training goes on, or never begins."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope import StepscopeError, TrainingRunLogger

from .conftest import Program, rules, steps

NOBODY = """
stepscope.TrainingRunLogger  # while its files can be read
if os.geteuid() == 0:
    os.chown(".", 65534, 65534)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""
CLOSE = "print('through'); run.close()"
OFTEN = """
import functools
from stepscope.sinks.jsonfile import JsonFile
JsonFile.create = functools.partial(JsonFile.create, sync_every=0.02)

def wait_for(path):
    end = time.monotonic() + 10
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.3)  # the file is there a moment before it is said
"""


def test_a_removed_file_is_written_again(program: Program, tmp_path: Path) -> None:
    """A run file that somebody unlinks comes back with every record, and an event says so."""
    code = "run = logger(); steps(50); os.unlink('training.json'); wait_for('training.json'); steps(50, 100)"
    done = program(OFTEN, code, CLOSE)
    assert (done.status, done.err) == (0, "")
    assert len(done.said) == 1
    assert steps(tmp_path / "training.json") == list(range(100))
    assert rules(tmp_path / "training.json") == ["run-file-restored"]


def test_a_file_removed_just_before_the_end_is_written_again(program: Program, tmp_path: Path) -> None:
    """Closing looks once more whether the file is there, and says what it did."""
    done = program("run = logger(); steps(50); os.unlink('training.json')", CLOSE)
    assert (done.status, done.err) == (0, "")
    assert steps(tmp_path / "training.json") == list(range(50))
    assert len(done.said_at_close) == 1


def test_a_file_put_in_its_place_is_left_alone(program: Program, tmp_path: Path) -> None:
    """Where another file took the name, the run goes on under the next free one."""
    code = """
    run = logger(); steps(50)
    with open("other", "w") as other: other.write("precious")
    os.replace("other", "training.json")
    wait_for("training-2.json")
    steps(50, 100)
    """
    done = program(OFTEN, code, CLOSE, "print(run.path.name)")
    assert done.status == 0
    assert done.out.splitlines()[-1] == "training-2.json"
    assert len(done.said) == 1
    assert (tmp_path / "training.json").read_text() == "precious"
    assert steps(tmp_path / "training-2.json") == list(range(100))


def test_a_renamed_file_is_followed(program: Program, tmp_path: Path) -> None:
    """A run file that was moved is the same file: its records go on there, and nothing is said."""
    done = program("run = logger(); steps(50); os.rename('training.json', 'kept.json'); steps(50, 100)", CLOSE)
    assert (done.status, done.said) == (0, [])
    assert steps(tmp_path / "kept.json") == list(range(100))


def test_a_removed_folder_ends_nothing(program: Program, tmp_path: Path) -> None:
    """When the whole folder goes, the loop goes on, and it is said once."""
    code = """
    run = logger("out/training.json"); steps(50); shutil.rmtree("out")
    time.sleep(0.2); steps(50, 100)
    """
    done = program(OFTEN, code, CLOSE)
    assert (done.status, done.err) == (0, "")
    assert len(done.said) == 1


def test_a_folder_that_turns_read_only_ends_nothing(program: Program, tmp_path: Path) -> None:
    """An open file outlives its folder's mode; nothing is lost, so nothing is said."""
    code = "run = logger(); steps(50); os.chmod('.', 0o555); steps(50, 100)"
    done = program(NOBODY, code, CLOSE)
    assert (done.status, done.err, done.said) == (0, "", [])
    assert steps(tmp_path / "training.json") == list(range(100))


def test_a_read_only_folder_raises_when_the_logger_is_made(program: Program, tmp_path: Path) -> None:
    """A file that cannot be made is an error at once, with its name and what to do."""
    code = """
    os.chmod(".", 0o555)
    try: logger()
    except stepscope.StepscopeError as error: print(type(error).__name__, error)
    """
    done = program(NOBODY, code)
    assert done.out == "RunFileError cannot make training.json: Permission denied; choose another log_file\n", done.err


def test_a_rank_that_cannot_make_its_file_goes_on(program: Program, tmp_path: Path) -> None:
    """Ranks above 0 make their file in the middle of training, so there the disk's refusal raises nothing."""
    code = "os.chmod('.', 0o555); run = logger(rank=1, world_size=2); steps(3)"
    done = program(NOBODY, code, CLOSE)
    assert (done.status, done.err) == (0, "")
    assert len(done.said) == 1


@pytest.mark.parametrize("make", ["folder", "under_a_file"])
def test_a_path_that_cannot_be_a_file_raises(tmp_path: Path, make: str) -> None:
    """A folder, or a file where a folder should be, is an error that names it and says what to give."""
    (tmp_path / "taken").write_text("x")
    path = tmp_path if make == "folder" else tmp_path / "taken" / "training.json"
    with pytest.raises(StepscopeError, match=r"is a folder; give|choose another log_file") as caught:
        TrainingRunLogger(path, verbosity=-2)
    assert str(path) in str(caught.value) or str(path.parent) in str(caught.value)


def test_two_writers_of_one_file_are_refused(make_run: Callable[..., Any]) -> None:
    """Resuming a file that another logger is writing is an error."""
    run = make_run()
    with pytest.raises(StepscopeError, match="is being written by another process"):
        TrainingRunLogger(run.path, verbosity=-2, resume=True)
    shutil.copy(run.path, run.path.with_name("copy.json"))
    TrainingRunLogger(run.path.with_name("copy.json"), verbosity=-2, resume=True).close()
