"""The way of a batch: whether the loop waits for its data, and whether moving it takes long.

    list(input_verdicts(case, Limits()))

Where there is a device, only the time counts in which it had nothing to do: a wait that hides behind work in its
queue costs nothing. What cannot be saved (handing a batch over, a pinned transfer) is taken off the estimate.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any

from .advice import ADVICE
from .case import Case
from .limits import Limits
from .rows import Rows
from .shares import Shares, time_shares
from .verdict import Verdict, share
from .words import milliseconds, percent

BUSY = 80.0  # percent of the CPUs: below that, workers wait for disks or networks, and more of them help
OWN = "the loop's own process makes the batches"


def input_verdicts(case: Case, limits: Limits) -> Iterator[Verdict]:
    """The verdicts on data and transfer."""
    found = time_shares(case)
    if found is None or found.steps < limits.steps:
        return
    data = data_generation(found, limits, case.system) or input_wait(found, limits, case.system)
    yield from (verdict for verdict in (data, transfer(found, limits)) if verdict)


def data_generation(shares: Shares, limits: Limits, system: Rows) -> Verdict | None:
    """The wait in `next(loader)`."""
    wait, step = shares.wait_ms, shares.step_ms
    if not wait or wait <= limits.data_generation * step:
        return None
    felt = wait if shares.input_wait_ms is None else min(wait, shares.input_wait_ms)
    if felt <= limits.handover_ms or (felt < wait and felt <= limits.input_small * step):
        return None
    why, advice = _workers(shares, system)
    return Verdict(
        "data_generation",
        "warning",
        share(wait / step),
        f"a step waits {milliseconds(wait)} of its {milliseconds(step)} for data ({percent(wait / step)}): {why}",
        gain=(felt - limits.worth_ms) / step,
        advice=advice + ADVICE["data_generation"],
        evidence=_input_evidence(shares),
    )


def _workers(shares: Shares, system: Rows) -> tuple[str, tuple[str, ...]]:
    """Who makes the batches, and how many workers would keep up."""
    if not shares.worker_ms:
        return "how long its workers take is not known" if system.mean("children") else OWN, ()
    busy, rest = shares.worker_ms / shares.step_ms, max(shares.step_ms - (shares.wait_ms or 0), 1e-3)
    needed, cpus = ceil(shares.worker_ms / rest), system.mean("cpus")
    spent = f"workers spend {milliseconds(shares.worker_ms)} on a batch"
    if needed <= ceil(busy):
        return f"{spent}, which is little: handing it over takes long", (
            "Hand smaller batches over: large or many tensors take long from process to process",
        )
    if cpus is not None and needed > cpus and (system.mean("cpu_percent") or 0.0) >= BUSY:
        return f"{spent}; {needed} of them would keep up, but the {cpus:g} CPUs are busy", (
            "Make a batch cheaper, or find more CPUs: workers alone cannot keep up here",
        )
    return f"{spent} and {busy:.1f} of them are busy: not enough workers", (
        f"Use at least {needed} workers: so many keep up with the step",
    )


def input_wait(shares: Shares, limits: Limits, system: Rows) -> Verdict | None:
    """A device that runs dry while a batch is fetched, below the limit of the wait itself."""
    wait, step = shares.input_wait_ms, shares.step_ms
    if not wait or wait <= limits.input_wait * step or wait <= limits.handover_ms:
        return None
    why, advice = _workers(shares, system)
    return Verdict(
        "input_wait",
        "warning",
        share(wait / step),
        f"the device waits {milliseconds(wait)} of a step's {milliseconds(step)} for its batch ({percent(wait / step)})"
        f": {why}",
        gain=(wait - limits.worth_ms) / step,
        advice=advice + ADVICE["input_wait"],
        evidence=_input_evidence(shares),
    )


def transfer(shares: Shares, limits: Limits) -> Verdict | None:
    """The time to move a batch to the device."""
    moved, step = shares.transfer_ms, shares.clock_ms
    if not moved or moved <= limits.transfer * step or moved <= limits.worth_ms:
        return None
    return Verdict(
        "transfer",
        "warning",
        share(moved / step),
        f"moving a batch takes {milliseconds(moved)} of a step's {milliseconds(step)} ({percent(moved / step)})",
        gain=moved / step - limits.transfer_left,
        advice=ADVICE["transfer"],
        evidence={"transfer_percentage": round(100 * moved / step, 2), "transfer_ms": round(moved, 4)}
        | {"step_ms": round(step, 4), "clock": shares.clock, "steps": shares.steps},
    )


def _input_evidence(shares: Shares) -> dict[str, Any]:
    known = {
        "data_gen_percentage": 100 * shares.wait_ms / shares.step_ms if shares.wait_ms is not None else None,
        "wait_ms": shares.wait_ms,
        "step_ms": shares.step_ms,
        "input_wait_ms": shares.input_wait_ms,
        "worker_ms": shares.worker_ms,
    }
    return {name: round(value, 4) for name, value in known.items() if value is not None} | {"steps": shares.steps}
