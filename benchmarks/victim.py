"""A program that logs until it is killed, and says of each record that the call for it has returned.

    python -m benchmarks.victim training.json --seed 7 --pause 0.005

On standard output, unbuffered, a line for each acknowledged record: its number and when its call began and
returned, in nanoseconds of the machine's monotonic clock. Record `n` of a seed is always the same one, so that a
reader can tell whether what it finds is what was logged: `expected(seed, n)`. There are a few contents, made before
the first call, so that at full speed most of the time goes into the calls.
"""

import argparse
import math
import os
import random
import signal
import time
from functools import cache
from typing import Any

from stepscope import TrainingRunLogger

SMALLEST, LARGEST = 100, 200_000  # bytes of a record, about
FRAME = 85  # bytes of a message's line besides its text
NUMBER = 45  # bytes of a number and its name
CONTENTS = 32


def expected(seed: int, number: int) -> tuple[str, Any]:
    """The kind and the content of a record: a step, a message, or many named numbers, 100 B to 200 kB long."""
    return _content(seed, number % CONTENTS)


@cache
def _content(seed: int, which: int) -> tuple[str, Any]:
    random_ = random.Random(seed * 1_000_003 + which)
    size = int(math.exp(random_.uniform(math.log(SMALLEST), math.log(LARGEST))))
    kind = random_.choice(["step", "message", "metrics"])
    if kind == "step":
        return kind, (which / 1000, which, 156, random_.random(), random_.random(), 2e-4)
    if kind == "message":
        return kind, (f'{which} "line"\n\u2713 ' * size)[: max(0, size - FRAME)]
    return kind, {f"layer.{n}/update_to_weight_ratio": random_.random() for n in range(1 + size // NUMBER)}


def log(run: TrainingRunLogger, number: int, kind: str, content: Any) -> None:
    """The call that a user would make for it."""
    if kind == "step":
        run.log_step(number, *content)
    elif kind == "message":
        run.message(content, step=number)
    else:
        run.log(content, step=number)


def main() -> None:
    """Log, and acknowledge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--burst", type=int, help="so many steps as fast as they go, then SIGKILL by its own hand")
    asked = parser.parse_args()
    run = TrainingRunLogger(asked.path, verbosity=-2)
    if asked.burst is not None:
        for number in range(asked.burst):
            run.log_step(number, number / 1000, number, 156, 0.5, 2.0, 2e-4)
        os.kill(os.getpid(), signal.SIGKILL)
    for which in range(CONTENTS):
        expected(asked.seed, which)
    number = 0
    while True:
        kind, content = expected(asked.seed, number)
        time.sleep(asked.pause)
        began = time.monotonic_ns()
        log(run, number, kind, content)
        os.write(1, f"{number} {began} {time.monotonic_ns()}\n".encode())
        number += 1


if __name__ == "__main__":
    main()
