"""A training loop in a process of its own, with a backend that fails in one way, which runs steps on request.

    python -m benchmarks.backend_process build/benchmarks/x hangs

A line on standard input is a number of steps; the answer is how many nanoseconds they took. At the end of the
input the run is closed and the process ends.
"""

import hashlib
import os
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

from stepscope import TrainingRunLogger
from stepscope.records import Record
from stepscope.sinks import backends
from stepscope.sinks.sink import Sink

WORK = bytes(4 << 20)  # hashing it takes some milliseconds, in which other threads run, as under a kernel


class Hangs:
    """Its first write never returns."""

    def write(self, record: Record) -> None:
        """Wait for ever."""
        Event().wait()

    def close(self) -> None:
        """Wait for ever."""
        Event().wait()


class Raises:
    """Its writes raise."""

    def write(self, record: Record) -> None:
        """Raise."""
        raise ConnectionError("no route to host")

    def close(self) -> None:
        """Raise."""
        raise ConnectionError("no route to host")


def opened(folder: Path, kind: str) -> TrainingRunLogger:
    """A run with a backend of that kind; those that are not W&B's take the place of TensorBoard's."""
    sinks: dict[str, type[Sink]] = {"hangs": Hangs, "raises": Raises}
    if kind in sinks:
        backends.BACKENDS["tensorboard"] = lambda settings, header: sinks[kind]()
    report_to = {"none": None, "wandb": "wandb"}.get(kind, "tensorboard")
    return TrainingRunLogger(folder / "training.json", verbosity=-2, report_to=report_to, output_dir=folder)


def block(run: TrainingRunLogger, first: int, count: int) -> int:
    """Nanoseconds of so many steps of training."""
    begin = time.perf_counter_ns()
    for step in range(first, first + count):
        loss = hashlib.sha256(WORK).digest()[0] / 256
        run.log_step(step, step / 1000, 16384, 1, 0.1, loss, 2e-4)
        run.log({f"layer.{n}/norm": loss for n in range(10)}, step=step)
    return time.perf_counter_ns() - begin


def main() -> None:
    """Answer until there are no more requests; what a backend prints goes to standard error."""
    answers: Any = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    run = opened(Path(sys.argv[1]), sys.argv[2])
    answers.write("ready\n")
    step = 0
    for line in sys.stdin:
        answers.write(f"{block(run, step, int(line))}\n")
        step += int(line)
    run.close()


if __name__ == "__main__":
    main()
