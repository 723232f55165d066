"""One tracker in a process of its own, which times single calls on request.

    python benchmarks/peer_process.py trackio build/benchmarks/trackio

It needs the tracker alone, since each lives in an environment of its own. A request is a line of JSON on standard
input, `{"payload": "step", "calls": 1000, "pause": 0.005, "limit": 2}`; the answer is the list of nanoseconds.
"""

# mypy: disable-error-code=import-not-found

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A call of the step's seven numbers (the first is the step), and one of ten scalars.
Calls = dict[str, Callable[[int, dict[str, float]], Any]]

STEP = ("epoch", "step_tokens", "duration_ms", "norm", "loss", "lr")


def stepscope(folder: Path) -> Calls:
    """Ours, silent, as a user calls it."""
    from stepscope import TrainingRunLogger

    run = TrainingRunLogger(folder / "training.json", verbosity=-2)
    return {
        "step": lambda step, values: run.log_step(step, *values.values()),
        "scalars": lambda step, v: run.log(v, step),
    }


def trackio(folder: Path) -> Calls:
    """Trackio: a list in memory, a thread that writes it to SQLite."""
    os.environ.update(TRACKIO_DIR=str(folder), HF_HUB_OFFLINE="1", GRADIO_ANALYTICS_ENABLED="False")
    import trackio

    trackio.init(project="benchmark")
    return both(lambda step, values: trackio.log(values, step=step))


def wandb(folder: Path) -> Calls:
    """W&B, offline: a process beside it that writes."""
    import wandb

    run = wandb.init(project="benchmark", mode="offline", dir=str(folder))
    return both(lambda step, values: run.log(values, step=step))


def tensorboardX(folder: Path) -> Calls:
    """TensorBoard's files by tensorboardX: a call for each number."""
    from tensorboardX import SummaryWriter

    return one_by_one(SummaryWriter(str(folder)).add_scalar)


def tensorboard(folder: Path) -> Calls:
    """TensorBoard's files by its own writer: a call for each number."""
    from tensorboard.summary import Writer

    return one_by_one(Writer(str(folder)).add_scalar)


def aim(folder: Path) -> Calls:
    """Aim: RocksDB, in the caller's thread."""
    from aim import Run

    run = Run(repo=str(folder), experiment="benchmark")
    return both(lambda step, values: run.track(values, step=step))


def mlflow(folder: Path) -> Calls:
    """MLflow with its default store, SQLite, in the caller's thread."""
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.start_run()
    return both(lambda step, values: mlflow.log_metrics(values, step=step))


def both(call: Callable[[int, dict[str, float]], Any]) -> Calls:
    """For trackers that have one call for any numbers."""
    return {"step": call, "scalars": call}


def one_by_one(add_scalar: Callable[[str, float, int], Any]) -> Calls:
    """For trackers that take one number a call."""

    def call(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            add_scalar(name, value, step)

    return both(call)


TRACKERS = {make.__name__: make for make in (stepscope, trackio, wandb, tensorboardX, tensorboard, aim, mlflow)}


def values_of(payload: str, step: int) -> dict[str, float]:
    """The numbers of a step, different in each."""
    if payload == "step":
        return dict(zip(STEP, (step / 1000, 16384, 156, 0.1234 + step, 2.3456 + 1 / (step + 1), 2e-4), strict=True))
    return {f"train/metric_{n}": n + 1 / (step + 1) for n in range(10)}


def timed(call: Callable[[int, dict[str, float]], Any], payload: str, first: int, asked: dict[str, Any]) -> list[int]:
    """How long each of the calls took; fewer calls where they take longer than the limit in all."""
    took: list[int] = []
    due = began = time.perf_counter()
    for step in range(first, first + asked["calls"]):
        values = values_of(payload, step)
        if asked["pause"]:
            due += asked["pause"]
            time.sleep(max(0.0, due - time.perf_counter()))
        elif time.perf_counter() - began > asked["limit"]:
            break
        start = time.perf_counter_ns()
        call(step, values)
        took.append(time.perf_counter_ns() - start)
    return took


def main() -> None:
    """Answer requests until there are no more; what the tracker itself prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    calls = TRACKERS[sys.argv[1]](Path(sys.argv[2]))
    answers.write('"ready"\n')
    step = 0
    for line in sys.stdin:
        asked = json.loads(line)
        took = timed(calls[asked["payload"]], asked["payload"], step, asked)
        step += len(took)
        answers.write(json.dumps(took) + "\n")


if __name__ == "__main__":
    main()
