"""Which records may be left out, and which may not."""

import math

import pytest

from stepscope.records import KINDS, Gpu, Metrics, Moe, Record, Step
from stepscope.sinks.worth import Worth

ORDINARY = {"step", "gpu", "moe", "metrics", "phases", "profile", "system", "memory"}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - ORDINARY))
def test_what_does_not_come_with_every_step_is_precious(kind: str) -> None:
    """Evaluations, events, rewinds, what describes the run."""
    assert Worth().precious(KINDS[kind]())


@pytest.mark.parametrize(
    "record", [Step(step=1, loss=2.0, norm=0.1), Gpu(id=0), Moe(aux_loss=0.1), Metrics(values={"a": 1})]
)
def test_the_numbers_of_a_step_are_ordinary(record: Record) -> None:
    """There are many."""
    assert not Worth().precious(record)


@pytest.mark.parametrize(
    "record",
    [Step(loss=math.nan), Step(norm=math.inf), Moe(aux_loss=math.nan), Metrics(values={"a": 1, "b": -math.inf})],
)
def test_what_is_not_finite_is_precious(record: Record) -> None:
    """Wherever it stands."""
    assert Worth().precious(record)


def test_a_norm_that_stands_out_is_precious() -> None:
    """More than five times the average of those before."""
    worth = Worth()
    assert not any(worth.precious(Step(step=step, norm=1.0)) for step in range(20))
    assert worth.precious(Step(step=20, norm=5.1))
    assert not worth.precious(Step(step=21, norm=4.9))
