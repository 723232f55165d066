"""How far the documents' promises are kept: runs the tests beside it and joins them with the index.

    python -m tests.promises.report            # a table by document, what waits for what, what has no test yet
    python -m tests.promises.report --json

Ends with 1 when a promise is broken: a test fails, or passes although it was waiting and has to be promoted.
"""

import contextlib
import io
import json
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .absence import CAPABILITIES

HERE = Path(__file__).parent
STATES = ("kept", "waiting", "not run", "failed", "untested")
WORST = ("failed", "waiting", "not run", "kept")  # a promise with several tests is in the first of these states


class Outcomes:
    """A pytest plugin that gathers (promises, state, why) of every test that names one."""

    def __init__(self) -> None:
        self.tests: dict[str, tuple[tuple[str, ...], str, str]] = {}
        self.broken: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            ids = tuple(id for mark in item.iter_markers("promise") for id in mark.args)
            waits = item.get_closest_marker("waits")
            self.tests[item.nodeid] = (ids, "not run", waits.args[0] if waits else "deselected: slow, or needs a GPU")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid}: {_why(report)}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ids, _, why = self.tests[report.nodeid]
        if report.failed:
            self.broken.append(f"{report.nodeid}: {_why(report)}")
            self.tests[report.nodeid] = (ids, "failed", why)
        elif report.skipped:
            waiting = hasattr(report, "wasxfail")
            reason = why if waiting else str(report.longrepr[-1]).removeprefix("Skipped: ")  # type: ignore[index]
            self.tests[report.nodeid] = (ids, "waiting" if waiting else "not run", reason)
        elif report.when == "call":
            self.tests[report.nodeid] = (ids, "kept", "")


def _why(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The failure in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash else report.longreprtext).strip()
    promote = "; it has arrived: take the mark `waits` away" if text.startswith("[XPASS(strict)]") else ""
    return (text.splitlines() or ["failed"])[0] + promote


def read_index() -> dict[str, tuple[str, str]]:
    """Every promise: id → (document, quote)."""
    sections = tomllib.loads((HERE / "index.toml").read_text())
    return {
        f"{slug}/{key}": (section["document"], quote)
        for slug, section in sections.items()
        for key, quote in section["promises"].items()
    }


def run(arguments: list[str]) -> Outcomes:
    """The outcome of each test of this folder."""
    outcomes, printed = Outcomes(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = pytest.main([str(HERE), "--tb=line", "-q", "-p", "no:cacheprovider", *arguments], plugins=[outcomes])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not outcomes.broken:
        outcomes.broken.append(f"pytest ended with {code!r}:\n{printed.getvalue()}")
    return outcomes


def judge(outcomes: Outcomes) -> dict[str, tuple[str, str]]:
    """The state of each promise that has a test, and what it waits for."""
    states: dict[str, tuple[str, str]] = {}
    for ids, state, why in outcomes.tests.values():
        for id in ids:
            if id not in states or WORST.index(state) < WORST.index(states[id][0]):
                states[id] = (state, why)
    return states


def summary(index: dict[str, tuple[str, str]], outcomes: Outcomes) -> dict[str, Any]:
    """All that the report says, as plain data."""
    states = {id: judge(outcomes).get(id, ("untested", "")) for id in index}
    documents: dict[str, Counter[str]] = {}
    for id, (document, _) in index.items():
        documents.setdefault(document, Counter())[states[id][0]] += 1
    waiting = Counter(why for state, why in states.values() if state == "waiting")
    return {
        "documents": {name: {state: count[state] for state in STATES} for name, count in documents.items()},
        "waiting": [
            {"capability": CAPABILITIES[name], "name": name, "promises": n} for name, n in waiting.most_common()
        ],
        "not run": {id: why for id, (state, why) in states.items() if state == "not run"},
        "untested": {id: index[id][1] for id, (state, _) in states.items() if state == "untested"},
        "failed": [id for id, (state, _) in states.items() if state == "failed"],
        "broken": outcomes.broken,
    }


def page(report: dict[str, Any], index: dict[str, tuple[str, str]]) -> str:
    """The report as text."""
    rows = [(name, sum(counts.values()), *counts.values()) for name, counts in report["documents"].items()]
    rows.append(("all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True))))
    lines = [f"{'document':<20}{'promises':>10}" + "".join(f"{state:>10}" for state in STATES)]
    lines += [f"{row[0]:<20}" + "".join(f"{number:>10}" for number in row[1:]) for row in rows]
    lines += _part("waiting for", _waiting(report["waiting"]))
    lines += _part("not run here", [f"{_quoted(id, index)}: {why}" for id, why in report["not run"].items()])
    lines += _part("without a test", [_quoted(id, index) for id in report["untested"]])
    lines += _part("broken", report["broken"])
    return "\n".join(lines)


def _waiting(rows: list[dict[str, Any]]) -> list[str]:
    parts: dict[str, list[str]] = {}
    totals: Counter[str] = Counter()
    for row in rows:
        parts.setdefault(row["capability"], []).append(f"{row['name']} {row['promises']}")
        totals[row["capability"]] += row["promises"]
    return [f"{name:<24}{number:>4}   {', '.join(parts[name])}" for name, number in totals.most_common()]


def _quoted(id: str, index: dict[str, tuple[str, str]]) -> str:
    return f"{id:<34} “{index[id][1]}”"


def _part(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def main(arguments: list[str]) -> int:
    """Print the report; 1 when a promise is broken."""
    as_json = "--json" in arguments
    index = read_index()
    report = summary(index, run([word for word in arguments if word != "--json"]))
    print(json.dumps(report, indent=1, ensure_ascii=False) if as_json else page(report, index))
    return 1 if report["broken"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
