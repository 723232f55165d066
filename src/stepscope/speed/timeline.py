"""Times as they are told, in order, each as soon as its device events have passed; on a CPU at once.

timeline = Timeline(device, tell)        # device is None on a CPU
timeline.put(Timed("step", step, taken, interval))
timeline.settle()                        # at every step: never waits
timeline.drain(deadline_s=1.0)           # at the end
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..clock import utc_now
from .device_clock import DeviceClock
from .phases import Taken

BATCH = 16  # so many are told at once at most: a training must not stand still for long
MOST = 256  # steps that may wait for the device; those before them are told without its times


class Timed:
    """A stretch of time on both clocks; `device` is None where the device's is not known."""

    def __init__(self, kind: str, what: Any, of: Any, taken: Taken, duration: int, interval: Any = None):
        self.kind, self.what, self.of, self._interval, self._spans = kind, what, of, interval, taken.spans
        self.number: int | None = None  # of a step
        self.time = utc_now()  # at its end, which may be a while before it is told
        self.duration_ms = duration / 1e6
        self.host = {path: (spent / 1e6, count) for path, (spent, count) in taken.host.items()}
        self.device: dict[str, tuple[float, int]] | None = None
        self.device_duration_ms: float | None = None

    @property
    def clock(self) -> str:
        """Whose clock the phases are on."""
        return "host" if self.device is None else "device"

    @property
    def phases(self) -> dict[str, tuple[float, int]]:
        """Milliseconds and count by phase, on that clock."""
        return self.host if self.device is None else self.device

    @property
    def took_ms(self) -> float:
        """Duration on that clock."""
        return self.duration_ms if self.device_duration_ms is None else self.device_duration_ms

    def events(self) -> list[Any]:
        """The device events of its phases, then those of its ends."""
        return [event for _, a, b in self._spans for event in (a, b)] + list(self._interval or ())

    def passed(self, clock: DeviceClock) -> bool:
        """Whether the device has come to the end of it."""
        events = self.events()
        return not events or clock.lost or all(clock.passed(event) for event in reversed(events) if event is not None)

    def read(self, clock: DeviceClock) -> None:
        """Read the device's clock, once it has passed."""
        if not self._interval and self.kind != "outside":
            return
        found: dict[str, tuple[float, int]] = {}
        for path, begin, end in self._spans:
            spent = clock.milliseconds(begin, end)
            if spent is None:
                return
            total, _ = found.get(path, (0.0, 0))
            found[path] = (total + spent, self.host.get(path, (0.0, 0))[1])
        if self._interval:
            self.device_duration_ms = clock.milliseconds(*self._interval)
            if self.device_duration_ms is None:
                return
        self.device = found


class Timeline:
    """What waits for the device."""

    def __init__(self, device: DeviceClock | None, tell: Callable[[Timed], Any], every_s: float = 0.0):
        self._device, self._tell, self._every_s = device, tell, every_s
        self._waiting: deque[Timed] = deque()
        self._told_at = 0.0

    def put(self, timed: Timed) -> None:
        """Tell it, when it is known and it is time: several at once cost a fraction of one after another."""
        self._waiting.append(timed)
        if len(self._waiting) >= BATCH or time.monotonic() - self._told_at >= self._every_s:
            self.settle()

    def settle(self) -> None:
        """Tell what is known by now."""
        self._told_at = time.monotonic()
        while self._waiting:
            first = self._waiting[0]
            if self._device is None or not first.events():
                self._tell(self._waiting.popleft())
                continue
            passed = first.passed(self._device)
            if not passed and len(self._waiting) <= MOST:
                return
            self._waiting.popleft()
            if passed:
                first.read(self._device)
            self._tell(first)
            # its ends are the ends of its neighbours too, and its epoch's: only what is its own goes back
            self._device.give_back([event for _, a, b in first._spans for event in (a, b)] if passed else [])

    def drain(self, deadline_s: float = 1.0) -> None:
        """Give the device a last chance; what it does not answer is told without its times."""
        until = time.monotonic() + deadline_s
        while self._waiting:
            self.settle()
            if self._waiting and self._device is not None and time.monotonic() > until:
                self._device.lost = True
            elif self._waiting:
                time.sleep(0.002)
