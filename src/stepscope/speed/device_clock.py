"""The device's clock: pooled CUDA events, read when they have passed, so that nobody waits for the GPU.

    clock = DeviceClock()
    begin = clock.mark()            # records an event on the current stream
    …
    end = clock.mark_end(begin)
    clock.passed(end)               # has the device come so far?
    clock.milliseconds(begin, end)  # only then

An event costs 6 µs of host time and a query 0.3 µs, both hidden while the host runs ahead of the device.
"""

from collections.abc import Callable
from typing import Any

LARGEST_POOL = 4096


def cuda_event() -> Any:
    """A CUDA event that can tell the time."""
    import torch

    return torch.cuda.Event(enable_timing=True)


class DeviceClock:
    """Marks on the device's time line."""

    def __init__(self, make_event: Callable[[], Any] = cuda_event, is_capturing: Callable[[], bool] | None = None):
        self._make, self._pool = make_event, list[Any]()
        self._is_capturing = is_capturing or _capturing
        self.lost = False  # the device does not answer any more
        self.ends = self.idle_ends = 0  # phase ends, and those at which the device had caught up

    def mark(self) -> Any:
        """An event on the current stream; None where none can be recorded."""
        if self.lost or self._is_capturing():
            return None
        try:
            event = self._pool.pop() if self._pool else self._make()
            event.record()
        except Exception:  # noqa: BLE001 - a device that fell off the bus must not end the training
            self.lost = True
            return None
        return event

    def mark_end(self, begin: Any) -> Any:
        """The event at the end of a phase; also looks whether the device has reached its beginning already."""
        if begin is not None:
            self.ends += 1
            self.idle_ends += self.passed(begin)
        return self.mark()

    def passed(self, event: Any) -> bool:
        """Whether the device has come to `event`; never waits."""
        if event is None or self.lost:
            return False
        try:
            return bool(event.query())
        except Exception:  # noqa: BLE001 - see above
            self.lost = True
            return False

    def milliseconds(self, begin: Any, end: Any) -> float | None:
        """The device's time between two events that have passed; None where it cannot be known."""
        if begin is None or end is None or self.lost:
            return None
        try:
            return float(begin.elapsed_time(end))
        except Exception:  # noqa: BLE001 - see above
            self.lost = True
            return None

    def give_back(self, events: list[Any]) -> None:
        """Events that nobody needs any more."""
        if len(self._pool) < LARGEST_POOL:
            self._pool += [event for event in events if event is not None]

    def take_idle(self) -> float | None:
        """The share of phase ends since the last time at which the device had nothing left to do."""
        ends, idle = self.ends, self.idle_ends
        self.ends = self.idle_ends = 0
        return idle / ends if ends else None


def _capturing() -> bool:
    import torch

    return bool(torch.cuda.is_current_stream_capturing())
