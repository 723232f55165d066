"""The machine: GPUs whose clocks are held back, and a container whose CPU quota runs out.

    list(hardware_verdicts(case, Limits()))

A GPU that idles clocks down, and may: readings with little work count for nothing. One at its power limit is normal
as long as its clock stays high, so that is no more than information.
"""

from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

from .advice import ADVICE
from .case import Case
from .limits import Limits
from .verdict import Verdict, share
from .words import percent

CAUSES = {"thermal": "thermal", "power brake": "brake", "slowdown": "thermal", "power cap": "power"}
NOT_HELD_BACK = {"", "none", "no cap", "idle", "not supported"}


class Reading(NamedTuple):
    """A busy GPU at one moment; its clock as a share of the highest, None where it is not known."""

    clock: float | None
    reason: str | None  # why it is held back; None where that cannot be read
    temperature: float | None


def hardware_verdicts(case: Case, limits: Limits) -> Iterator[Verdict]:
    """The verdicts on clocks and quota."""
    found = [verdict for id_ in case.gpus if (verdict := gpu(case, id_, limits))]
    for rule in ("throttle", "clock"):  # each once: of several GPUs the slowest holds all back
        of_rule = [verdict for verdict in found if verdict.rule == rule]
        if of_rule:
            yield min(of_rule, key=lambda v: (v.level != "warning", -v.severity))
    quota = cpu_quota(case, limits)
    if quota:
        yield quota


def gpu(case: Case, id_: int | None, limits: Limits) -> Verdict | None:
    """Whether one GPU is throttled, or its clock low for another reason."""
    readings = busy_readings(case, id_, limits)
    if len(readings) < limits.readings:
        return None
    return throttle(readings, id_, limits) or clock(readings, id_, limits)


def busy_readings(case: Case, id_: int | None, limits: Limits) -> list[Reading]:
    """The readings in which it worked."""
    rows, found = case.gpus[id_], []
    columns = (rows.column(name) for name in ("clock", "max_clock", "gpu_util", "temperature"))
    for reason, now, highest, used, hot in zip(case.reasons[id_], *columns, strict=True):
        if not used < limits.busy:  # unknown counts as busy
            known = now > 0 and highest > 0
            found.append(Reading(now / highest if known else None, reason, hot if hot == hot else None))
    return found


def throttle(readings: list[Reading], id_: int | None, limits: Limits) -> Verdict | None:
    """A clock that is held back by heat or power."""
    held = [(r, cause) for r in readings if (cause := _cause(r.reason))]
    often = len(held) / len(readings)
    if often <= limits.throttled:
        return None
    causes = [cause for _, cause in held]
    cause = max(dict.fromkeys(causes), key=causes.count)
    lost = fmean([1 - r.clock for r, _ in held if r.clock is not None] or [0.0])
    clocks = any(r.clock is not None for r, _ in held)
    reason = next(r.reason for r, why in held if why == cause) or ""
    level = "info" if cause == "power" and clocks and 1 - lost >= limits.clock else "warning"
    name = "the GPU" if id_ is None else f"GPU {id_}"
    slower = f"; its clock is then at {percent(1 - lost)} of the highest" if clocks else ""
    hottest = max((r.temperature for r, _ in held if r.temperature is not None), default=None)
    return Verdict(
        "throttle",
        level,
        share(often * lost if clocks else often),
        f"{name} was held back in {percent(often)} of the readings ({reason}){slower}",
        gain=often * lost if clocks else None,
        advice=ADVICE[cause],
        evidence={"gpu": id_, "throttled": round(often, 4), "readings": len(readings), "reason": reason}
        | ({"clock_share": round(1 - lost, 4)} if clocks else {})
        | ({"temperature": hottest} if hottest is not None else {}),
    )


def _cause(reason: str | None) -> str:
    """What is behind NVML's reasons, or another program's; "" for none that costs pace."""
    if reason is None or reason in NOT_HELD_BACK:
        return ""
    return next((cause for word, cause in CAUSES.items() if word in reason), "")


def clock(readings: list[Reading], id_: int | None, limits: Limits) -> Verdict | None:
    """A clock far below the highest, although nothing holds it back."""
    known = [r.clock for r in readings if r.clock is not None]
    if len(known) < limits.readings:
        return None
    level = fmean(known)
    if level >= limits.clock:
        return None
    name = "the GPU" if id_ is None else f"GPU {id_}"
    set_by = next((r.reason for r in readings if r.reason and r.reason not in NOT_HELD_BACK), None)
    return Verdict(
        "clock",
        "warning",
        share(1 - level),
        f"{name} runs at {percent(level)} of its highest clock" + (f" ({set_by})" if set_by else ""),
        gain=1 - level,
        advice=ADVICE["clocks"],
        evidence={"gpu": id_, "clock_share": round(level, 4), "readings": len(known)}
        | ({"reason": set_by} if set_by else {}),
    )


def cpu_quota(case: Case, limits: Limits) -> Verdict | None:
    """A container whose processes are stopped because their CPU time for the moment is used up."""
    shares = case.system.values("cpu_throttled")
    held = fmean(shares) if shares else 0.0
    if held <= limits.cpu_quota:
        return None
    cpus = case.system.mean("cpus")
    of = f" of {cpus:g} CPUs" if cpus else ""
    return Verdict(
        "cpu_quota",
        "warning",
        share(held),
        f"the container's quota{of} ran out in {percent(held)} of the periods: its processes stood still",
        advice=ADVICE["cpu_quota"],
        evidence={"cpu_throttled": round(held, 4), "readings": len(shares)} | ({"cpus": cpus} if cpus else {}),
    )
