"""`stepscope compare`."""

import json
import re

import pytest

from stepscope.records import Header, Phases

from .conftest import at


def run_of(ms, name="a", steps=60, config=None):
    """A run whose steps take about so long."""
    host = {"forward_pass": ms / 2}
    return [
        Header(time=at(0), id=name, name=name, config=config),
        *(Phases(time=at(1), step=n, duration_ms=ms * (1 + n % 5 / 100), host_ms=host) for n in range(1, steps + 1)),
    ]


@pytest.fixture
def files(write):
    """A run, and one that takes a third less time; their settings differ."""
    before = write(run_of(30, "before", config={"data": {"workers": 0}, "api_key": "s3cret", "lr": 1}), "a.json")
    return before, write(run_of(20, "after", config={"data": {"workers": 4}, "api_key": "other", "lr": 1}), "b.json")


def test_the_table_has_both_runs_and_the_verdict(call, files):
    """Values, change, interval, verdict, and how many steps were left out."""
    done = call("compare", *files)
    assert done.exit_code == 0
    assert "A  before  60 steps, the first 10 left out" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("batch_time_avg")]
    assert re.match(r"batch_time_avg +s +0\.0306 +0\.0204 +-33\.3 % +-33\.\d % to -33\.\d % +better$", line)
    assert (
        "B against A  better: batch_time_avg, batch_time_p50, batches_per_second, timing_forward_pass_avg"
        in done.stdout
    )


def test_what_was_changed_is_said_and_secrets_are_not(call, files):
    """Of the configurations only what differs."""
    done = call("compare", *files)
    assert "config  data.workers: 0 → 4" in done.stdout
    assert "lr" not in [line.split(":")[0].removeprefix("config  ") for line in done.stdout.splitlines()]
    assert "s3cret" not in done.stdout + call("compare", *files, "--json").stdout


def test_json_has_the_rows(call, files):
    """Each with value, interval and verdict; `slower` is null where nobody asked."""
    found = json.loads(call("compare", *files, "--json").stdout)
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["batch_time_avg"]["verdict"] == "better"
    assert rows["batch_time_avg"]["low"] < 2 / 3 < rows["batch_time_avg"]["high"]
    assert (found["slower"], found["a"]["name"], found["b"]["warm_up"]) == (None, "before", 10)


def test_the_same_file_is_no_different(call, files):
    """Nothing is better or worse than itself."""
    done = call("compare", files[0], files[0], "--json")
    assert "better" not in done.stdout
    assert "worse" not in done.stdout
    assert "B against A  no difference" in call("compare", files[0], files[0]).stdout


@pytest.mark.parametrize(("limit", "code"), [("5%", 1), ("0.05", 1), ("60", 0), ("49%", 1), ("51%", 0)])
def test_a_build_can_fail_on_a_slower_run(call, files, limit, code):
    """Half as long again is slower by more than 5 and 49 %, and not by more than 51 %."""
    fast = files[1]
    assert call("compare", fast, files[0], "--max-slowdown", limit).exit_code == code
    assert call("compare", files[0], fast, "--max-slowdown", limit).exit_code == 0


def test_too_few_steps_cannot_tell(call, write):
    """Exit code 2, and how many would do."""
    short = write(run_of(10, steps=4), "short.json")
    done = call("compare", short, short, "--max-slowdown", "5%")
    assert done.exit_code == 2
    assert "a few dozen in each run do" in done.stderr
    assert call("compare", short, short).exit_code == 0


@pytest.mark.parametrize("limit", ["much", "-5%", "nan"])
def test_a_limit_that_is_none_is_misuse(call, files, limit):
    """Exit code 2, and an example."""
    done = call("compare", *files, f"--max-slowdown={limit}")
    assert (done.exit_code, "such as 5%" in done.stderr) == (2, True)


def test_steps_can_be_left_out_by_number(call, files):
    """--skip 0 takes all of them."""
    assert "60 steps, the first 0 left out" in call("compare", *files, "--skip", 0).stdout


def test_a_file_without_steps_is_compared_with_nothing(call, write, files):
    """It is said, and is no crash."""
    done = call("compare", write([Header(id="x")], "x.json"), files[0])
    assert (done.exit_code, "no timed step" in done.stdout) == (0, True)
