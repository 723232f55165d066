"""The ledger itself: promises are quoted and indexed, and a waiting test waits for one absence alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import report
from .absence import CAPABILITIES, ROOT

WAITING = """
import pytest, stepscope
from tests.promises.absence import CAPABILITIES

CAPABILITIES["stepscope.never"] = "nothing"

@pytest.mark.waits("stepscope.never")
def test_absent(): stepscope.never

@pytest.mark.waits("stepscope.never")
def test_arrived(): pass

@pytest.mark.waits("stepscope.never")
def test_wrong(): assert 1 == 2

@pytest.mark.waits("stepscope.never")
def test_another_name(): stepscope.nor_this

@pytest.mark.waits("stepscope.never")
def test_not_ours(): "".never

@pytest.fixture
def scope(): return stepscope.never

@pytest.mark.waits("stepscope.never")
def test_absent_in_a_fixture(scope): pass
"""


@pytest.fixture
def promised(request):
    """The promises of each test of this folder, with what is written of it."""
    items = [item for item in request.session.items if Path(item.path).parent == Path(__file__).parent]
    return [item for item in items if Path(item.path) != Path(__file__)]


def ids(item, own=False):
    """The promises that an item names; its own are those of the function, not of the parameters."""
    marks = getattr(item.function, "pytestmark", []) if own else item.iter_markers()
    return [id for mark in marks if mark.name == "promise" for id in mark.args]


def test_every_test_names_promises_of_the_index(promised):
    """A test here keeps at least one promise, and only such that are indexed."""
    index = report.read_index()
    assert [item.nodeid for item in promised if not ids(item)] == []
    assert [id for item in promised for id in ids(item) if id not in index] == []


def test_a_docstring_quotes_what_its_test_keeps(promised):
    """The words of the index stand between “ and ” in the docstring; rows of a table are quoted by the index alone."""
    index = report.read_index()

    def quoted(item, id):
        return f"“{index[id][1]}”" in " ".join(item.function.__doc__.split())

    assert [(item.nodeid, id) for item in promised for id in ids(item, own=True) if not quoted(item, id)] == []


def test_what_is_waited_for_belongs_to_a_capability(promised):
    """Each awaited name is one of the capabilities'."""
    marks = [mark for item in promised for mark in item.iter_markers("waits")]
    assert {name for mark in marks for name in mark.args} <= set(CAPABILITIES)


def test_only_the_absence_of_the_name_is_waited_for(tmp_path):
    """Absence is an xfail, in a fixture too; arrival, a wrong answer and any other AttributeError are failures."""
    (tmp_path / "test_waiting.py").write_text(WAITING)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.promises.conftest",
        "-rA",
        "-q",
        "-o",
        "addopts=",
        str(tmp_path),
    ]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True)
    found = {line.split("::")[1].split()[0]: line.split()[0] for line in done.stdout.splitlines() if "::" in line}
    assert found == {
        "test_absent": "XFAIL",
        "test_absent_in_a_fixture": "XFAIL",
        "test_arrived": "FAILED",
        "test_wrong": "FAILED",
        "test_another_name": "FAILED",
        "test_not_ours": "FAILED",
    }


def outcomes(**tests):
    """Outcomes of tests that keep the promises of the index `INDEX`."""
    found = report.Outcomes()
    found.tests = {name: ((f"a/{id}",), state, "stepscope.never") for name, (id, state) in tests.items()}
    return found


@pytest.fixture(autouse=True)
def _capability(monkeypatch):
    monkeypatch.setitem(CAPABILITIES, "stepscope.never", "nothing")


INDEX = {"a/one": ("a document", "its one"), "a/two": ("a document", "its two"), "a/three": ("a document", "its three")}


def test_a_promise_is_as_far_as_its_least_test():
    """One waiting test among kept ones leaves the promise waiting; one without a test is listed by its quote."""
    told = report.summary(INDEX, outcomes(x=("one", "kept"), y=("two", "kept"), z=("two", "waiting")))
    assert told["documents"]["a document"] == {"kept": 1, "waiting": 1, "not run": 0, "failed": 0, "untested": 1}
    assert told["waiting"] == [{"capability": "nothing", "name": "stepscope.never", "promises": 1}]
    assert told["untested"] == {"a/three": "its three"}


def test_the_page_counts_by_document():
    """The table has a row for each document and one for all, what waits, and what has no test."""
    lines = report.page(report.summary(INDEX, outcomes(x=("one", "waiting"))), INDEX).splitlines()
    assert lines[1].split() == ["a", "document", "3", "0", "1", "0", "0", "2"]
    assert lines[2].split() == ["all", "3", "0", "1", "0", "0", "2"]
    assert ["nothing", "1", "stepscope.never", "1"] in [line.split() for line in lines]
    assert lines[-1].split(maxsplit=1) == ["a/three", "“its three”"]


def test_only_a_broken_promise_fails_the_report(monkeypatch, capsys):
    """It ends with 0 whatever waits or has no test, and with 1 when a test failed."""
    monkeypatch.setattr(report, "read_index", lambda: INDEX)
    for broken, code in ([], 0), (["test_x: assert 1 == 2"], 1):
        found = outcomes(x=("one", "waiting"))
        found.broken = broken
        monkeypatch.setattr(report, "run", lambda arguments, found=found: found)
        assert report.main(["--json"]) == code
    assert "test_x" in capsys.readouterr().out
