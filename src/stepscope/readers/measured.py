"""The numbers of a run that two runs are compared by, under their names in *MAE profiling*.

    numbers = measure(run)
    numbers.steps, numbers.warm_up              # 400 20
    numbers.totals["batch_time_avg"].value      # 0.142: seconds, the warm-up left out

Each number that varies from step to step is a `Total`, so that its spread is known; the others stand in `plain`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from statistics import stdev

from ..diagnose.rows import Rows
from ..diagnose.slopes import quantile
from ..records import Epoch, Phases, System
from .ratios import Total
from .run_file import Run

WARM_UP, WARM_UP_SHARE, WARM_UP_MOST = 10, 0.05, 200
GB = 2**30
LAST = 20  # steps whose mean is the final loss
HOST, DEVICE = "host/", "device/"


@dataclass(slots=True)
class Measured:
    """What is known of one run."""

    steps: int = 0
    warm_up: int = 0
    last_step: int | None = None
    tokens_a_step: float | None = None
    samples_a_step: float | None = None
    clock: str = "host"
    totals: dict[str, Total] = field(default_factory=dict)
    plain: dict[str, float] = field(default_factory=dict)


def measure(run: Run, skip: int | None = None, clock: str | None = None) -> Measured:
    """The numbers of a run without its first `skip` steps; phases on the `clock` that is asked for."""
    steps, phases = _steps(run), _phases(run)
    timed = phases if len(phases) >= max(1, len(steps) // 2) else steps
    warm_up = warm_up_of(len(timed)) if skip is None else skip
    found = Measured(len(timed), min(warm_up, len(timed)), timed.steps[-1] if len(timed) else None)
    found.clock = clock or ("device" if phases.names(DEVICE) else "host")
    begin = timed.steps[found.warm_up] if found.warm_up < len(timed) else 1 << 62
    _pace(found, timed, steps, begin)
    _shares(found, phases, begin)
    _epochs(found, run)
    _machine(found, run)
    _loss(found, run, steps)
    return found


def warm_up_of(steps: int) -> int:
    """How many steps at the start are left out: compilation, caches and workers come first."""
    return min(steps // 4, WARM_UP_MOST, max(WARM_UP, int(steps * WARM_UP_SHARE)))


def _steps(run: Run) -> Rows:
    rows = Rows()
    for step in run.steps:
        values = {"duration_ms": step.duration_ms, "tokens": step.step_tokens, "samples": step.samples}
        rows.add(step.step, values | {"loss": step.loss, "sol": step.sol, "mfu": step.mfu, "hfu": step.hfu})
    return rows


def _phases(run: Run) -> Rows:
    rows = Rows()
    for record in run.records("phases", rank=run.rank):
        if isinstance(record, Phases):
            rows.add(record.step, _phase_numbers(record))
    return rows


def _phase_numbers(record: Phases) -> Iterator[tuple[str, float | None]]:
    yield "duration_ms", record.duration_ms
    yield "samples", record.samples
    yield from ((HOST + path, ms) for path, ms in (record.host_ms or {}).items() if "/" not in path)
    yield from ((DEVICE + path, ms) for path, ms in (record.device_ms or {}).items() if "/" not in path)


def _rate(rows: Rows, name: str, timed: Rows, begin: int) -> Total:
    """What the steps held, and how long the same steps took."""
    held = {step: value for step, value in zip(rows.steps, rows.column(name), strict=True) if value == value}
    took = zip(timed.steps, timed.column("duration_ms"), strict=True)
    kept = [(held[step], ms) for step, ms in took if step >= begin and ms == ms and step in held]
    return Total([value for value, _ in kept], [ms for _, ms in kept])


def _values(rows: Rows, name: str, begin: int) -> list[float]:
    return [v for step, v in zip(rows.steps, rows.column(name), strict=True) if step >= begin and v == v]


def _scaled(values: list[float], factor: float) -> list[float]:
    return [value * factor for value in values]


def _pace(found: Measured, timed: Rows, steps: Rows, begin: int) -> None:
    durations = [ms / 1000 for ms in _values(timed, "duration_ms", begin)]
    if not durations:
        return
    ones = [1.0] * len(durations)
    found.totals |= {"batch_time_avg": Total(durations, ones), "batches_per_second": Total(ones, durations)}
    found.plain |= {f"batch_time_p{n}": quantile(durations, n / 100) for n in (50, 95, 99)}
    if len(durations) > 1:
        found.plain["batch_time_std"] = stdev(durations)
    for name in ("tokens", "samples"):
        total = _rate(timed if timed.values(name) else steps, name, timed, begin)
        if sum(total.over) > 0:
            found.totals[f"{name}_per_second"] = Total(total.over, _scaled(list(total.under), 1e-3))
            setattr(found, f"{name}_a_step", sum(total.over) / len(total.over))
    for name in ("sol", "mfu", "hfu"):
        values = _values(steps, name, begin)
        if values:
            found.totals[name] = Total(values, [1.0] * len(values))


def _shares(found: Measured, phases: Rows, begin: int) -> None:
    """The phases of a step, and the shares that have limits."""
    prefix = DEVICE if found.clock == "device" else HOST
    kept = [place for place, step in enumerate(phases.steps) if step >= begin]
    for name in dict.fromkeys([*phases.names(prefix), *phases.names(HOST)]):
        column = phases.column((prefix if name in phases.names(prefix) else HOST) + name)
        spent = [column[place] / 1000 if column[place] == column[place] else 0.0 for place in kept]
        found.totals[f"timing_{name}_avg"] = Total(spent, [1.0] * len(spent))
    durations = phases.column("duration_ms")
    for tag, name in (("data_gen_percentage", "data_generation"), ("transfer_percentage", "data_transfer")):
        timing = found.totals.get(f"timing_{name}_avg")
        if timing is not None and all(durations[place] > 0 for place in kept):
            under = [durations[place] / 1000 for place in kept]
            found.totals[tag] = Total(_scaled(list(timing.over), 100), under)


def _epochs(found: Measured, run: Run) -> None:
    """Numbers of epochs; the first, which holds the warm-up, is left out where there are four or more."""
    epochs = [e for e in run.records("epoch", rank=run.rank) if isinstance(e, Epoch) and e.total_ms]
    epochs = epochs[1:] if len(epochs) > 3 else epochs
    hours = [(epoch.total_ms or 0.0) / 3_600_000 for epoch in epochs]
    if epochs:
        found.totals["epoch_total_time"] = Total(_scaled(hours, 3600), [1.0] * len(hours))
    if epochs and all(epoch.batches for epoch in epochs):
        batches = [float(epoch.batches or 0) for epoch in epochs]
        found.totals["epoch_throughput_batches_per_hour"] = Total(batches, hours)
    spent = [{part.name: part for part in epoch.phases or [] if "/" not in part.name} for epoch in epochs]
    for name in dict.fromkeys(name for parts in spent for name in parts):
        if f"timing_{name}_avg" not in found.totals:  # what happens between the steps
            each = [parts[name] for parts in spent if name in parts]
            found.totals[f"timing_{name}_avg"] = Total([p.ms / 1000 for p in each], [float(p.count) for p in each])


def _machine(found: Measured, run: Run) -> None:
    columns: dict[str, list[float]] = {}

    def add(name: str, value: float | None) -> None:
        if value is not None and isfinite(value):
            columns.setdefault(name, []).append(value)

    for record in run.records("system", rank=run.rank):
        if not isinstance(record, System):
            continue
        ram = record.ram_percent
        add("memory_pressure", record.memory_pressure if ram is None else ram / 100)
        add("ram_usage_percent", ram)
        add("cpu_usage_percent", record.cpu_percent)
        for gpu in record.gpus or []:
            add(f"gpu_{gpu.id}_memory_allocated_gb", gpu.allocated / GB)
            add(f"gpu_{gpu.id}_memory_utilization", 100 * gpu.allocated / gpu.total if gpu.total else None)
    found.totals |= {name: Total(values, [1.0] * len(values)) for name, values in columns.items()}


def _loss(found: Measured, run: Run, steps: Rows) -> None:
    losses = steps.values("loss")
    if losses:
        last = losses[-LAST:]
        found.plain |= {"loss_final": sum(last) / len(last), "loss_best": min(losses)}
    evals = [e.loss for e in run.evals if e.loss is not None and isfinite(e.loss)]
    if evals:
        found.plain |= {"eval_loss_final": evals[-1], "eval_loss_best": min(evals)}
