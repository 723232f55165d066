"""`stepscope verify`."""

import json
import math

import pytest

from stepscope.codec import encode
from stepscope.records import Metrics, Rewind

from .conftest import step, whole_run


def test_a_sound_file_is_a_yes(call, write):
    """Exit code 0, and what the file holds."""
    path = write(whole_run())
    done = call("verify", path)
    assert done.exit_code == 0
    assert f"{path}: sound" in done.stdout
    assert "1 run, 10 step, 1 eval, 1 metrics, 1 event, 1 end" in done.stdout


@pytest.mark.parametrize("cut", [2, 3, 4, 40])
def test_a_torn_end_is_a_no(call, write, cut):
    """A missing bracket is exit code 1 as well as a missing half of a record, with a place."""
    path = write(whole_run())
    path.write_bytes(path.read_bytes()[:-cut])
    done = call("verify", path)
    assert done.exit_code == 1
    assert "1 problem" in done.stdout
    assert "line " in done.stdout


def test_the_place_of_a_problem_is_exact(call, write):
    """Line and offset point at the line that is broken."""
    path = write(whole_run())
    lines = path.read_bytes().split(b"\n")
    lines[4] = b'{"log":"step","step":4,"lo,'
    path.write_bytes(b"\n".join(lines))
    done = call("verify", path, "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["line"], problem["offset"]) == (5, len(b"\n".join(lines[:4])) + 1)
    assert (done.exit_code, json.loads(done.stdout)["sound"]) == (1, False)


def test_what_json_load_refuses_is_a_no(call, write):
    """A bare nan is read by the reader but not by a plain JSON reader: that is a problem of the file."""
    path = write(whole_run())
    path.write_bytes(path.read_bytes().replace(b'"loss":10.0', b'"loss":nan'))
    done = call("verify", path, "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["line"] == 3
    assert path.read_bytes()[problem["offset"] :].startswith((b"nan", b"an"))
    assert done.exit_code == 1


def test_facts_of_the_run_are_information(call, write):
    """Values that are not finite, gaps and rewinds are told, and the file is sound."""
    steps = [step(1), step(2, loss=math.nan), step(3, norm=math.inf), step(7), step(8)]
    path = write(
        [*whole_run()[:1], *steps, Metrics(step=8, values={"x": math.nan}), Rewind(step=8, last_step=9, attempt=2)]
    )
    path.write_bytes(path.read_bytes()[:-3] + b",\n" + encode(step(8)) + b"\n]\n")
    done = call("verify", path, "--json")
    assert json.loads(done.stdout)["information"] == [
        "loss is not finite in 1 record, first at step 2",
        "norm is not finite in 1 record, first at step 3",
        "no step between 3 and 7",
        "attempt 2 began again at step 8, from step 9",
        "no end: the run still goes on, or was cut off",
    ]
    assert done.exit_code == 0


def test_sparse_logging_is_no_gap(call, write):
    """A run that logs every tenth step has no gaps, except where one is missing."""
    path = write([step(n) for n in (0, 10, 20, 30, 50, 60)])
    information = json.loads(call("verify", path, "--json").stdout)["information"]
    assert information == ["steps are logged every 10", "no step between 30 and 50"]
