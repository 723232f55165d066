"""A host and a device whose clocks a test sets: what is launched runs behind what was launched before.

gpu = Gpu()
gpu.works(30)          # the host is busy for 30 ms
gpu.launches(5)        # and launches 5 ms of work for the device
gpu.clock              # a DeviceClock on it
"""

from typing import Any

from stepscope.speed.device_clock import DeviceClock

MS = 1_000_000


class Event:
    """An event of the scripted device."""

    def __init__(self, gpu: "Gpu"):
        self._gpu = gpu
        self.at: float | None = None

    def record(self) -> None:
        self.at = max(self._gpu.free_at, self._gpu.now)

    def query(self) -> bool:
        if self._gpu.lost:
            raise RuntimeError("CUDA error: device lost")
        return self.at is not None and self.at <= self._gpu.now

    def elapsed_time(self, end: Any) -> float:
        assert self.at is not None
        assert end.at is not None
        return float(end.at - self.at) / MS


class Gpu:
    """The host's time, and until when the device is busy, in nanoseconds."""

    def __init__(self) -> None:
        self.now = self.free_at = 0
        self.made, self.lost, self.capturing = 0, False, False
        self.clock = DeviceClock(self._event, lambda: self.capturing)

    def _event(self) -> Event:
        self.made += 1
        return Event(self)

    def host(self) -> int:
        """The host's clock."""
        return int(self.now)

    def works(self, ms: float) -> None:
        """The host is busy."""
        self.now += int(ms * MS)

    def launches(self, ms: float, launch_ms: float = 0.01) -> None:
        """The host launches work, which the device does when it comes to it."""
        self.works(launch_ms)
        self.free_at = max(self.free_at, self.now) + int(ms * MS)
