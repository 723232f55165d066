"""Intervals of a ratio against tables, closed forms and simulated runs."""

import random
from math import exp, sqrt
from statistics import NormalDist

import pytest

from stepscope.readers.ratios import Total, estimate, interval, median_interval, student

# two-sided 95 % quantiles of Student's distribution, from a table
TABLE = {4: 2.776, 5: 2.571, 7: 2.365, 10: 2.228, 20: 2.086, 30: 2.042, 120: 1.980}


@pytest.mark.parametrize("freedom", TABLE)
def test_students_quantiles_are_the_tables(freedom):
    """To the third decimal from seven degrees on, within half a percent below."""
    assert student(freedom) == pytest.approx(TABLE[freedom], abs=0.001 if freedom >= 7 else 0.013)


def test_the_error_of_independent_steps_is_the_textbooks():
    """A coefficient of variation of 10 % over 400 steps is an error of 0.5 %."""
    chance = random.Random(0)
    errors = [estimate(Total([chance.gauss(10, 1) for _ in range(400)], [1.0] * 400)).error for _ in range(200)]
    assert sum(errors) / len(errors) == pytest.approx(0.1 / sqrt(400), rel=0.15)


def test_a_share_knows_that_its_parts_move_together():
    """Waits of exactly a tenth of steps that vary by half have no error at all."""
    chance = random.Random(1)
    steps = [chance.uniform(5, 15) for _ in range(400)]
    found = estimate(Total([step / 10 for step in steps], steps))
    assert (found.value, found.error) == (pytest.approx(0.1), pytest.approx(0, abs=1e-9))


def correlated(seed, steps, mean=10.0):
    """Steps of which each is like the one before: correlation 0.8."""
    chance, level, found = random.Random(seed), 0.0, []
    for _ in range(steps):
        level = 0.8 * level + chance.gauss(0, 0.03)
        found.append(mean * exp(level + chance.gauss(0, 0.02)))
    return Total(found, [1.0] * steps)


@pytest.mark.parametrize("steps", [60, 300])
def test_nineteen_of_twenty_intervals_hold_the_truth(steps):
    """Also where neighbouring steps are alike; without blocks every second interval would miss it."""
    missed = 0
    for seed in range(100):
        low, high = interval(correlated(2 * seed, steps), correlated(2 * seed + 1, steps, mean=12.0))
        missed += not low <= 1.2 <= high
    # 5 of 100, and three standard deviations more
    assert missed <= 5 + 3 * sqrt(100 * 0.05 * 0.95)


@pytest.mark.parametrize("steps", [60, 300])
def test_the_medians_interval_holds_the_truth_as_often(steps):
    """Nineteen of twenty, by the same simulated runs."""
    runs = [(correlated(2 * n, steps).over, correlated(2 * n + 1, steps, mean=12.0).over) for n in range(60)]
    missed = sum(not low <= 1.2 <= high for low, high in (median_interval(*pair) for pair in runs))
    assert missed <= 3 + 3 * sqrt(60 * 0.05 * 0.95)


def test_the_medians_interval_is_the_same_each_time():
    """The seed is fixed; what is too short has none."""
    a, b = correlated(1, 100).over, correlated(2, 100).over
    assert median_interval(a, b) == median_interval(a, b)
    assert median_interval(a[:20], b) is None


def test_twice_as_long_is_seen():
    """The interval lies around the true ratio and excludes 1."""
    low, high = interval(correlated(1, 100, 10), correlated(2, 100, 20))
    assert 1.7 < low < 2 < high < 2.3


def test_a_run_against_itself_is_one():
    """The interval holds 1."""
    low, high = interval(correlated(1, 100), correlated(1, 100))
    assert low < 1 < high


@pytest.mark.parametrize("values", [[], [1.0] * 5, [0.0] * 50])
def test_what_gives_no_interval_gives_none(values):
    """Nothing, too little, and what is nothing in every step."""
    assert interval(Total(values, [1.0] * len(values)), correlated(1, 100)) is None


def test_equal_steps_have_an_interval_of_no_width():
    """10 ms and 20 ms, exactly, in every step."""
    assert interval(Total([10.0] * 50, [1.0] * 50), Total([20.0] * 50, [1.0] * 50)) == (2.0, 2.0)
    assert NormalDist().inv_cdf(0.975) < student(5)
