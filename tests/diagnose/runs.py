"""Runs as their records would tell them: phase times with noise, and a fault where one is planted.

    records = training("vision", seed=3)                              # healthy
    records = training("vision", seed=3, fault=Sleep("data_generation", 9.0))
    found = names(records)                                            # {'data_generation'}

The noise is what a real machine has: steps are correlated with those before, one in a hundred is held up, and the
first ones take ten times as long.
"""

import random
from collections.abc import Callable, Iterator
from math import exp
from typing import NamedTuple

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.diagnose.verdict import Verdict
from stepscope.records import Phases, Record

# ms a step: a small model on a CPU, a vision model, a language model
MODELS: dict[str, dict[str, float]] = {
    "small": {
        "data_generation": 0.12,
        "data_transfer": 0.02,
        "forward_pass": 0.9,
        "backward_pass": 1.1,
        "optimizer_step": 0.15,
    },
    "vision": {
        "data_generation": 0.4,
        "data_transfer": 0.5,
        "forward_pass": 7.0,
        "backward_pass": 13.0,
        "optimizer_step": 1.2,
    },
    "language": {
        "data_generation": 0.3,
        "data_transfer": 0.9,
        "forward_pass": 52.0,
        "backward_pass": 105.0,
        "optimizer_step": 9.0,
    },
}
OTHER = 0.02  # of a step, in no phase


class Sleep(NamedTuple):
    """A fault: a phase takes so many milliseconds more, in every step or in those that `when` chooses."""

    phase: str
    ms: float
    when: Callable[[int], bool] = lambda step: True


def training(
    model: str,
    seed: int,
    steps: int = 300,
    fault: Sleep | None = None,
    slowing: float = 0.0,
    models: dict[str, dict[str, float]] = MODELS,
) -> list[Record]:
    """The `phases` of a run; `slowing` is by how much a step takes longer than the one before."""
    return list(_steps(models[model], random.Random(seed), steps, fault, slowing))


def _steps(
    times: dict[str, float], chance: random.Random, steps: int, fault: Sleep | None, slowing: float
) -> Iterator[Record]:
    level = 0.0
    for step in range(1, steps + 1):
        level = 0.8 * level + chance.gauss(0, 0.02)
        scale = exp(level) * (1 + slowing) ** step * (10 if step <= 3 else 1)
        spent = {name: ms * scale * exp(chance.gauss(0, 0.03)) for name, ms in times.items()}
        if chance.random() < 0.01:
            spent[chance.choice([*times])] += 0.5 * sum(times.values())
        if fault is not None and fault.when(step):
            spent[fault.phase] += fault.ms
        yield Phases(step=step, duration_ms=sum(spent.values()) * (1 + OTHER), host_ms=spent)


def found(records: list[Record]) -> dict[str, Verdict]:
    """The verdicts on a run by rule, those that are only information left out."""
    case = Case()
    for record in records:
        case.see(record)
    return {verdict.rule: verdict for verdict in verdicts(case) if verdict.level != "info"}


def mean_ms(records: list[Record]) -> float:
    """The mean step of a run after its first ones."""
    times = [record.duration_ms or 0.0 for record in records[10:] if isinstance(record, Phases)]
    return sum(times) / len(times)


def to_share(model: str, phase: str, share: float) -> float:
    """The sleep that makes a phase so large a part of a step."""
    times = MODELS[model]
    rest = sum(times.values()) * (1 + OTHER) - times[phase]
    # (own + sleep) / (rest + (own + sleep) * (1 + OTHER)) = share, with OTHER of the sleep in no phase either
    rest -= times[phase] * OTHER
    return share * rest / (1 - share * (1 + OTHER)) - times[phase]
