"""Memory: how full the host and the GPUs are, and whether something grows that should not.

    list(memory_verdicts(case, Limits()))

Being full saves no time when mended, so these verdicts have no gain; their severity is how near the end is.
"""

from collections.abc import Iterator
from typing import Any

from .advice import ADVICE
from .case import Case
from .limits import Limits
from .slopes import quantile, trend
from .verdict import Verdict, share
from .words import percent, size

SUSTAINED = 0.95  # one reading in twenty is enough: what is full once can fail once
STEADY = 0.8  # Kendall's tau of a leak: every look finds more than the one before
CRITICAL = 0.97


def memory_verdicts(case: Case, limits: Limits) -> Iterator[Verdict]:
    """The verdicts on memory."""
    yield from filter(None, (out_of_memory(case), container(case, limits) or host(case, limits)))
    yield from (verdict for name in case.system.names("gpu/") if (verdict := gpu(case, name, limits)))
    worst = max(filter(None, (creep(case, id_, limits) for id_ in case.memory)), key=_severity, default=None)
    if worst:
        yield worst


def _severity(verdict: Verdict) -> float:
    return verdict.severity


def host(case: Case, limits: Limits) -> Verdict | None:
    """RAM in use, of the machine's."""
    readings = case.system.values("ram_percent")
    return _full("memory", "RAM", readings, limits.memory) if readings else None


def container(case: Case, limits: Limits) -> Verdict | None:
    """Memory in use, of the container's limit: beyond it the kernel kills."""
    readings = case.system.values("ram_limit_percent")
    limit = max(case.system.values("ram_limit"), default=0.0)
    evidence = {"ram_limit": int(limit)} if limit else {}
    name = f"the container's {size(limit)}" if limit else "the container's memory"
    return _full("container_memory", name, readings, limits.memory, evidence) if readings else None


def _full(
    rule: str, name: str, percents: list[float], limit: float, evidence: dict[str, Any] | None = None
) -> Verdict | None:
    held = quantile(percents, SUSTAINED) / 100
    if held <= limit:
        return None
    over = sum(value > 100 * limit for value in percents)
    return Verdict(
        rule,
        "error" if held >= CRITICAL and rule == "container_memory" else "warning",
        share((held - limit) / (1 - limit)),
        f"{percent(held)} of {name} is in use",
        advice=ADVICE[rule],
        evidence={"memory_pressure": round(held, 4), "highest_percent": round(max(percents), 2)}
        | {"readings": len(percents), "above_limit": over}
        | (evidence or {}),
    )


def gpu(case: Case, name: str, limits: Limits) -> Verdict | None:
    """Memory that tensors hold on one GPU."""
    held = quantile(case.system.values(f"gpu/{name}"), SUSTAINED)
    if held <= limits.gpu_memory:
        return None
    rows = case.memory.get(int(name))
    retries = rows.values("retries") if rows is not None else []
    forced = f"; {retries[-1]:.0f} allocations had to free the cache first" if retries and retries[-1] else ""
    return Verdict(
        "gpu_memory",
        "warning",
        share((held - limits.gpu_memory) / (1 - limits.gpu_memory)),
        f"tensors hold {percent(held)} of the memory of GPU {name}{forced}",
        advice=ADVICE["gpu_memory"],
        evidence={"gpu": int(name), "gpu_memory_pressure": round(held, 4)}
        | ({"retries": int(retries[-1])} if retries else {}),
    )


def out_of_memory(case: Case) -> Verdict | None:
    """An allocation that failed."""
    oom = case.oom
    if oom is None:
        return None
    where = "the host" if oom.id is None else f"GPU {oom.id}"
    held = [s for s in sorted(oom.stats or [], key=lambda s: -s.device)[:3] if s.device]
    known = [
        f"asked for {size(oom.asked)}" if oom.asked else "",
        f"{size(oom.free)} were free" if oom.free is not None else "",
        f"in {oom.phase}" if oom.phase else "",
        f"most is held by {', '.join(f'{s.name} ({size(s.device)})' for s in held)}" if held else "",
    ]
    said = ", ".join(filter(None, known))
    rule = "memory" if oom.id is None else "gpu_memory"
    return Verdict(
        rule,
        "error",
        1.0,
        f"out of memory on {where} at step {oom.step}" + (f": {said}" if said else ""),
        advice=ADVICE[rule],
        evidence={"asked": oom.asked, "free": oom.free, "allocated": oom.allocated, "reserved": oom.reserved}
        | {"step": oom.step, "out_of_memory": True},
    )


def creep(case: Case, id_: int | None, limits: Limits) -> Verdict | None:
    """Memory still held at the end of a step that grows and grows."""
    if case.workload_changes(limits.creep):
        return None  # larger batches hold more
    rows = case.memory[id_]
    begin = len(rows) // 5 if not rows.dropped else 0  # caches and pools fill up first
    held, steps = rows.values("held", begin), rows.steps[begin:]
    if len(held) < 8 or steps[-1] - steps[0] < limits.creep_steps:
        return None
    line, late = trend(held), trend(held[len(held) // 2 :])
    if line is None or late is None or min(line.steady, late.steady) < STEADY:
        return None
    grown = line.end - line.start
    if line.growth < limits.creep or grown < limits.creep_bytes or late.end - late.start < grown / 4:
        return None
    # the line reaches half a record beyond the first and the last
    pace = grown / (steps[-1] - steps[0]) * (len(held) - 1) / len(held)
    room = _room(case, id_, held[-1])
    left = room / pace if room is not None and pace > 0 else None
    where = "the process" if id_ is None else f"GPU {id_}"
    full = f": at that pace it is full in {left:,.0f} steps" if left is not None else ""
    return Verdict(
        "creep",
        "warning" if _matters(case, left) else "info",
        share(line.growth),
        f"memory of {where} grows by {size(1000 * pace)} in 1000 steps, from {size(line.start)} to {size(line.end)}"
        + full,
        advice=ADVICE["creep"] + (HARMLESS if id_ is None else ()),
        evidence={"start": int(line.start), "end": int(line.end), "bytes_per_step": round(pace)}
        | {"steps": steps[-1] - steps[0]}
        | ({"gpu": id_} if id_ is not None else {})
        | ({"steps_left": round(left)} if left is not None else {}),
    )


HARMLESS = ("A memory-mapped dataset counts as well while it is read in; that part the system takes back when it must",)


def _room(case: Case, id_: int | None, held: float) -> float | None:
    """What is left to grow into."""
    if id_ is None:
        available = case.system.values("ram_available")
        return available[-1] if available else None
    model = case.models.get(id_)
    return max(0.0, model.memory - held) if model is not None and model.memory else None


def _matters(case: Case, left: float | None) -> bool:
    """Whether it fills up before the run ends: unknown counts as yes."""
    total = case.header.total_steps if case.header is not None else None
    return left is None or total is None or left < total - case.last_step
