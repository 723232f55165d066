"""A watched run in a process of its own: what the loop itself measured, and what stepscope says of it.

    told = apart(trained, "perceptron", "transfer", 0.12, 300, folder, seed=1)
    told.verdicts                  # those of `stepscope doctor`, worse than information
    told.said                      # the rules that were said while it ran
    told.median_ms                 # a step, by the loop's own clock
    apart(removal, …)              # what taking the fault away saves: (0.08, 0.11) of a step

Processes are forked from this one, which has loaded torch and calculated nothing.
"""

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

import stepscope
from stepscope.readers.verdicts import diagnose

from .fault_models import JOBS, Job
from .faults import FAULTS, Fault

PAIR = 16  # steps with the fault, and as many without
SAMPLES = 2000


class Told(NamedTuple):
    """What is known of a run."""

    median_ms: float
    verdicts: dict[str, Any]  # by rule
    said: set[str]
    steps: int
    became: float | None = None  # the fault's size in truth


def apart(call: Callable[..., Any], *args: Any) -> Any:
    """The result of a call in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(_single_threaded, call, *args).result()


def _single_threaded(call: Callable[..., Any], *args: Any) -> Any:
    torch.set_num_threads(1)
    return call(*args)


def trained(model: str, kind: str, size: float, steps: int, folder: Path, seed: int) -> Told:
    """A job with a fault in all its steps."""
    folder.mkdir(parents=True, exist_ok=True)
    job, fault = JOBS[model](seed), FAULTS[kind].make(size, steps)
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run, fault.planted(job, folder):
        durations = watched(job, fault, run, steps, lambda step: True)
    return told(run.path, durations)._replace(became=fault.became)


def removal(model: str, kind: str, size: float, steps: int, folder: Path, seed: int) -> tuple[float, float]:
    """What taking the fault away saves of a step: the 95 % interval, from neighbouring blocks with and without it."""
    folder.mkdir(parents=True, exist_ok=True)
    job, fault = JOBS[model](seed), FAULTS[kind].make(size, steps)
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run, fault.planted(job, folder):
        durations = watched(job, fault, run, steps, is_on)
    blocks = [(is_on(at), fsum(durations[at : at + PAIR])) for at in range(2 * PAIR, steps - PAIR + 1, PAIR)]
    pairs = list(zip([s for on, s in blocks if on], [s for on, s in blocks if not on], strict=False))
    chance = random.Random(seed)
    gains = sorted(saved(chance.choices(pairs, k=len(pairs))) for _ in range(SAMPLES))
    return gains[SAMPLES // 40], gains[-SAMPLES // 40]


def is_on(step: int) -> bool:
    """With the fault, without, without, with: a machine that warms up meets both alike."""
    return (step // PAIR) % 4 in (0, 3)


def saved(pairs: list[tuple[float, float]]) -> float:
    """Of the time with the fault, what is not needed without it."""
    return 1 - fsum(off for _, off in pairs) / fsum(on for on, _ in pairs)


def watched(job: Job, fault: Fault, run: Any, steps: int, on: Callable[[int], bool]) -> list[float]:
    """Train under a scope; the steps' durations by the loop's own clock, from the fetch of their batch on."""
    durations: list[float] = []
    scope = stepscope.watch(job.model, job.optimizer, run, card=False)
    began = 0.0

    def batches() -> Iterator[Any]:
        nonlocal began
        for step in range(steps):
            fault.on = on(step)
            began = time.perf_counter()
            fault.fetch()
            yield job.batch(step)

    for batch in scope.loader(batches()):
        with scope.step():
            with scope.phase("data_transfer"):
                fault.transfer()
            with scope.phase("forward_pass"):
                loss = job.loss(batch)
                fault.forward()
            with scope.phase("backward_pass"):
                loss.backward()
            with scope.phase("optimizer_step"):
                job.optimizer.step()
                job.optimizer.zero_grad()
            took = time.perf_counter() - began
        durations.append(took)
        fault.over(took)
    scope.close()
    return durations


def told(path: Path, durations: list[float]) -> Told:
    """What the file and the loop's own clock say."""
    run = stepscope.read_run(path)
    verdicts = {verdict.rule: verdict for verdict in diagnose(run) if verdict.level != "info"}
    events = [event for event in run.events if (event.evidence or {}).get("state") == "began"]
    said = {event.rule for event in events if event.rule and event.severity != "info"}
    return Told(1000 * median(durations), verdicts, said, len(run.steps))
