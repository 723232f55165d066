"""Sums over steps: mean, deviation and percentiles against the standard library, shares that add up."""

import random
import statistics
from typing import Any

import pytest

from stepscope.records import Epoch, Profile
from stepscope.speed.moments import EpochTimes, Source, StepTimes
from stepscope.speed.phases import Taken
from stepscope.speed.profile import SAMPLE, Durations, Sums, epoch_record, phases_record, profile_record
from stepscope.speed.timeline import Timed

MS = 1_000_000


def timed(duration: float, worker: float | None = None, batches: int = 1, **phases: float) -> Timed:
    """A step that took so many milliseconds, and its phases; `_` in a name stands for the `/` of a part."""
    step, taken = StepTimes(0), Taken()
    step.fetched, step.samples = batches, 8 * batches
    step.worker = None if worker is None else int(worker * MS)
    step.source = Source()
    taken.host = {name.replace("__", "/"): [int(ms * MS), 1] for name, ms in phases.items()}
    return Timed("step", step, None, taken, int(duration * MS))


def test_durations_are_those_of_the_standard_library() -> None:
    """Of up to two thousand, all are kept: mean, deviation and nearest-rank percentiles are exact."""
    chance = random.Random(1)
    values = [chance.lognormvariate(3, 0.5) for _ in range(1501)]
    durations = Durations()
    for value in values:
        durations.add(value)
    found = durations.fields()
    assert found["mean_ms"] == pytest.approx(statistics.fmean(values))
    assert found["std_ms"] == pytest.approx(statistics.pstdev(values))
    assert found["p50_ms"] == statistics.median(values)
    assert found["p99_ms"] == sorted(values)[-(-99 * len(values) // 100) - 1]


def test_many_durations_take_little_memory() -> None:
    """Mean and deviation stay exact, percentiles come from an even sample."""
    durations = Durations()
    for value in range(100_000):
        durations.add(float(value))
    assert len(durations._kept) <= SAMPLE
    found = durations.fields()
    assert found["mean_ms"] == pytest.approx(49_999.5)
    assert found["p95_ms"] == pytest.approx(95_000, rel=0.01)


def profile(*steps: Timed, **more: Any) -> Profile:
    """The profile of some steps."""
    sums = Sums()
    for step in steps:
        sums.step(step)
    return profile_record(sums, 1, 0.30, **more)


def test_the_wait_for_data_is_a_share_of_the_steps_time() -> None:
    """31 % is a bottleneck, 29 % is none; the severity is the share."""
    above = profile(timed(100, data_generation=31), timed(100, data_generation=31))
    below = profile(timed(100, data_generation=29), timed(100, data_generation=29))
    assert (above.data_gen_percentage, above.bottleneck_data_generation) == (pytest.approx(31), True)
    assert above.data_gen_bottleneck_severity == pytest.approx(0.31)
    assert above.data_generation_ms == pytest.approx(31)
    assert (below.data_gen_percentage, below.bottleneck_data_generation) == (pytest.approx(29), False)


def test_transfer_is_a_share_of_the_same() -> None:
    """Mean and percent."""
    record = profile(timed(50, data_transfer=10), timed(150, data_transfer=10))
    assert (record.data_transfer_ms, record.transfer_percentage) == (pytest.approx(10), pytest.approx(10))


def test_workers_are_counted_for_each_batch() -> None:
    """And left out where there are none."""
    assert profile(timed(10, worker=40, batches=2), timed(10, worker=20, batches=2)).worker_ms == pytest.approx(15)
    assert profile(timed(10)).worker_ms is None


def test_a_host_alone_knows_nothing_of_a_device() -> None:
    """No wait of it, no clock of it."""
    record = profile(timed(10, data_generation=1))
    assert (record.clock, record.input_wait_ms) == ("host", None)
    assert phases_record(timed(10, data_generation=1)).device_ms is None


def epoch(total: float, steps: list[Timed], around: dict[str, float]) -> Epoch:
    """An epoch of these steps, and of what lay around them."""
    sums = Sums()
    for step in steps:
        sums.step(step)
    taken = Taken()
    taken.host = {name: [int(ms * MS), 1] for name, ms in around.items()}
    sums.add(Timed("outside", None, None, taken, 0))
    whole = Timed("epoch", EpochTimes(3, 0), None, Taken(), int(total * MS))
    return epoch_record(sums, whole, 41.0, {0: 7})


def test_an_epoch_adds_up() -> None:
    """Its top phases and `other` are all of its time; parts are within their phases."""
    steps = [timed(100, forward_pass=60, forward_pass__attention=50, optimizer_step=20) for _ in range(4)]
    record = epoch(500, steps, {"validation_epoch": 70, "validation_epoch/forward_pass": 60})
    assert record.phases is not None
    spent = {phase.name: phase.ms for phase in record.phases}
    assert spent == {
        "forward_pass": pytest.approx(240),
        "forward_pass/attention": pytest.approx(200),
        "optimizer_step": pytest.approx(80),
        "validation_epoch": pytest.approx(70),
        "validation_epoch/forward_pass": pytest.approx(60),
    }
    assert record.other_ms == pytest.approx(500 - 240 - 80 - 70)
    assert (record.epoch, record.steps, record.batches, record.samples) == (3, 4, 4, 32)
    assert (record.total_ms, record.max_ram_percent) == (500, 41.0)


def test_an_epoch_is_more_than_a_hundred_batches() -> None:
    """No window of the newest is passed off as all of it."""
    record = epoch(30_000, [timed(100, forward_pass=100) for _ in range(250)], {})
    assert (record.steps, record.batches) == (250, 250)
    assert record.phases is not None
    assert record.phases[0].ms == pytest.approx(25_000)
