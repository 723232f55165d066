"""Speed of light: how much of what the hardware could reach the steps reach, and what holds them back.

    speed_of_light(case, found, Limits())

Below 60 % for most of the run is a fact, not a fault: it becomes a warning when another rule has found a cause.
"""

from collections.abc import Sequence

from .advice import ADVICE
from .case import Case
from .limits import Limits
from .slopes import quantile
from .verdict import Verdict, share

CAUSES = ("data_generation", "input_wait", "transfer", "launch", "optimizer", "throttle", "clock", "slow_step", "drift")
MOST = 0.9  # of the steps


def speed_of_light(case: Case, found: Sequence[Verdict], limits: Limits) -> Verdict | None:
    """Where the steps stand; None between the two limits, or where nobody knows."""
    begin = case.begin(case.steps, recent=True)
    values = case.steps.values("sol", begin)
    if len(values) < limits.steps:
        return None
    reached = quantile(values, 0.5)
    evidence = {"sol": round(reached, 2), "steps": len(values)}
    if reached >= limits.excellent:
        text = f"Speed of light: {_reached(reached)} of what the hardware could reach, which is excellent"
        return Verdict("speed_of_light", "info", 0.0, text, evidence=evidence)
    if quantile(values, MOST) >= limits.speed_of_light:
        return None
    causes = [v.rule for v in found if v.rule in CAUSES and v.level != "info"]
    because = f", with a cause found: {', '.join(causes)}" if causes else "; none of the other rules names a cause"
    low = f"{_reached(reached)} of what the hardware could reach, below {limits.speed_of_light:g} %"
    return Verdict(
        "speed_of_light",
        "warning" if causes else "info",
        share(1 - reached / 100),
        f"Speed of light: {low}{because}",
        advice=(f"Mend first what is named: {', '.join(causes)}",) if causes else ADVICE["speed_of_light"],
        evidence=evidence | ({"causes": causes} if causes else {}),
    )


def _reached(percent: float) -> str:
    return f"{percent:.1f} %" if percent >= 0.1 else "less than 0.1 %"
