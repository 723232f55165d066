"""What surrounds a training: host, GPUs and their memory, read by a thread, never by the training's own.

    machine = Machine(run.enter, memory)
    machine.step = 100                 # the newest step, for what the thread writes
    machine.arrived()                  # what it has read since the last time, for the verdicts
    machine.close()

The host is read every second, each GPU every hundred steps or ten seconds, whichever comes first.
"""

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..clock import utc_now
from ..hardware.nvml import Nvml
from ..hardware.sampler import Sampler
from ..hardware.system import SystemReader
from ..records import GpuModel, Record, StepRecord, System
from ..speed.device_clock import DeviceClock
from ..speed.memory import MemoryWatch

EVERY_STEPS, EVERY_S = 100, 10.0
KEPT = 600

Write = Callable[[Any], Any]


class Machine:
    """The background of a training."""

    def __init__(self, write: Write, memory: MemoryWatch | None, device: DeviceClock | None, hardware: bool = True):
        self.step = 0
        self._write, self._memory, self._device = write, memory, device
        self._arrived: deque[Record] = deque(maxlen=KEPT)
        self._ram: float | None = None
        self._gpu: dict[int, int] = {}
        self._newest: System | None = None
        self._system = SystemReader() if hardware else None
        self._nvml: Nvml | None = None
        self._last_step, self._last_s = -EVERY_STEPS, -EVERY_S
        self._sampler = Sampler(self._read, self._take, name="machine") if hardware else None

    def _read(self) -> list[StepRecord]:
        """In the thread: the host, and the GPUs when it is time."""
        assert self._system is not None
        system = self._system.read()
        if self._memory is not None and (gpus := self._memory.gpu_memory()):
            system = replace(system, gpus=gpus)
        found: list[StepRecord] = [system]
        if self._nvml is None:
            self._nvml = Nvml.open(only=_own_gpu())
            found += self._nvml.models()
        now = time.monotonic()
        if self.step - self._last_step >= EVERY_STEPS or now - self._last_s >= EVERY_S:
            self._last_step, self._last_s = self.step, now
            found += self._nvml.read()
        return found

    def _take(self, record: Any) -> None:
        """In the thread: what was read goes into the run, and waits to be judged."""
        if isinstance(record, System):
            self._newest = record
            self._ram = max(self._ram or 0.0, record.ram_percent) if record.ram_percent is not None else self._ram
            for gpu in record.gpus or []:
                self._gpu[gpu.id] = max(self._gpu.get(gpu.id, 0), gpu.allocated)
        if not isinstance(record, GpuModel):
            record = replace(record, time=utc_now(), step=self.step)
        self._arrived.append(record)
        self._write(record)

    def arrived(self) -> list[Record]:
        """What was read since the last time."""
        found = []
        while self._arrived:
            found.append(self._arrived.popleft())
        return found

    def take_maxima(self) -> tuple[float | None, dict[int, int]]:
        """The most RAM and GPU memory in use since the last time."""
        newest = self._newest
        ram, gpus = self._ram, dict(self._gpu)
        self._ram, self._gpu = (None if newest is None else newest.ram_percent), {}
        return ram, gpus

    def levels(self) -> list[StepRecord]:
        """The allocators' levels, and the host's."""
        found = self._memory.memory(self.step) if self._memory is not None else []
        return [replace(record, time=utc_now()) for record in found]

    def device_idle(self) -> float | None:
        """The share of phases at whose end the device had run dry."""
        return self._device.take_idle() if self._device is not None else None

    def close(self) -> None:
        """End the thread."""
        if self._sampler is not None:
            self._sampler.close()
        if self._nvml is not None:
            self._nvml.close()


def _own_gpu() -> list[int] | None:
    """A rank reads its own GPU; None for a process that has all of them."""
    rank = os.environ.get("LOCAL_RANK", "")
    return [int(rank)] if rank.isdigit() and os.environ.get("WORLD_SIZE", "1") != "1" else None
