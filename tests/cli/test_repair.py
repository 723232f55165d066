"""`stepscope repair`."""

import fcntl
import json
import os
import socket
from pathlib import Path

import pytest

from stepscope.records import Header

from .conftest import at, step, whole_run


@pytest.fixture
def torn(write):
    """A file whose last record is torn, and what was whole before it."""
    path = write(whole_run())
    path.write_bytes(path.read_bytes()[:-20])
    os.utime(path, (100, 100))
    return path


def test_mends_the_end_and_keeps_what_it_cuts(call, torn):
    """The file is plain JSON again, the torn record lies beside it, and both are said."""
    last = torn.read_bytes().split(b"\n")[-1]
    done = call("repair", torn, "--json")
    said = json.loads(done.stdout)
    assert len(json.loads(torn.read_bytes())) == len(whole_run()) - 1
    assert last in Path(said["kept_in"]).read_bytes()
    assert (said["repaired"], said["cut_bytes"], done.exit_code) == (True, len(last), 0)


def test_says_what_it_did(call, torn):
    """The first repair names the bytes and the file they went to, the second has nothing to do."""
    assert "were cut, and are kept in" in call("repair", torn).stdout
    whole = torn.read_bytes()
    done = call("repair", torn)
    assert done.stdout == f"{torn} ends as it should: nothing to do\n"
    assert (done.exit_code, torn.read_bytes()) == (0, whole)


def test_a_missing_end_loses_nothing(call, write):
    """A file that lacks its closing bracket alone gets it back, and no file is left beside."""
    path = write(whole_run()[:3])
    os.utime(path, (100, 100))
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    assert "no record was lost" in call("repair", path, "--force").stdout
    assert path.read_bytes() == whole
    assert os.listdir(path.parent) == [path.name]


def test_refuses_a_file_that_is_being_written(call, torn):
    """While a process holds the file, repair leaves it alone: exit code 2."""
    before = torn.read_bytes()
    with torn.open("r+b") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        done = call("repair", torn)
    assert (done.exit_code, torn.read_bytes()) == (2, before)
    assert "being written" in done.stderr


def test_refuses_a_file_that_changed_a_moment_ago(call, write):
    """A file without an end that somebody on another machine may be writing needs --force."""
    path = write([Header(time=at(0), id="x", host="elsewhere", pid=1), step(1), step(2)])
    path.write_bytes(path.read_bytes()[:-20])
    refused = call("repair", path)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert call("repair", path, "--force").exit_code == 0


def test_a_dead_writer_on_this_machine_is_no_obstacle(call, write):
    """A run of this machine whose process is gone is repaired at once, however fresh its file."""
    path = write([Header(time=at(0), id="x", host=socket.gethostname(), pid=2**22 + 1), step(1), step(2)])
    path.write_bytes(path.read_bytes()[:-20])
    assert call("repair", path).exit_code == 0
    json.loads(path.read_bytes())


def test_a_line_that_is_broken_before_the_end_is_said(call, write):
    """A repair touches the end alone; that the file is still not plain JSON is exit code 1, with the place."""
    path = write(whole_run())
    path.write_bytes(path.read_bytes().replace(b'"loss":5.0', b'"loss":'))
    done = call("repair", path)
    assert done.exit_code == 1
    assert "line 4, byte" in done.stdout


def test_what_is_no_run_file_is_left_alone(call, tmp_path):
    """Another kind of file is refused and not touched."""
    path = tmp_path / "notes.json"
    path.write_bytes(b'{"a": 1')
    done = call("repair", path)
    assert (done.exit_code, path.read_bytes()) == (2, b'{"a": 1')
