"""Keeps a stream of steps below what a server takes, and leaves out evenly what is too much.

    sink = Throttle(Background(…), rows_per_s=15, say=print)
    sink.write(record)
    sink.left_out      # how many steps the server does not get

A short burst passes whole. Under a higher rate that lasts, one step in so many passes; an evaluation, an event, and
a step that something is odd about (not finite, a norm that stands out, an event that refers to it) always does.
All records of a step make one row, so they pass or are left out together.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..records import Record
from .background import EXIT_S, nothing
from .sink import Backend
from .worth import Worth

ROWS_PER_S = 15.0
BURST = 150  # steps that pass whole; as many again are kept in reserve for a rate that is very high
STEEPNESS = 3
HELD = 256  # steps that were left out and can still be called for
NO_ROW = {"run", "dataset", "gpu-model", "message", "rewind", "end"}


class Throttle:
    """Passes on what a server can take."""

    def __init__(
        self,
        sink: Backend,
        rows_per_s: float = ROWS_PER_S,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str, str, str], Any] = nothing,
        name: str = "wandb",
    ):
        self.name = name
        self.steps = 0
        self.left_out = 0
        self._sink, self._clock, self._say = sink, clock, say
        self._worth = Worth()
        self._bucket = Bucket(rows_per_s, burst, clock())
        self._passed: OrderedDict[int, bool] = OrderedDict()  # the newest steps: whether they were passed on
        self._held: dict[int, list[Record]] = {}
        self._told_start = self._stopped = False

    def write(self, record: Record) -> None:
        """Pass a record on, or leave it out with its step."""
        step = getattr(record, "step", 0)
        if record.kind in NO_ROW:
            self._sink.write(record)
        elif self._worth.precious(record):
            self._pass_whole(step, record)
        elif self._is_wanted(step):
            self._sink.write(record)
        else:
            self._held[step].append(record)

    def _pass_whole(self, step: int, record: Record) -> None:
        """A precious record takes along what was left out of its step."""
        if not self._passed.get(step, False):
            self._bucket.spend(self._clock())
            if step in self._passed:
                self.left_out -= 1
            self._decide(step, True)
        for held in self._held.pop(step, []):
            self._sink.write(held)
        self._sink.write(record)

    def _is_wanted(self, step: int) -> bool:
        if step not in self._passed:
            self.steps += 1
            passes = self._bucket.lets_pass(self._clock())
            self.left_out += not passes
            self._decide(step, passes)
            if not passes and not self._told_start:
                self._tell_start(step)
        return self._passed[step]

    def _decide(self, step: int, passes: bool) -> None:
        self._passed[step] = passes
        if not passes:
            self._held[step] = []
        while len(self._passed) > HELD:
            oldest, _ = self._passed.popitem(last=False)
            self._held.pop(oldest, None)

    def _tell_start(self, step: int) -> None:
        self._told_start = True
        takes = f"{self.name} takes about {self._bucket.rows_per_s:g} rows a second"
        message = f"{takes}: from step {step} on it gets a part of the steps, chosen evenly"
        self._say(f"{self.name}-thinned", message, "log less often, or use mode: offline, which has no limit")

    def stop(self) -> None:
        """Take no more, and say how much was left out."""
        self._sink.stop()
        if self.left_out and not self._stopped:
            self._stopped = True
            message = f"{self.name} is without {self.left_out} of {self.steps} steps, left out evenly"
            self._say(f"{self.name}-left-out", message, "the run file has every step")

    def close(self, deadline_s: float = EXIT_S) -> int:
        """Close the backend behind."""
        self.stop()
        return self._sink.close(deadline_s)


class Bucket:
    """How many rows may pass now: a burst out of its contents, then a share that shrinks as it empties.

    A rate that lasts finds the level at which as much passes as flows in, and stays there: so what passes is even.
    """

    def __init__(self, rows_per_s: float, burst: int, now: float):
        self.rows_per_s = rows_per_s
        self._reserve = float(burst)
        self._size = self._rows = 2.0 * burst
        self._last = now
        self._credit = 0.0

    @property
    def share(self) -> float:
        """The share of the steps that passes now."""
        return min(1.0, (max(0.0, self._rows) / self._reserve) ** STEEPNESS)

    def lets_pass(self, now: float) -> bool:
        """Whether one more step may pass."""
        self._fill(now)
        self._credit += self.share
        if self._credit < 1.0 or self._rows < 1.0:
            return False
        self._credit -= 1.0
        self._rows -= 1.0
        return True

    def spend(self, now: float) -> None:
        """Take note of a row that had to pass."""
        self._fill(now)
        self._rows -= 1.0

    def _fill(self, now: float) -> None:
        self._rows = min(self._size, self._rows + max(0.0, now - self._last) * self.rows_per_s)
        self._last = max(now, self._last)
