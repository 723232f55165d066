"""What passes to a server that takes fifteen rows a second: a burst whole, a flood evenly, and whatever matters."""

import math
from collections.abc import Iterable
from itertools import pairwise

import pytest

from stepscope.records import Eval, Event, Gpu, GpuModel, Header, Metrics, Record, Step
from stepscope.sinks.memory import Memory
from stepscope.sinks.throttle import BURST, ROWS_PER_S, Throttle


class Server(Memory):
    """A backend that closes at once."""

    def stop(self) -> None:
        self.closed = True

    def close(self, deadline_s: float = 1.0) -> int:  # type: ignore[override]
        self.stop()
        return 7


class Rig:
    """A throttle whose clock is turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.server = Server()
        self.said: list[tuple[str, str, str]] = []
        self.throttle = Throttle(self.server, clock=lambda: self.now, say=lambda *trouble: self.said.append(trouble))

    def flood(self, count: int, per_second: float, first: int = 0) -> "Rig":
        """So many steps at a rate."""
        for step in range(first, first + count):
            self.now += 1 / per_second
            self.throttle.write(Step(step=step, loss=1.0, norm=1.0))
        return self

    @property
    def steps(self) -> list[int]:
        """The steps that passed."""
        return [record.step for record in self.server.of("step")]


def gaps(steps: Iterable[int]) -> set[int]:
    return {after - before for before, after in pairwise(steps)}


def test_a_slow_run_passes_whole() -> None:
    """And nothing is said."""
    rig = Rig().flood(3000, per_second=14)
    assert rig.steps == list(range(3000))
    assert (rig.throttle.left_out, rig.said) == (0, [])


def test_a_short_burst_passes_whole() -> None:
    """However fast; and after a pause, another."""
    rig = Rig().flood(BURST, per_second=1e6)
    rig.now += 60
    rig.flood(BURST, per_second=1e6, first=BURST)
    assert rig.steps == list(range(2 * BURST))


@pytest.mark.parametrize("per_second", [20, 100, 1000, 10_000])
def test_a_flood_is_thinned_evenly(per_second: float) -> None:
    """Once it has lasted a while, the gaps between the steps that pass differ by one at most."""
    rig = Rig().flood(int(per_second * 60), per_second)
    later = [step for step in rig.steps if step > per_second * 30]
    found = gaps(later)
    assert max(found) - min(found) <= max(1, max(found) // 50)
    assert len(later) / 30 == pytest.approx(ROWS_PER_S, rel=0.05)
    assert len(rig.steps) <= 2 * BURST + ROWS_PER_S * 60
    assert rig.throttle.left_out == per_second * 60 - len(rig.steps)


def test_thousands_at_once_are_still_spread() -> None:
    """Of steps that take no time at all, some of every part pass."""
    rig = Rig().flood(5000, per_second=1e9)
    assert len(rig.steps) <= 2 * BURST
    assert max(gaps(rig.steps)) < 1000


@pytest.mark.parametrize(
    "record",
    [
        Eval(step=5000, loss=2.0),
        Event(step=5000, rule="slow"),
        Step(step=5000, loss=math.nan),
        Step(step=5000, loss=1.0, norm=50.0),
        Metrics(step=5000, values={"a": math.inf}),
        Header(id="a1"),
        GpuModel(id=0),
    ],
)
def test_what_matters_passes_in_any_flood(record: Record) -> None:
    """An evaluation, an event, what is not finite, a norm that stands out, what describes the run."""
    rig = Rig().flood(5000, per_second=1e6)
    rig.throttle.write(record)
    assert rig.server.records[-1] is record


def test_the_records_of_a_step_stay_together() -> None:
    """They make one row."""
    rig = Rig()
    for step in range(3000):
        rig.now += 0.001
        rig.throttle.write(Gpu(step=step, id=0))
        rig.throttle.write(Step(step=step))
    assert [record.step for record in rig.server.of("gpu")] == rig.steps
    assert len(rig.steps) < 1000


def test_an_event_brings_back_the_step_that_it_is_about() -> None:
    """Although it was left out when it came."""
    rig = Rig().flood(2000, per_second=1e4)
    left_out = next(step for step in range(1999, 0, -1) if step not in rig.steps)
    before = rig.throttle.left_out
    rig.throttle.write(Event(step=left_out, severity="warning", rule="data"))
    assert [record.kind for record in rig.server.records[-2:]] == ["step", "event"]
    assert rig.steps[-1] == left_out
    assert rig.throttle.left_out == before - 1


def test_what_is_odd_about_a_step_brings_its_other_records() -> None:
    """The GPU of the step at which the loss broke."""
    rig = Rig().flood(2000, per_second=1e4)
    rig.throttle.write(Gpu(step=2000, id=0, clock=1))
    rig.throttle.write(Step(step=2000, loss=math.nan))
    assert [(r.kind, r.step) for r in rig.server.records[-2:]] == [("gpu", 2000), ("step", 2000)]


def test_it_says_how_many_were_left_out() -> None:
    """Once when it begins, and the number at the end."""
    rig = Rig().flood(2000, per_second=1e4)
    assert rig.throttle.close(1.0) == 7
    rig.throttle.close(1.0)
    assert [rule for rule, _, _ in rig.said] == ["wandb-thinned", "wandb-left-out"]
    assert f"without {2000 - len(rig.steps)} of 2000 steps" in rig.said[1][1]
    assert rig.server.closed


def test_the_count_is_of_steps() -> None:
    """A step with three records counts once."""
    rig = Rig()
    for step in range(3000):
        for record in (Step(step=step), Gpu(step=step, id=0), Metrics(step=step, values={"a": 1})):
            rig.throttle.write(record)
    assert rig.throttle.steps == 3000
    assert rig.throttle.left_out == 3000 - len(rig.steps)
