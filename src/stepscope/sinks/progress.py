"""How far a run is, how long it still takes, and a line that shows that it lives while no step comes.

    progress = Progress()
    progress.begin(header)                      # total_steps, total_tokens or total_epochs
    progress.step(step)
    progress.percent, progress.eta_s            # 12.5, 8100.0

Times are taken from the records, so that a replayed file shows what the live run showed.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from math import isfinite
from statistics import median

from ..records import Eval, Header, Step

WINDOW = 200
TEN_YEARS_S = 10 * 365 * 86400
QUIET_S = 2.0  # so long nothing is printed before the waiting line appears
WAITING_S = 0.5


class Progress:
    """Percent and remaining time from the steps that were seen."""

    def __init__(self) -> None:
        self.percent: float | None = None
        self.eta_s: float | None = None
        self._totals: tuple[int | None, int | None, float | None] = (None, None, None)
        self._tokens = 0.0  # seen so far, the steps between two records included
        self._step_s: deque[float] = deque(maxlen=WINDOW)
        self._eval_s, self._steps = 0.0, 0
        self._last: tuple[int, float | None] | None = None
        self._pause_s = 0.0

    def begin(self, header: Header) -> None:
        """A new attempt begins."""
        self._totals = (header.total_steps, header.total_tokens, header.total_epochs)
        self.rewind()

    def rewind(self) -> None:
        """The next step does not follow the last one: measure anew."""
        self._last, self._pause_s = None, 0.0

    def step(self, step: Step) -> None:
        """Take in a step."""
        now = seconds(step.time)
        gap = self._measure(step, now)
        tokens = step.step_tokens or 0
        self._tokens = self._tokens + gap * tokens if gap else (step.step + 1.0) * tokens
        self._last, self._pause_s = (step.step, now), 0.0
        self.percent = self._percent(step)
        self.eta_s = self._eta(self._steps_left(step))

    def _eta(self, left: float | None) -> float | None:
        if left is None or not self._step_s:
            return None
        evals = self._eval_s / self._steps if self._steps else 0.0
        eta = left * (median(self._step_s) + evals)
        return eta if eta < TEN_YEARS_S else None

    def _measure(self, step: Step, now: float | None) -> int:
        """Steps since the last record; their mean time, evaluations not counted, joins the window."""
        if self._last is None or step.step <= self._last[0]:
            if not self._step_s and step.duration_ms and isfinite(step.duration_ms):
                self._step_s.append(step.duration_ms / 1000)
            return 0
        before, then = self._last
        gap = step.step - before
        self._steps += gap
        if now is not None and then is not None and now > then:
            if self._steps == gap:
                self._step_s.clear()  # the first step's own duration was a stand-in
            self._step_s.append(max(now - then - self._pause_s, 0.0) / gap)
        return gap

    def eval(self, record: Eval) -> None:
        """Take in an evaluation: it is not part of a step's time, but of the remaining time."""
        now = seconds(record.time)
        cost = (record.duration_ms or 0) / 1000
        if not cost and self._last and self._last[1] is not None and now is not None:
            cost = now - self._last[1] - self._pause_s  # nobody said how long it took: since the step before it
        if not (isfinite(cost) and cost > 0):
            return
        self._eval_s += cost
        self._pause_s += cost

    def _percent(self, step: Step) -> float | None:
        steps, tokens, epochs = self._totals
        if steps:
            return min(100 * step.step / steps, 100.0)
        if tokens and step.step_tokens:
            return min(100 * self._tokens / tokens, 100.0)
        if step.epoch is None or not isfinite(step.epoch):
            return None
        if epochs:
            return min(100 * step.epoch / epochs, 100.0)
        return 100 * (step.epoch % 1) or (100.0 if step.epoch > 0 else 0.0)  # a step that ends its epoch has done it

    def _steps_left(self, step: Step) -> float | None:
        steps, tokens, epochs = self._totals
        if steps:
            return max(steps - step.step, 0)
        if tokens and step.step_tokens:
            return max(tokens - self._tokens, 0) / step.step_tokens
        if epochs and step.epoch and step.step and isfinite(step.epoch):
            return max(epochs - step.epoch, 0) * step.step / step.epoch
        return None


def seconds(time_text: str) -> float | None:
    """A record's time as seconds since 1970."""
    try:
        return datetime.fromisoformat(time_text + "+00:00").timestamp()
    except ValueError:
        return None


class Waiting:
    """On a terminal: `… setting up 12 s`, rewritten in place while nothing else is printed."""

    def __init__(self, out: Callable[[str], None], is_terminal: Callable[[], bool]):
        self.label = "waiting"
        self._out = out
        self._shown = False
        self._printed = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        if is_terminal():
            with suppress(RuntimeError):  # none can be started at the end of the interpreter
                threading.Thread(target=self._tick, name="stepscope-waiting", daemon=True).start()

    def before_print(self) -> None:
        """Make room for a line."""
        with self._lock:
            if self._shown:
                self._out("\r\x1b[2K")
            self._shown = False
            self._printed = time.monotonic()

    def close(self) -> None:
        """Stop, and leave nothing behind."""
        self._stop.set()
        self.before_print()

    def _tick(self) -> None:
        while not self._stop.wait(WAITING_S):
            with self._lock:
                quiet = time.monotonic() - self._printed
                if quiet >= QUIET_S and not self._stop.is_set():
                    # the cursor goes back, so that what the program prints itself overwrites the line
                    self._out(f"\x1b[2K… {self.label} {quiet:.0f} s\r")
                    self._shown = True
