"""Robust statistics against closed forms."""

import random

import pytest

from stepscope.diagnose.slopes import block_levels, quantile, spread, trend


def test_a_straight_line_is_found_exactly():
    """Its ends lie half a step outside the first and the last value."""
    line = trend([10 + 0.1 * n for n in range(200)])
    assert line.start == pytest.approx(10 - 0.05)
    assert line.end == pytest.approx(10 + 0.1 * 199.5)
    assert line.steady == 1


def test_one_odd_value_in_four_moves_nothing():
    """The line stays within a hundredth."""
    chance = random.Random(0)
    line = trend([(10 + 0.1 * n) * (50 if chance.random() < 0.25 else 1) for n in range(400)])
    assert (line.start, line.end) == (pytest.approx(10, rel=0.1), pytest.approx(50, rel=0.05))


def test_noise_is_no_trend():
    """Kendall's tau of 20 blocks of noise is above 0.4 about once in a hundred times."""
    chance = random.Random(1)
    steady = [trend([chance.gauss(10, 1) for _ in range(200)]).steady for _ in range(1000)]
    assert sum(tau > 0.4 for tau in steady) <= 12


def test_the_spread_of_a_normal_is_its_standard_deviation():
    """And ten percent of outliers hardly move it."""
    chance = random.Random(2)
    values = [chance.gauss(0, 3) for _ in range(4000)]
    assert spread(values) == pytest.approx(3, rel=0.05)
    assert spread([*values, *[1000.0] * 400]) == pytest.approx(3, rel=0.2)


def test_quantiles_are_values_that_are_there():
    """The nearest rank: the 95th of a hundred, the only one of one."""
    assert quantile(range(1, 101), 0.95) == 95
    assert quantile([7.0], 0.95) == 7.0
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0


def test_blocks_cover_everything():
    """Of about the same length, none empty."""
    assert block_levels([1.0, 1, 2, 2, 3, 3], 3) == [1, 2, 3]
    assert trend([1.0, 2.0]) is None
