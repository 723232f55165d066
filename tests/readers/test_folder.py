"""Runs are found in a folder, the newest first."""

import os

import pytest

from stepscope.readers import folder
from stepscope.readers.run_file import find_runs
from stepscope.records import Header, Step

from .conftest import as_file


def put(path, time="", changed=None):
    """A run file that began at a time, and was changed at another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_file([Header(time=time, id=path.name), Step(step=1)]))
    if changed is not None:
        os.utime(path, (changed, changed))
    return path


def test_the_run_that_began_last_is_first(tmp_path):
    """By the time in the file, for a copy has another time on the disk."""
    early = put(tmp_path / "training-2.json", "2026-01-15T10:30:00.000001", changed=3000)
    late = put(tmp_path / "training.json", "2026-01-15T10:30:00.000002", changed=1000)
    assert find_runs(tmp_path) == [late, early]


def test_without_a_time_the_file_that_changed_last_is_first(tmp_path):
    """So it is for two that began at once."""
    old, new = put(tmp_path / "a.json", changed=1000), put(tmp_path / "b.json", changed=2000)
    assert find_runs(tmp_path) == [new, old]
    first = put(tmp_path / "c.json", "2026-01-15T10:30:00.000000", changed=5)
    second = put(tmp_path / "d.json", "2026-01-15T10:30:00.000000", changed=6)
    assert find_runs(tmp_path) == [second, first, new, old]


def test_a_foreign_time_is_understood(tmp_path):
    """A space and nanoseconds, as Surogate writes it."""
    path = put(tmp_path / "log.json", changed=1000)
    path.write_bytes(b'[\n  {"log": "cmd", "time": "2026-01-16 10:30:00.123456789", "step": 0}\n]\n')
    other = put(tmp_path / "training.json", "2026-01-15T10:30:00.000000", changed=9000)
    assert find_runs(tmp_path) == [path, other]


def test_folders_below_are_looked_into(tmp_path):
    """But not hidden ones, nor links to folders."""
    path = put(tmp_path / "sweep" / "lr_1e-3" / "training.json")
    put(tmp_path / ".cache" / "training.json")
    (tmp_path / "again").symlink_to(tmp_path / "sweep")
    assert find_runs(tmp_path) == [path]
    assert find_runs(str(tmp_path)) == [path]


@pytest.mark.parametrize("content", [b"", b'{"name": "demo"}', b"[1, 2]", b"\x89PNG\0", b'{"log": "debug"}'[:5]])
def test_other_json_is_passed_over(tmp_path, content):
    """Package files, data, empty files."""
    (tmp_path / "package.json").write_bytes(content)
    path = put(tmp_path / "training.json")
    assert find_runs(tmp_path) == [path]


def test_other_ranks_are_no_runs(tmp_path):
    """Only rank 0's file stands for the run."""
    path = put(tmp_path / "training.json")
    put(tmp_path / "training.rank1.json")
    assert find_runs(tmp_path) == [path]


def test_the_search_has_a_bottom(tmp_path, monkeypatch):
    """Folders nested beyond any use are not followed, and there is a limit to how many are seen."""
    near = put(tmp_path / "a" / "b" / "training.json")
    put(tmp_path.joinpath(*"abcdefghijkl") / "training.json")
    assert find_runs(tmp_path) == [near]
    monkeypatch.setattr(folder, "FOLDERS", 1)
    assert find_runs(tmp_path) == []


def test_a_folder_that_is_not_there_has_no_runs(tmp_path):
    """Nor one that cannot be read."""
    assert find_runs(tmp_path / "nothing") == []


def test_only_the_beginning_of_a_file_is_read(tmp_path):
    """A run file of 64 GB is found like any other."""
    path = put(tmp_path / "training.json")
    os.truncate(path, 1 << 36)
    assert find_runs(tmp_path) == [path]
