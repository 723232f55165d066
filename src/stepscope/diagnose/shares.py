"""Where a step's time goes on the mean: what the rules about data, transfer and optimizer compare with their limits.

    found = time_shares(case)
    found.wait_ms / found.step_ms         # of the step, waiting for its batch

Means and not medians: loader workers deliver in bursts, and three fetches of four may take no time at all.
"""

from typing import NamedTuple

from .case import DEVICE, EVALUATION, HOST, Case
from .rows import Rows
from .slopes import known


class Shares(NamedTuple):
    """Where a step's time goes on the mean; the clock's part on the device's clock where there is one."""

    steps: int
    step_ms: float
    wait_ms: float | None
    input_wait_ms: float | None
    worker_ms: float | None
    clock: str
    clock_ms: float
    transfer_ms: float | None
    optimizer_ms: float | None


def time_shares(case: Case) -> Shares | None:
    """Where a step's time goes; None where nobody timed the phases."""
    begin = case.begin(case.phases, recent=True)
    if len(case.phases) > begin and case.phases.names(HOST):
        return _from_phases(case.phases, begin)
    return _from_profiles(case.profiles) if len(case.profiles) else None


def _from_phases(rows: Rows, begin: int) -> Shares | None:
    step_ms, device_ms = rows.mean("duration_ms", begin), rows.mean("device_duration_ms", begin)
    if not step_ms:
        return None
    on_device = bool(device_ms) and bool(rows.names(DEVICE))
    clock = DEVICE if on_device else HOST

    def part(name: str, prefix: str) -> float | None:
        found = [rows.per_row(prefix + path, begin) for path in rows.names(prefix) if is_part(path, name)]
        return sum(found) if found else None

    return Shares(
        steps=len(rows) - begin,
        step_ms=step_ms,
        wait_ms=part("data_generation", HOST),
        input_wait_ms=rows.mean("input_wait_ms", begin),
        worker_ms=rows.mean("worker_ms", begin),
        clock="device" if on_device else "host",
        clock_ms=device_ms if on_device and device_ms else step_ms,
        transfer_ms=part("data_transfer", clock),
        optimizer_ms=part("optimizer_step", clock),
    )


def _from_profiles(rows: Rows) -> Shares | None:
    """From the windows' means, each weighted with its steps."""
    weights = rows.column("steps")

    def mean(name: str) -> float | None:
        pairs = [(w, v) for w, v in zip(weights, rows.column(name), strict=True) if known([w, v]) == [w, v]]
        total = sum(weight for weight, _ in pairs)
        return sum(weight * value for weight, value in pairs) / total if total else None

    steps, step_ms = int(rows.sum("steps")), mean("mean_ms")
    if not steps or not step_ms:
        return None
    spent = [rows.sum(f"spent/{path}") for path in rows.names("spent/") if is_part(path, "optimizer_step")]
    return Shares(
        steps=steps,
        step_ms=step_ms,
        wait_ms=mean("data_generation_ms"),
        input_wait_ms=mean("input_wait_ms"),
        worker_ms=mean("worker_ms"),
        clock="device" if mean("device") else "host",
        clock_ms=step_ms,
        transfer_ms=mean("data_transfer_ms"),
        optimizer_ms=sum(spent) / steps if spent else None,
    )


def is_part(path: str, name: str) -> bool:
    """Whether a path leads to a phase of a training step: not to that of an evaluation, nor to a part of itself."""
    *above, last = path.split("/")
    return last == name and name not in above and EVALUATION not in above
