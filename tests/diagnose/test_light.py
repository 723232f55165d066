"""Speed of light: excellent, in between, and low with or without a cause."""

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.records import Phases, Step


def verdict_at(sol, wait=0.0):
    """The verdict on a run at so many percent, with so long a wait for data in steps of 10 ms."""
    case = Case()
    for step in range(40):
        case.see(Step(step=step, duration_ms=10.0, sol=sol))
        case.see(Phases(step=step, duration_ms=10.0, host_ms={"data_generation": wait, "forward_pass": 10.0 - wait}))
    return {verdict.rule: verdict for verdict in verdicts(case)}.get("speed_of_light")


@pytest.mark.parametrize("sol", [80.0, 97.0])
def test_eighty_percent_is_excellent(sol):
    """It is said, as information."""
    verdict = verdict_at(sol)
    assert (verdict.level, verdict.severity) == ("info", 0.0)
    assert verdict.message == f"Speed of light: {sol} % of what the hardware could reach, which is excellent"


@pytest.mark.parametrize("sol", [60.0, 79.9])
def test_in_between_nothing_is_said(sol):
    """Neither low nor excellent."""
    assert verdict_at(sol) is None


def test_low_alone_is_information():
    """41 % without a cause is a fact."""
    verdict = verdict_at(41.0)
    assert verdict.level == "info"
    assert verdict.message.startswith("Speed of light: 41.0 % of what the hardware could reach, below 60 %")


def test_low_with_a_cause_is_a_warning():
    """A wait for data of half a step is one, and is named."""
    verdict = verdict_at(41.0, wait=5.0)
    assert (verdict.level, verdict.evidence["causes"]) == ("warning", ["data_generation"])


def test_low_must_last():
    """A run that is low in four steps of five is not judged by them."""
    case = Case()
    for step in range(100):
        case.see(Step(step=step, duration_ms=10.0, sol=70.0 if step % 5 == 0 else 40.0))
    assert verdicts(case) == []
