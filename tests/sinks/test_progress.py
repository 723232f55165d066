"""Remaining time from a robust step time, evaluations counted, through resume and sparse logging."""

from datetime import UTC, datetime, timedelta

import pytest

from stepscope.records import Eval, Header, Step
from stepscope.sinks.progress import Progress
from stepscope.sinks.text import duration, eta

START = datetime(2026, 1, 15, tzinfo=UTC)


def at(seconds: float) -> str:
    """A record's time."""
    return (START + timedelta(seconds=seconds)).isoformat(timespec="microseconds")[:26]


def progress(header: Header, *records: Step | Eval) -> Progress:
    """The progress after the records."""
    result = Progress()
    result.begin(header)
    for record in records:
        (result.step if isinstance(record, Step) else result.eval)(record)
    return result


def steps(count: int, every: float = 2.0, stride: int = 1, first: int = 0, begin: float = 0) -> list[Step]:
    """Steps that take `every` seconds each, of which each `stride`-th is logged."""
    return [Step(step=first + n * stride, time=at(begin + n * stride * every), step_tokens=100) for n in range(count)]


def test_eta_is_the_median_step_times_the_steps_that_are_left() -> None:
    """One step that took an hour does not count."""
    slow = [*steps(50), *steps(49, first=50, begin=3600)]
    assert progress(Header(total_steps=200), *slow).eta_s == pytest.approx(2 * (200 - 98))


def test_sparse_logging_gives_the_same_eta() -> None:
    """The time between two records is that of all the steps between them."""
    assert progress(Header(total_steps=200), *steps(10, stride=10)).eta_s == pytest.approx(2 * (200 - 90))


@pytest.mark.parametrize("stride", [1, 10])
def test_tokens_count_the_steps_between_records(stride: int) -> None:
    """Percent and eta are right when only each tenth step is logged."""
    result = progress(Header(total_tokens=20_000), *steps(90 // stride + 1, stride=stride))
    assert result.percent == pytest.approx(45.5)
    assert result.eta_s == pytest.approx(2 * 109)


def test_epochs_give_an_eta_too() -> None:
    """From the steps that an epoch took."""
    some = [Step(step=n, epoch=n / 50, time=at(2 * n)) for n in range(1, 101)]
    result = progress(Header(total_epochs=4.0), *some)
    assert (result.percent, result.eta_s) == (pytest.approx(50), pytest.approx(200))


def test_evaluations_are_no_part_of_a_step_but_of_what_is_left() -> None:
    """Ten seconds each fifty steps are 0.2 s a step more."""
    records: list[Step | Eval] = []
    for part in range(4):
        records += steps(50, first=50 * part, begin=part * 110)
        records.append(Eval(step=50 * part + 49, time=at(part * 110 + 108), duration_ms=10_000))
    records.append(Step(step=200, time=at(440)))
    result = progress(Header(total_steps=400), *records)
    assert result.eta_s == pytest.approx(200 * 2.2, rel=0.01)


def test_a_resumed_run_knows_its_eta_at_once() -> None:
    """From the step's own duration, until the second record comes."""
    result = progress(Header(total_steps=1000), Step(step=900, time=at(0), duration_ms=500, step_tokens=10))
    assert (result.percent, result.eta_s) == (90.0, 50.0)
    result.step(Step(step=901, time=at(2), duration_ms=500))
    assert result.eta_s == 198.0


def test_a_rewind_measures_anew() -> None:
    """The time between the last step of the old history and the first of the new is no step."""
    result = progress(Header(total_steps=100), *steps(50))
    result.rewind()
    for step in steps(10, first=20, begin=5000):
        result.step(step)
    assert result.eta_s == pytest.approx(2 * 71)


def test_a_clock_that_jumps_back_is_left_out() -> None:
    """Summer time, or a server that sets it."""
    assert progress(Header(total_steps=100), *steps(20), *steps(20, first=20)).eta_s == pytest.approx(2 * 61)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 1e-300])
def test_a_number_that_is_not_finite_ends_no_line(odd: float) -> None:
    """Just when a run diverges, its lines are wanted."""
    result = progress(Header(total_steps=100), *steps(10), Eval(step=9, time=at(18), duration_ms=odd))
    for header in (Header(total_steps=100), Header(total_epochs=2.0)):
        for step in (Step(step=11, time=at(22), duration_ms=odd, epoch=odd), Step(step=12, time=at(24), epoch=odd)):
            result.begin(header)
            result.step(step)
            assert result.eta_s is None or result.eta_s < 1e9


def test_an_evaluation_that_does_not_say_how_long_it_took_is_timed_by_the_records() -> None:
    """From the step before it."""
    records: list[Step | Eval] = [*steps(50), Eval(step=49, time=at(198)), Step(step=50, time=at(200))]
    assert progress(Header(total_steps=150), *records).eta_s == pytest.approx(100 * (2 + 100 / 50))


def test_nothing_is_said_where_nothing_is_known() -> None:
    """No total, no time, no epoch."""
    assert progress(Header(), *steps(10)).eta_s is None
    assert progress(Header(total_steps=10), Step(step=1), Step(step=2)).eta_s is None
    assert progress(Header(), Step(step=1)).percent is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "00m00s"),
        (754, "12m34s"),
        (8100, "02h15m"),
        (3599, "59m59s"),
        (3600, "01h00m"),
        (99 * 3600, "99h00m"),
        (100 * 3600, "4d 04h"),
        (86400 * 12, "12d 00h"),
    ],
)
def test_eta_has_a_format_of_days(seconds: float, text: str) -> None:
    """Minutes, hours up to 99, then days."""
    assert eta(seconds) == text


def test_durations_are_said_as_a_person_says_them() -> None:
    """Seconds, minutes, hours."""
    assert [duration(s) for s in (1.25, 119, 600, 7500)] == ["1.2 s", "119.0 s", "10 min", "2 h 5 min"]
