"""What a step and a run do beside the model's own work: update, launches, evaluation, checkpoints.

    list(work_verdicts(case, Limits()))

An evaluation or a checkpoint cannot be left out, so what doing it half as often saves is the estimate.
"""

from collections.abc import Iterator

from .advice import ADVICE
from .case import EVALUATION, Case
from .limits import Limits
from .rows import Rows
from .shares import Shares, time_shares
from .verdict import Verdict, share
from .words import milliseconds, percent

PICTURES = "visualization_generation"


def work_verdicts(case: Case, limits: Limits) -> Iterator[Verdict]:
    """The verdicts on update, launches and what happens between the steps."""
    found = time_shares(case)
    if found is not None and found.steps >= limits.steps:
        yield from filter(None, (optimizer(found, limits), launch(case, found, limits)))
    yield from between(case, limits)


def optimizer(shares: Shares, limits: Limits) -> Verdict | None:
    """The update of the parameters."""
    spent, step = shares.optimizer_ms, shares.clock_ms
    if not spent or spent <= limits.optimizer * step or spent <= limits.worth_ms:
        return None
    return Verdict(
        "optimizer",
        "warning",
        share(spent / step),
        f"the optimizer takes {milliseconds(spent)} of a step's {milliseconds(step)} ({percent(spent / step)})",
        gain=spent / step - limits.optimizer_left,
        advice=ADVICE["optimizer"],
        evidence={"optimizer_ms": round(spent, 4), "step_ms": round(step, 4), "clock": shares.clock}
        | {"steps": shares.steps},
    )


def launch(case: Case, shares: Shares, limits: Limits) -> Verdict | None:
    """A device that runs dry although its batch is there: the host cannot launch fast enough."""
    idle = case.profiles.mean("device_idle")
    waited = (shares.input_wait_ms or 0.0) / shares.step_ms
    if idle is None or idle <= limits.device_idle or waited > limits.input_small:
        return None
    busy = [value for rows in case.gpus.values() if (value := rows.mean("gpu_util")) is not None]
    gain = share(1 - max(busy) / 100 - waited) if busy else None
    known = f", and a kernel runs in {max(busy):.0f} % of the time" if busy else ""
    return Verdict(
        "launch",
        "warning",
        share(idle),
        f"the device had nothing left to do at the end of {percent(idle)} of the phases{known}: the host launches too "
        "slowly",
        gain=gain,
        advice=ADVICE["launch"],
        evidence={"device_idle": round(idle, 4), "step_ms": round(shares.step_ms, 4), "steps": shares.steps}
        | ({"gpu_util": round(max(busy), 1)} if busy else {}),
    )


def between(case: Case, limits: Limits) -> Iterator[Verdict]:
    """Evaluation, pictures and checkpoints, of the wall time."""
    found = _spent_by_epoch(case.epochs) or _spent_by_evals(case)
    if found is None:
        return
    total, spent = found
    evaluation = sum(spent.get(name, 0.0) for name in (EVALUATION, PICTURES))
    checkpoint = sum(ms for name, ms in spent.items() if "checkpoint" in name.lower())
    for rule, words, ms in (("evaluation", "evaluating", evaluation), ("checkpoint", "saving", checkpoint)):
        if ms > limits.outside * total:
            yield _outside(rule, words, ms, total, spent)


def _outside(rule: str, words: str, ms: float, total: float, spent: dict[str, float]) -> Verdict:
    name = "evaluations and their pictures take" if rule == "evaluation" else "checkpoints take"
    return Verdict(
        rule,
        "warning",
        share(ms / total),
        f"{name} {milliseconds(ms)} of {milliseconds(total)} ({percent(ms / total)})",
        gain=ms / total / 2,
        advice=ADVICE[rule],
        evidence={"total_ms": round(total, 1)} | {f"{name}_ms": round(value, 1) for name, value in spent.items()},
        of="the run's time",
        how=f"{words} half as often",
    )


def _spent_by_epoch(epochs: Rows) -> tuple[float, dict[str, float]] | None:
    """The epochs' time, and what of it went into each phase that is no part of another."""
    total = epochs.sum("total_ms")
    paths = [path for path in epochs.names("spent/") if _outside_steps(path)]
    return (total, {path: epochs.sum(f"spent/{path}") for path in paths}) if total > 0 else None


def _outside_steps(path: str) -> bool:
    return "/" not in path and (path in (EVALUATION, PICTURES) or "checkpoint" in path.lower())


def _spent_by_evals(case: Case) -> tuple[float, dict[str, float]] | None:
    """Of a run without epochs: its windows' phases, or what its evaluations say themselves, of the wall time."""
    wall = case.wall_ms
    if case.live or not wall or wall <= 0:
        return None
    spent = {path: case.profiles.sum(f"spent/{path}") for path in case.profiles.names("spent/") if _outside_steps(path)}
    spent = spent or {EVALUATION: case.evals.sum("duration_ms")}
    return wall, spent
