"""Drift and slow steps, in closed form."""

import random

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.diagnose.pace import excesses
from stepscope.records import Header, Phases, Step


def rules(records):
    """The verdicts by rule."""
    case = Case()
    for record in records:
        case.see(record)
    return {verdict.rule: verdict for verdict in verdicts(case)}


def line(growth, steps=300, **known):
    """Steps whose time grows in a straight line."""
    return [Step(step=n, duration_ms=100 * (1 + growth * n / steps), **known) for n in range(steps)]


def test_a_straight_line_gives_its_own_numbers():
    """From 100 to 150 ms over 300 steps, ten of them left out at the start: 101.7 to 150."""
    verdict = rules(line(0.5))["drift"]
    assert verdict.evidence["start_ms"] == pytest.approx(101.67, rel=0.01)
    assert verdict.evidence["end_ms"] == pytest.approx(150, rel=0.01)
    assert verdict.gain == pytest.approx(1 - 101.67 / 125.8, rel=0.02)
    assert "steps take 48 % longer at the end than at the start, over 290 steps" in verdict.message


def test_a_drift_needs_two_hundred_steps():
    """The same growth over 150 steps may be a warm-up."""
    assert rules(line(0.5, steps=150)) == {}


def test_one_jump_that_goes_back_is_no_drift():
    """A neighbour on the machine for a while slows the steps, and no trend comes of it."""
    slow = [Step(step=n, duration_ms=130.0 if 120 < n < 180 else 100.0) for n in range(300)]
    assert "drift" not in rules(slow)


def test_longer_sequences_are_no_drift():
    """Steps that take longer as they hold more tokens keep their pace."""
    growing = [Step(step=n, duration_ms=100.0 + n, step_tokens=1000 + 10 * n) for n in range(300)]
    assert rules(growing) == {}
    assert (
        "a token's work takes"
        in rules([Step(step=n, duration_ms=100.0 + n, step_tokens=1000 + n % 2) for n in range(300)])["drift"].message
    )


def test_two_attempts_are_not_one_line():
    """A resume on a slower machine is no drift: each attempt is judged by itself."""
    first = [Header(attempt=1), *(Step(step=n, duration_ms=100.0) for n in range(250))]
    second = [Header(attempt=2), *(Step(step=n, duration_ms=150.0) for n in range(250, 500))]
    assert rules([*first, *second]) == {}


def test_the_phase_that_grows_is_named():
    """All of the growth is in the forward pass."""
    records = [
        Phases(step=n, duration_ms=20 + n / 30, host_ms={"forward_pass": 8 + n / 30, "backward_pass": 12.0})
        for n in range(300)
    ]
    assert rules(records)["drift"].evidence["phase"] == "forward_pass"


def test_slow_steps_without_a_rhythm_are_told_as_such():
    """Random ones are one in about N, from a tenth of the time on: information, for long samples are slow as well."""
    chance = random.Random(5)
    records = [Step(step=n, duration_ms=100.0 if chance.random() < 0.03 else 10.0) for n in range(1000)]
    verdict = rules(records)["slow_step"]
    assert (verdict.level, verdict.evidence["periodic"]) == ("info", False)
    assert verdict.message.startswith("one step in about ")


def test_an_excess_is_what_lies_beyond_the_steps_around():
    """One step of 100 among steps of 10 has 90; where the pace changes, nobody is slow."""
    assert excesses([10.0] * 30 + [100.0] + [10.0] * 30, factor=1.5) == [0.0] * 30 + [90.0] + [0.0] * 30
    assert sum(excesses([10.0] * 100 + [18.0] * 100, factor=1.5)) == 0


def test_two_slow_steps_are_no_pattern():
    """One in N begins with three."""
    records = [Step(step=n, duration_ms=1000.0 if n in (50, 90) else 10.0) for n in range(100)]
    assert rules(records) == {}


@pytest.mark.parametrize(("n", "words"), [(2, "2nd"), (3, "3rd"), (21, "21st"), (11, "11th"), (100, "100th")])
def test_the_rhythm_is_an_ordinal(n, words):
    """Every 3rd, every 21st."""
    from stepscope.diagnose.pace import _ordinal

    assert _ordinal(n) == words
