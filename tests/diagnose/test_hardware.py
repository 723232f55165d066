"""Clocks that are held back, and a quota that runs out, in closed form."""

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.records import Gpu, System


def rules(*records):
    """The verdicts by rule."""
    case = Case()
    for record in records:
        case.see(record)
    return {verdict.rule: verdict for verdict in verdicts(case)}


def readings(held, reason, clock=1980, number=100, **known):
    """So many readings of a busy GPU, of which some are held back to a clock."""
    values = {"id": 0, "max_clock": 1980, "gpu_util": 98.0, "temperature": 60} | known
    return [
        Gpu(step=n, clock=clock if n < held else 1980, throttle=reason if n < held else "", **values)
        for n in range(number)
    ]


@pytest.mark.parametrize("reason", ["hardware thermal slowdown", "software thermal slowdown", "hardware power brake"])
@pytest.mark.parametrize(("held", "names"), [(9, set()), (11, {"throttle"}), (90, {"throttle"})])
def test_a_throttle_is_named_from_a_tenth_of_the_readings_on(held, names, reason):
    """What it costs is how often times how much of the clock: at 990 of 1980 MHz the half."""
    found = rules(*readings(held, reason, clock=990))
    assert set(found) == names
    if names:
        verdict = found["throttle"]
        assert (verdict.level, verdict.evidence["reason"]) == ("warning", reason)
        assert verdict.gain == pytest.approx(held / 200)


@pytest.mark.parametrize(("clock", "level"), [(1700, "info"), (1400, "warning")])
def test_a_gpu_at_its_power_limit_is_healthy_while_its_clock_is_high(clock, level):
    """At 86 % of the clock it is information, at 71 % a warning; the advice is about power."""
    verdict = rules(*readings(100, "software power cap", clock=clock))["throttle"]
    assert verdict.level == level
    assert "power limit" in verdict.advice[0]


def test_the_worst_reason_decides():
    """Heat and power together are heat."""
    verdict = rules(*readings(50, "hardware thermal slowdown, software power cap", clock=1200, temperature=91))[
        "throttle"
    ]
    assert "cooling" in verdict.advice[0]
    assert verdict.evidence["temperature"] == 91


@pytest.mark.parametrize(("clock", "names"), [(1600, set()), (1560, {"clock"}), (800, {"clock"})])
def test_a_low_clock_that_nothing_holds_back_is_named(clock, names):
    """Below 80 % of the highest somebody has set it so."""
    found = rules(*readings(100, "application clocks", clock=clock))
    assert set(found) == names
    if names:
        assert found["clock"].gain == pytest.approx(1 - clock / 1980)


def test_an_idle_gpu_clocks_down_and_may():
    """Readings with little work count for nothing, and so do two alone."""
    assert rules(*readings(100, "", clock=345, gpu_util=2.0)) == {}
    assert rules(*readings(2, "hardware thermal slowdown", clock=345, number=2)) == {}


@pytest.mark.parametrize("reason", ["no cap", "not supported", "", "idle", None])
def test_another_programs_words_for_nothing_are_nothing(reason):
    """What Surogate writes where no clock is held back, or where nobody can tell."""
    assert rules(*readings(100, reason)) == {}


def test_unknown_clocks_give_no_gain():
    """Without clocks it is known how often, and not how much."""
    held = [Gpu(step=n, id=0, throttle="thermal cap") for n in range(10)]
    verdict = rules(*held)["throttle"]
    assert (verdict.gain, verdict.severity) == (None, 1.0)


def test_of_several_gpus_the_slowest_is_named():
    """It holds all of them back."""
    cool = [Gpu(step=n, id=1, clock=1980, max_clock=1980, throttle="") for n in range(10)]
    hot = [Gpu(step=n, id=5, clock=990, max_clock=1980, throttle="software thermal slowdown") for n in range(10)]
    assert rules(*cool, *hot)["throttle"].message.startswith("GPU 5 was held back in 100 %")


@pytest.mark.parametrize(("share", "names"), [(0.049, set()), (0.051, {"cpu_quota"}), (0.8, {"cpu_quota"})])
def test_a_quota_is_named_from_a_twentieth_of_the_periods_on(share, names):
    """The mean over the readings counts."""
    found = rules(*(System(step=n, cpus=2.0, cpu_throttled=share) for n in range(10)))
    assert set(found) == names
    if names:
        assert "quota of 2 CPUs" in found["cpu_quota"].message
