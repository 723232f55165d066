"""Faults to plant in a training: what costs it time or endangers it, each as large as one says.

    fault = FAULTS["transfer"].make(0.12)        # moving a batch takes 12 % of a step
    with fault.planted(job):
        for step in range(300):
            fault.fetch(); …; fault.transfer(); …; fault.forward(); …
            fault.over(seconds)                  # of the step, so that the next one knows how long to sleep

Sizes are those of the rules' own limits: just under, just over, gross. A sleep is measured against the steps around
it, so that its share is what was asked for on a busy machine too.
"""

import mmap
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from tests.hardware import scripted_host, scripted_nvml

from stepscope.diagnose.limits import Limits
from stepscope.hardware.nvml import Nvml
from stepscope.hardware.sampler import Sampler
from stepscope.hardware.system import SystemReader
from stepscope.monitor import machine

from .fault_models import Job

CLEAN = 10  # steps at the start that show what a step takes; the rules leave them out as well
SETTLES = 10  # steps in which a share that is off is set right
READ_S = 0.05  # a run of three seconds stands for one of a minute
GIB = 1 << 30


def spend(seconds: float) -> None:
    """Pass so much time, asleep while that is precise."""
    until = time.perf_counter() + seconds
    if seconds > 0.002:
        time.sleep(seconds - 0.001)
    while time.perf_counter() < until:
        pass


class Fault:
    """None at all: what the others begin with."""

    became: float | None = None  # its size in truth, where the machine has a say in it
    on = True  # it can be taken away and come back, to measure what it costs

    def fetch(self) -> None:
        """Where a batch is made."""

    def transfer(self) -> None:
        """Where it is moved."""

    def forward(self) -> None:
        """Where the model works."""

    def over(self, seconds: float) -> None:
        """A step took so long."""

    @contextmanager
    def planted(self, job: Job, folder: Path) -> Iterator[None]:
        """While this lasts."""
        yield


class Sleep(Fault):
    """A part of the step takes such a share of it, what it takes by itself included."""

    def __init__(self, place: str, share: float):
        self._place, self._share = place, share
        self._own, self._rest = deque[float](maxlen=15), deque[float](maxlen=15)  # of the newest steps
        self._part = self._whole = 0.0  # in all, since it is planted
        self._slept = self._spent = 0.0  # in this step, and by the optimizer itself
        self._steps = 0
        if place != "update":
            setattr(self, place, self._sleep)

    def _sleep(self) -> None:
        self._slept = 0.0
        if self.on and self._steps >= CLEAN:
            own, rest = median(self._own), median(self._rest)
            usual = self._share * rest - (1 - self._share) * own
            behind = self._share * self._whole - self._part
            begin = time.perf_counter()
            spend(max(0.0, (usual + behind / SETTLES) / (1 - self._share)))
            self._slept = time.perf_counter() - begin

    def over(self, seconds: float) -> None:
        """Learn what a step takes without it, and how large it has become."""
        part = self._slept + self._spent
        if self.on and self._steps >= CLEAN:
            self._part, self._whole = self._part + part, self._whole + seconds
            self.became = self._part / self._whole
        self._steps += 1
        self._own.append(self._spent)
        self._rest.append(seconds - part)

    @contextmanager
    def planted(self, job: Job, folder: Path) -> Iterator[None]:
        """In the optimizer it stands in front of its `step`."""
        if self._place != "update":
            yield
            return
        step = job.optimizer.step

        def slow_step(*args: Any, **kwargs: Any) -> Any:
            self._sleep()
            begin = time.perf_counter()
            result = step(*args, **kwargs)
            self._spent = time.perf_counter() - begin
            return result

        with patch.object(job.optimizer, "step", slow_step):
            yield


class Slowing(Fault):
    """Each step takes a little longer than the one before: so much in all."""

    def __init__(self, growth: float, steps: int):
        self._growth, self._steps, self._step = growth, steps, 0
        self._usual: list[float] = []

    def forward(self) -> None:
        """By work, as a list that grows would."""
        if self.on and self._step >= CLEAN:
            spend(median(self._usual[2:]) * self._growth * (self._step - CLEAN) / (self._steps - CLEAN))

    def over(self, seconds: float) -> None:
        """The first steps show what one takes."""
        self._step += 1
        if self._step <= CLEAN:
            self._usual.append(seconds)


class Leak(Fault):
    """A buffer fills up, step by step, with so many times what the rule's limit is.

    It is one, with pages of its own: tensors that are kept lie between those that come and go, and make a heap grow
    by several times what they hold.
    """

    def __init__(self, times: float, steps: int):
        self._times, self._steps, self._step = times, steps, 0
        self._buffer: Any = None

    def forward(self) -> None:
        """A part more."""
        size = len(self._buffer)
        begin, end = (size * step // self._steps for step in (self._step, self._step + 1))
        self._buffer[begin:end].fill_(1)

    def over(self, seconds: float) -> None:
        """On to the next."""
        self._step += 1

    @contextmanager
    def planted(self, job: Job, folder: Path) -> Iterator[None]:
        """The limit is a share of what the process holds when four fifths of the run are still to come."""
        import psutil

        limits, held = Limits(), psutil.Process().memory_info().rss
        limit = max(limits.creep_bytes, limits.creep * held / (1 - limits.creep / 4))
        self._buffer = torch.frombuffer(mmap.mmap(-1, int(self._times * limit / 0.8)), dtype=torch.uint8)
        with patch.object(machine, "MEMORY_S", READ_S):
            yield


class Machine(Fault):
    """The machine tells something else than it is: read more often, from what `reader` and `gpus` make of it."""

    @contextmanager
    def planted(self, job: Job, folder: Path) -> Iterator[None]:
        """The thread that reads it reads the scripted one."""
        often = lambda *args, **named: Sampler(*args, **named | {"interval_s": READ_S})  # noqa: E731
        with ExitStack() as stack:
            for name, value in {"Sampler": often, "EVERY_STEPS": 1, **self.scripted(folder)}.items():
                stack.enter_context(patch.object(machine, name, value))
            yield

    def scripted(self, folder: Path) -> dict[str, Any]:
        """What the machine's readers are replaced with."""
        raise NotImplementedError


class Throttled(Machine):
    """A GPU that heat holds back in such a share of the readings; the step then takes as much longer."""

    def __init__(self, often: float, clock: float):
        self._often, self._clock = often, clock
        self._readings = 0
        self._held = False
        self._usual: list[float] = []

    def scripted(self, folder: Path) -> dict[str, Any]:
        """NVML, scripted."""
        self._gpu = scripted_nvml.gpu()
        self._nvml = Nvml(scripted_nvml.ScriptedNvml(self._gpu), torch=lambda: None)
        opened = SimpleNamespace(read=self._read, models=self._nvml.models, close=self._nvml.close)
        return {"Nvml": SimpleNamespace(open=lambda only=None: opened)}

    def _read(self) -> Any:
        """Held back at even distances, from this reading to the next."""
        self._readings += 1
        self._held = int(self._readings * self._often) > int((self._readings - 1) * self._often)
        highest = self._gpu["nvmlDeviceGetMaxClockInfo"]
        self._gpu["nvmlDeviceGetClockInfo"] = round(highest * self._clock) if self._held else highest
        self._gpu["nvmlDeviceGetCurrentClocksEventReasons"] = 0x40 if self._held else 0
        return self._nvml.read()

    def forward(self) -> None:
        """What a lower clock costs."""
        if self.on and self._held and len(self._usual) >= CLEAN:
            spend(median(self._usual) * (1 / self._clock - 1))

    def over(self, seconds: float) -> None:
        """Before the GPU is held back for good, one step is as another."""
        if len(self._usual) < CLEAN:
            self._usual.append(seconds)


class FullContainer(Machine):
    """A container whose memory is used so far."""

    def __init__(self, share: float):
        self._share = share

    def scripted(self, folder: Path) -> dict[str, Any]:
        """A tree of cgroups in which no page can be dropped."""
        limit = 8 * GIB
        files = {
            "sys/fs/cgroup/memory.max": limit,
            "sys/fs/cgroup/memory.current": int(limit * self._share),
            "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 0",
            "sys/fs/cgroup/cpu.max": "max 100000",
        }
        root = scripted_host.write(folder / "root", scripted_host.V2_CONTAINER | files)
        return {"SystemReader": lambda: SystemReader(root)}


class ShortQuota(Machine):
    """A container whose CPU quota runs out in such a share of its periods."""

    def __init__(self, share: float):
        self._share, self._periods = share, 0

    def scripted(self, folder: Path) -> dict[str, Any]:
        """Its counters go on from reading to reading."""
        quiet = {"sys/fs/cgroup/memory.current": GIB, "sys/fs/cgroup/cpu.stat": scripted_host.cpu_stat(0, 0)}
        root = scripted_host.write(folder / "root", scripted_host.V2_CONTAINER | quiet)
        reader = SystemReader(root)

        def read() -> Any:
            self._periods += 100
            counted = scripted_host.cpu_stat(self._periods, round(self._periods * self._share))
            scripted_host.write(root, {"sys/fs/cgroup/cpu.stat": counted})
            return reader.read()

        return {"SystemReader": lambda: SimpleNamespace(read=read)}


class Planted(NamedTuple):
    """A kind of fault: the rule that is to name it, three sizes, in words what they are, and how it is made."""

    rule: str
    sizes: tuple[float, float, float]
    unit: str
    make: Callable[[float, int], Fault]
    costs: bool = True  # time, so that its removal can be measured


FAULTS: dict[str, Planted] = {
    "loader": Planted("data_generation", (0.27, 0.33, 0.80), "of a step", lambda size, n: Sleep("fetch", size)),
    "transfer": Planted("transfer", (0.085, 0.12, 0.50), "of a step", lambda size, n: Sleep("transfer", size)),
    "optimizer": Planted("optimizer", (0.17, 0.23, 0.60), "of a step", lambda size, n: Sleep("update", size)),
    # gross, said as 0: 0.1 % a step, over all steps
    "slowing": Planted("drift", (0.07, 0.14, 0.0), "longer at the end", Slowing),
    "creep": Planted("creep", (0.6, 1.5, 6.0), "the limit", Leak, costs=False),
    "throttle": Planted(
        "throttle", (0.08, 0.13, 1.0), "of the readings", lambda size, n: Throttled(size, 0.5 if size == 1 else 0.6)
    ),
    "container": Planted(
        "container_memory", (0.84, 0.86, 0.98), "of its memory", lambda size, n: FullContainer(size), costs=False
    ),
    "quota": Planted("cpu_quota", (0.04, 0.06, 0.5), "of the periods", lambda size, n: ShortQuota(size), costs=False),
}
