"""What a case keeps: all of a run, or its newest part in bounded memory."""

import sys

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import LIVE_STEPS, Case
from stepscope.diagnose.rows import Rows
from stepscope.records import Gpu, Memory, Message, Other, Phases, System


def waiting(case, steps, wait, begin=0):
    """Steps of 10 ms with so long a wait for data."""
    for step in range(begin, begin + steps):
        case.see(Phases(step=step, duration_ms=10.0, host_ms={"data_generation": wait}))
    return [verdict.rule for verdict in verdicts(case)]


def test_a_live_verdict_begins_and_ends_with_its_cause():
    """A hundred steps after the wait begins it is there, and a hundred after it has ended it is gone."""
    case = Case(live=True)
    assert waiting(case, 500, 1.0) == []
    assert waiting(case, 100, 6.0, begin=500) == ["data_generation"]
    assert waiting(case, 100, 1.0, begin=600) == []


def test_a_whole_run_is_judged_by_all_of_it():
    """The same wait over a sixth of the run is no finding of the run."""
    case = Case()
    waiting(case, 500, 1.0)
    assert waiting(case, 100, 6.0, begin=500) == []


def test_a_live_case_stays_small():
    """After a hundred thousand steps it holds no more rows than after a few thousand."""
    case = Case(live=True)
    for step in range(20_000):
        case.see(Phases(step=step, duration_ms=10.0, host_ms={f"phase-{step // 1000}": 1.0}))
        case.see(System(step=step, ram_percent=10.0))
        case.see(Gpu(step=step, id=0, clock=1000))
        case.see(Memory(step=step, id=0, allocated=1))
    rows = [case.phases, case.system, *case.gpus.values(), *case.memory.values()]
    assert max(map(len, rows)) <= 2 * LIVE_STEPS
    assert len(case.reasons[0]) == len(case.gpus[0])
    assert len(case.phases.names("host/")) <= 3
    assert sum(sys.getsizeof(rows.column(name)) for rows in rows for name in rows.names()) < 1 << 20


def test_the_first_steps_are_left_out_of_short_runs_and_forgotten_in_long_ones():
    """Ten steps, or a quarter of fewer; a live case that has forgotten them leaves out no others."""
    case = Case(live=True)
    waiting(case, 12, 1.0)
    assert case.begin(case.phases) == 3
    waiting(case, 100, 1.0)
    assert case.begin(case.phases) == 10
    waiting(case, 3000, 1.0)
    assert case.begin(case.phases) == 0


def test_what_no_rule_needs_is_ignored():
    """Messages and kinds of other programs pass by."""
    case = Case()
    case.see(Message(step=3, message="hello"))
    case.see(Other("theirs", {"step": 4}))
    assert case.last_step == 0


def test_a_column_has_a_value_for_every_row():
    """A name that comes late or goes early is NaN where it is not known."""
    rows = Rows()
    rows.add(1, {"a": 1.0, "b": None})
    rows.add(2, {"b": 2.0, "a": float("inf")})
    rows.add(3, {})
    assert [list(map(str, rows.column(name))) for name in ("a", "b", "c")] == [
        ["1.0", "nan", "nan"],
        ["nan", "2.0", "nan"],
        ["nan", "nan", "nan"],
    ]
    assert (rows.mean("b"), rows.per_row("b"), rows.mean("c")) == (2.0, pytest.approx(2 / 3), None)


def test_rows_forget_the_oldest():
    """At most twice as many as are kept, and the newest are among them."""
    rows = Rows(keep=10)
    for step in range(100):
        rows.add(step, {"a": float(step)})
        assert len(rows) <= 20
    assert rows.steps[-1] == rows.column("a")[-1] == 99
    assert len(rows) + rows.dropped == 100
