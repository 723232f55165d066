"""`stepscope list`."""

import json
import os
import subprocess
import sys

from stepscope.records import End, Header

from .conftest import at, step, whole_run


def test_names_each_run_with_its_state_and_numbers(call, write):
    """A finished run stands in one line with its last loss, its lowest evaluation and its throughput."""
    path = write(whole_run())
    done = call("list", path.parent)
    heading, row = done.stdout.splitlines()
    assert heading.split() == ["FILE", "STATUS", "STEPS", "LOSS", "EVAL", "TOK/S", "TIME", "LAST", "NAME"]
    assert row.split()[:7] == [str(path), "finished", "10/10", "1.0000", "1.5000", "1.0k", "10s"]
    assert row.split()[-1] == "tidy-otter"
    assert done.exit_code == 0


def test_the_newest_run_comes_first(call, write):
    """Runs stand by the time of their file's last change."""
    for name, changed in (("a.json", 100), ("b.json", 300), ("c.json", 200)):
        os.utime(write(whole_run(), name), (changed, changed))
    folder = write(whole_run(), "d.json").parent
    found = json.loads(call("list", folder, "--json").stdout)
    assert [os.path.basename(run["path"]) for run in found] == ["d.json", "b.json", "c.json", "a.json"]


def test_says_how_each_run_ended(call, write):
    """Failed, stopped and cut-off runs are told apart."""
    begin = [Header(time=at(0), id="x", host="elsewhere"), step(1)]
    write([*begin, End(time=at(2), status="failed", reason="OSError")], "failed.json")
    write([*begin, End(time=at(2), status="stopped", reason="SIGTERM")], "stopped.json")
    folder = write(begin, "cut.json").parent
    found = json.loads(call("list", folder, "--json").stdout)
    assert {os.path.basename(run["path"]): run["status"] for run in found} == {
        "failed.json": "failed",
        "stopped.json": "stopped",
        "cut.json": "cut off",
    }


def test_unknown_numbers_are_said_to_be_unknown(call, write):
    """A run without steps shows n/a, never 0."""
    path = write([Header(time=at(0), id="x", host="elsewhere")])
    row = call("list", path.parent).stdout.splitlines()[1].split()
    assert row[1:] == ["cut", "off", *["n/a"] * 5, *row[8:-1], "n/a"]


def test_no_runs_is_a_no(call, tmp_path):
    """An empty folder is exit code 1, an empty document, and a remark on stderr."""
    done = call("list", tmp_path, "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, [])
    done = call("list", tmp_path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert str(tmp_path) in done.stderr


def test_a_missing_folder_is_unusable(call, tmp_path):
    """A name that does not exist is exit code 2, and is said."""
    done = call("list", tmp_path / "nowhere")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nowhere" in done.stderr


def test_wide_names_keep_the_columns_straight(call, write):
    """A name in wide characters does not shift what stands beside it, and control characters do nothing."""
    write(whole_run(), "実験/training.json")
    folder = write(whole_run(name="\x1b[31mred\nname \u202e"), "plain/training.json").parent.parent
    lines = call("list", folder).stdout.splitlines()
    # a wide character takes two cells: the row that has two of them is two characters shorter up to its status
    assert len({line.index("finished") + (2 if "実験" in line else 0) for line in lines[1:]}) == 1
    assert len(lines) == 3
    assert not {"\x1b", "\u202e"} & set("".join(lines))


def test_a_killed_run_is_seen_as_cut_off_at_once(call, tmp_path):
    """A process of this machine that SIGKILL ended is known to be gone, and its run shows what it had logged."""
    program = """
import os, signal, stepscope
run = stepscope.TrainingRunLogger("training.json", verbosity=-2)
for step in range(1, 8):
    run.log_step(step, 0.5, 1024, 100, 0.1, 2.5, 1e-3)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path)
    (found,) = json.loads(call("list", tmp_path, "--json").stdout)
    assert (found["status"], found["last_step"]) == ("cut off", 7)
