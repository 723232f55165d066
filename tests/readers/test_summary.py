"""The summary of a run: each number against one worked out by hand."""

import math
from array import array
from datetime import UTC, datetime

import pytest

from stepscope.codec import encode
from stepscope.readers.curve import Column, Curve, columns, curve
from stepscope.readers.run_file import read_run
from stepscope.readers.summary import rank_events, summarize
from stepscope.records import End, Epoch, Eval, Event, Gpu, Header, Rewind, Spent, Step

NOW = datetime(2026, 1, 15, 11, 0, 0, tzinfo=UTC)


@pytest.fixture
def summary(tmp_path):
    """Sums up a run of the given records, as seen at 11:00."""

    def of(*records, now=NOW):
        path = tmp_path / "training.json"
        path.write_bytes(b"[\n" + b",\n".join(map(encode, records)) + b"\n]\n")
        return summarize(read_run(path), now)

    return of


def header(time="2026-01-15T10:00:00.000000", **known):
    """A header of another machine."""
    return Header(time=time, id="x", host="elsewhere", pid=1, **known)


def step(number, minute=None, **known):
    """A step at a minute past ten."""
    return Step(time=f"2026-01-15T10:{number if minute is None else minute:02d}:00.000000", step=number, **known)


def test_a_curve_has_its_ends_and_extremes():
    """First, last, lowest and highest with their steps; a value that was not logged does not count."""
    steps = [Step(step=n, loss=loss) for n, loss in enumerate([4.0, 1.0, None, 9.0, 3.0], 1)]
    assert curve(columns(steps, ["loss"])["loss"]) == Curve(4, 4.0, 3.0, 1.0, 2, 9.0, 4, 0)


def test_a_curve_tells_what_is_not_finite():
    """NaN and infinities are counted, and are no extremes."""
    found = curve(Column(array("q", [1, 2, 3]), array("d", [2.0, math.inf, math.nan])))
    assert (found.lowest, found.highest, found.non_finite) == (2.0, 2.0, 2)
    assert math.isnan(found.last)
    assert curve(Column(array("q", [1]), array("d", [math.nan]))).lowest is None


def test_speed_is_a_median(summary):
    """One step that compiles for a minute does not move the typical step."""
    steps = [step(n, duration_ms=ms, step_tokens=1000, sol=50.0) for n, ms in enumerate([60_000, 100, 110, 90, 100], 1)]
    speed = summary(header(), *steps).speed
    assert (speed.step_ms, speed.tokens_per_second, speed.sol, speed.share) == (100.0, 10_000.0, 50.0, None)


@pytest.mark.parametrize(
    ("first", "last", "progress"), [(1, 50, 0.5), (0, 49, 0.5), (0, 99, 1.0), (1, 100, 1.0), (1, 120, 1.0)]
)
def test_progress_counts_from_zero_or_one(summary, first, last, progress):
    """A run of 100 steps is done at step 100 when it counts from 1, and at 99 when it counts from 0."""
    assert summary(header(total_steps=100), step(first, 1), step(last, 2)).progress == progress


def test_progress_by_tokens_or_epochs(summary):
    """Where steps have no total, tokens or epochs tell; where nothing has, nothing is told."""
    assert summary(header(total_tokens=80), step(1, step_tokens=10), step(2, step_tokens=10)).progress == 0.25
    assert summary(header(total_epochs=4.0), step(9, epoch=1.0)).progress == 0.25
    assert summary(header(), step(9, epoch=1.0)).progress is None


def test_tokens_are_unknown_when_steps_were_skipped(summary):
    """The sum is given only when every step was logged."""
    assert summary(header(), *(step(n, step_tokens=10) for n in (1, 2, 3))).tokens == 30
    assert summary(header(), *(step(n, step_tokens=10) for n in (1, 3))).tokens is None
    assert summary(header(), step(1, step_tokens=10), step(2)).tokens is None


def test_time_at_work_leaves_out_the_pause(summary):
    """Two attempts of ten minutes with half an hour between were twenty minutes at work."""
    records = [header(), step(1, 5), step(2, 10)]
    records += [header(time="2026-01-15T10:40:00.000000", attempt=2), step(3, 45), step(4, 50)]
    found = summary(*records)
    assert (found.duration_s, found.attempts) == (1200.0, 2)


def test_the_last_attempt_decides_the_state(summary):
    """An end that a resume followed is not the end of the run."""
    first = [header(), step(1), End(time="2026-01-15T10:02:00.000000", status="failed", reason="OSError")]
    assert summary(*first).status == "failed"
    resumed = header(time="2026-01-15T10:59:00.000000", attempt=2)
    assert summary(*first, resumed, step(2, 59)).status == "running"


def test_a_long_silence_elsewhere_is_a_cut(summary):
    """Without an end it counts as running for an hour, or for twenty steps if these take longer."""
    late = datetime(2026, 1, 15, 11, 5, 0, tzinfo=UTC)
    assert summary(header(), step(1), now=NOW).status == "running"
    assert summary(header(), step(1), now=late).status == "cut off"
    assert summary(header(), step(1, duration_ms=600_000), now=late).status == "running"


def test_a_foreign_file_has_no_known_end(tmp_path):
    """A file without a header never says how it ended; an old one is neither running nor cut off."""
    path = tmp_path / "log.json"
    path.write_text('[\n  {"log": "step", "time": "2026-01-15 08:00:00.123456789", "step": 1, "loss": 2.5}\n]\n')
    found = summarize(read_run(path), NOW)
    assert (found.status, found.loss.last, found.attempts) == (None, 2.5, 1)
    assert found.idle_s == pytest.approx(3 * 3600, abs=1)


def test_a_foreign_step_that_is_no_number_of_steps_is_left_out(tmp_path):
    """Beyond what a column holds: the summary of the others stands."""
    path = tmp_path / "log.json"
    lines = (f'{{"log":"step","time":"2026-01-15T08:00:00","step":{n},"loss":{n % 7}}}' for n in (1, 2**63, 10**30))
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    assert summarize(read_run(path), NOW).loss == Curve(1, 1.0, 1.0, 1.0, 1, 1.0, 1, 0)


def test_time_left_is_told_of_a_running_run(summary):
    """The steps that remain times the typical step; of a run that ended, nothing remains."""
    steps = [step(n, minute=58, duration_ms=2000) for n in range(1, 11)]
    assert summary(header(total_steps=100), *steps).eta_s == 180.0
    assert summary(header(total_steps=100), *steps, End(time=steps[-1].time)).eta_s is None


def test_events_are_grouped_by_rule_and_ranked():
    """The gravest first, then the latest; the words are those of the last one."""
    events = [
        Event(step=1, severity="info", rule="a", message="first"),
        Event(step=2, severity="warning", rule="b", message="one"),
        Event(step=3, severity="warning", rule="b", message="two"),
        Event(step=9, severity="warning", rule="c", message="three"),
        Event(step=4, severity="error", rule="d", message="bad"),
    ]
    ranked = rank_events(events)
    assert [group.rule for group in ranked] == ["d", "c", "b", "a"]
    assert (ranked[2].message, ranked[2].count, ranked[2].first_step, ranked[2].last_step) == ("two", 2, 2, 3)


def test_the_newest_history_counts(summary):
    """After a rewind, superseded values are in no curve, and the jump is told."""
    found = summary(header(), step(1, loss=3.0), step(2, loss=0.1), Rewind(step=2, last_step=2), step(2, loss=2.0))
    assert (found.loss.lowest, found.steps) == (2.0, 2)
    assert [(jump.from_step, jump.to_step) for jump in found.rewinds] == [(2, 2)]


def test_gpus_are_summed_up_by_id(summary):
    """Use and power are means, temperature the highest, free memory the lowest; -1 of a foreign tracker is unknown."""
    gpus = [Gpu(step=n, id=n % 2, gpu_util=50 + n, power=n * 1000, temperature=-1, throttle="no cap") for n in range(4)]
    first, second = summary(header(), *gpus).gpus
    assert (first.id, first.gpu_util, first.power) == (0, 51.0, 1000.0)
    assert (second.id, second.gpu_util, second.temperature, second.throttle) == (1, 52.0, None, None)


def test_evaluations_have_their_curve(summary):
    """The lowest evaluation and its step."""
    evals = [
        Eval(time="2026-01-15T10:10:00.000000", step=n, loss=loss) for n, loss in ((10, 3.0), (20, 2.0), (30, 2.5))
    ]
    assert summary(header(), *evals).eval == Curve(3, 3.0, 2.5, 2.0, 20, 3.0, 10, 0)


def test_an_empty_run_knows_nothing(summary):
    """Without a record everything is unknown, not zero."""
    found = summary()
    assert (found.status, found.last_step, found.duration_s, found.loss, found.speed.step_ms) == (
        None,
        None,
        None,
        Curve(),
        None,
    )


def test_where_the_newest_epochs_time_went(summary):
    """Its phases and what is left, in percent; nothing where no epoch was timed."""
    records = [
        Epoch(step=9 * n, epoch=n, total_ms=100.0, phases=[Spent(name="forward_pass", ms=ms)], other_ms=100 - ms)
        for n, ms in ((1, 50.0), (2, 25.0))
    ]
    assert summary(Header(), *records).shares == {"forward_pass": 25.0, "other": 75.0}
    assert summary(Header()).shares == {}
