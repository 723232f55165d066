"""Rates from counters."""

import pytest

from stepscope.hardware.counters import BITS_32, NarrowCounter, Rate

GEN5_X16 = 16 * 3.938e9


def test_a_rate_is_the_mean_between_two_readings():
    """What was counted, divided by the time that passed."""
    rate = Rate()
    assert rate.per_second(1_000, now=10.0) is None
    assert rate.per_second(5_000, now=12.0) == 2000.0
    assert rate.per_second(5_000, now=13.0) == 0.0


def test_a_counter_that_was_reset_has_no_rate_once():
    """A count below the last one says nothing about the time between."""
    rate = Rate()
    rate.per_second(1_000, now=0.0)
    assert rate.per_second(10, now=1.0) is None
    assert rate.per_second(110, now=2.0) == 100.0


def test_readings_too_close_together_keep_the_older_one():
    """A counter that moves in jumps is not divided by next to nothing."""
    rate = Rate(shortest_s=0.2)
    rate.per_second(0, now=0.0)
    assert rate.per_second(50, now=0.1) is None
    assert rate.per_second(100, now=0.5) == 200.0


@pytest.mark.parametrize("per_second", [0.0, 1e6, 12.5e9, 55e9, 62e9])
def test_a_narrow_counter_that_is_read_often_enough_is_exact(per_second):
    """The rate of a full link comes out although the counter came round fifteen times."""
    counter = NarrowCounter(GEN5_X16)
    for tick in range(26):
        now = tick * 0.04
        counter.add(int(per_second * now + 123_456_789) % BITS_32, now)
    assert counter.per_second() == pytest.approx(per_second, rel=1e-6, abs=1)


def test_a_gap_that_is_too_long_is_left_out_of_count_and_time():
    """A thread that was held up for a moment does not spoil the mean of the rest."""
    counter = NarrowCounter(GEN5_X16)
    for now in [0.0, 0.04, 0.08, 0.12, 0.24, 0.28, 0.32]:  # 120 ms are one gap
        counter.add(int(10e9 * now) % BITS_32, now)
    assert counter.per_second() == pytest.approx(10e9, rel=1e-6)


def test_a_narrow_counter_that_is_read_too_seldom_has_no_rate():
    """Nobody knows how often it came round in a second."""
    counter = NarrowCounter(GEN5_X16)
    counter.add(0, now=0.0)
    assert counter.per_second() is None
    counter.add(1_000_000, now=1.0)
    assert counter.per_second() is None


def test_each_rate_covers_the_time_since_the_one_before():
    """What was counted once is not counted again."""
    counter = NarrowCounter(GEN5_X16)
    for now, count in [(0.0, 0), (0.05, 100), (0.10, 200)]:
        counter.add(count, now)
    assert counter.per_second() == pytest.approx(2000)
    assert counter.per_second() is None
    counter.add(1_200, now=0.15)
    assert counter.per_second() == pytest.approx(20_000)


def test_a_counter_that_proves_wider_may_be_read_seldom():
    """Beyond 32 bits nothing comes round."""
    counter = NarrowCounter(None)
    counter.add(5 * BITS_32, now=0.0)
    counter.add(5 * BITS_32 + 3_000, now=3.0)
    assert counter.per_second() == pytest.approx(1_000)


def test_an_unknown_link_speed_gives_no_rate():
    """Without a bound on the rate, 32 bits say nothing."""
    counter = NarrowCounter(None)
    counter.add(0, now=0.0)
    counter.add(1, now=0.001)
    assert counter.per_second() is None
