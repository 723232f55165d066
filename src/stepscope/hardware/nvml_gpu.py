"""One GPU as NVML tells of it.

gpu = NvmlGpu(pynvml, handle, id=0, say=troubles.append)
gpu.read()              # Gpu(id=0, clock=1980, power=612000, throttle="", …)
gpu.model(TorchGpu())   # GpuModel(id=0, name="NVIDIA H200", …)
gpu.missing             # {'temp_slowdown': 'Not Supported'}
gpu.tick()              # reads the PCIe counters alone: see NarrowCounter for how often that must be
"""

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any

from ..records import Gpu, GpuModel
from .counters import NarrowCounter, Rate
from .nvml_asking import Asking
from .nvml_fields import LIVE, MODEL, PCIE_VALUES, STATIC, VALUES, fastest_link, next_event, registered
from .torch_gpus import TorchGpu

SHORTEST_S = 0.2  # the energy counter moves some ten times a second: over less, its mean is none
KIB = 1024
MOST_XIDS = 16
NOT_SUPPORTED, TIMEOUT = 3, 10
DETOURS = {"energy", "pcie_link"}  # asked for on the way to a field


class NvmlGpu:
    """A GPU that is read field by field; what it does not tell is None."""

    def __init__(
        self,
        nvml: Any,
        handle: Any,
        id: int,
        say: Callable[[str], object] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.id = id
        self._asking = Asking(nvml, handle, f"GPU {id}", say)
        self._clock = clock
        self._static: dict[str, Any] = {}
        self._events: Any = None
        self._energy = Rate(SHORTEST_S)
        self._nvlink = {"nvlink_tx": Rate(), "nvlink_rx": Rate()}
        fastest = self._asking.ask("pcie_link", fastest_link)
        self._pcie = {field: NarrowCounter(fastest) for field in PCIE_VALUES}
        self._pcie_lock = Lock()  # so that no reading of the counters overtakes another

    @property
    def missing(self) -> dict[str, str]:
        """The fields that stay None, each with its reason."""
        return {field: why for field, why in self._asking.missing.items() if field not in DETOURS}

    @property
    def uuid(self) -> Any:
        """Its UUID."""
        return self._asking.ask("uuid", MODEL["uuid"])

    @property
    def lost(self) -> bool:
        """Whether it fell off the bus, or its driver is gone."""
        return self._asking.lost

    @property
    def pcie_longest_s(self) -> float | None:
        """How long the PCIe counters may go unread; None where they cannot be read."""
        if self.lost or self._asking.never >= set(PCIE_VALUES):
            return None
        return self._pcie["pcie_rx"].longest_s

    def read(self) -> Gpu:
        """The GPU's state now; power and rates are means since the last reading."""
        known = self._constant() | {field: self._asking.ask(field, calls) for field, calls in LIVE.items()}
        known |= self._utilization() | self._counted() | self._pcie_rates()
        known["fan"] = self._fan()
        known["xid"] = self._xid()
        return Gpu(id=self.id) if self.lost else Gpu(id=self.id, **known)

    def model(self, known_to_torch: TorchGpu) -> GpuModel:
        """What the GPU is."""
        capability = self._asking.ask("major", lambda nvml, gpu: nvml.nvmlDeviceGetCudaComputeCapability(gpu))
        major, minor = capability or (None, None)
        known = {field: self._asking.ask(field, calls) for field, calls in MODEL.items()}
        return GpuModel(
            id=self.id,
            major=major,
            minor=minor,
            sm_count=known_to_torch.sm_count,
            l2_size=known_to_torch.l2_size,
            cuda_runtime=known_to_torch.cuda_runtime,
            **known,
        )

    def tick(self) -> None:
        """Read the PCIe byte counters."""
        with self._pcie_lock:
            answers = self._asking.values(PCIE_VALUES)
            now = self._clock()
            for field, count in answers.items():
                self._pcie[field].add(count, now)

    def close(self) -> None:
        """Give back what was registered."""
        events, self._events = self._events, None
        if events is not None:
            with suppress(Exception):
                self._asking.nvml.nvmlEventSetFree(events)

    def _constant(self) -> dict[str, Any]:
        for field, calls in STATIC.items():
            if self._static.get(field) is None:
                self._static[field] = self._asking.ask(field, calls)
        return self._static

    def _utilization(self) -> dict[str, Any]:
        rates = self._asking.ask("gpu_util", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu))
        return {"gpu_util": rates.gpu, "mem_util": rates.memory} if rates is not None else {}

    def _fan(self) -> Any:
        """A GPU without a fan of its own is passively cooled, which the records write as 0."""
        return self._asking.ask("fan", lambda nvml, gpu: nvml.nvmlDeviceGetFanSpeed(gpu), {NOT_SUPPORTED: 0})

    def _counted(self) -> dict[str, Any]:
        """What counters and sensors tell by one call: power and NVLink over the time since the last reading."""
        values = self._asking.values(VALUES)
        now = self._clock()
        for field, rate in self._nvlink.items():
            if field in values:
                values[field] = rate.per_second(values[field] * KIB, now)
        energy = values.pop("energy", None)
        mean = None if energy is None else self._energy.per_second(energy, now)  # mJ in a second: mW
        return values | {"power": self._glimpse() if mean is None else mean}

    def _glimpse(self) -> Any:
        """The power at this moment: for the first reading, and where no energy is counted."""
        return self._asking.ask("power", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu))

    def _pcie_rates(self) -> dict[str, Any]:
        self.tick()
        with self._pcie_lock:
            rates = {field: counter.per_second() for field, counter in self._pcie.items()}
        for field in rates:
            if field not in self._asking.missing and rates[field] is None:
                self._asking.missing[field] = self._too_seldom()
        return rates

    def _too_seldom(self) -> str:
        longest_s = self._pcie["pcie_rx"].longest_s
        if longest_s is None:
            return "the speed of its PCIe link is unknown, so nobody knows how often its byte counters came round"
        return f"its byte counters come round: no two readings within {longest_s * 1000:.0f} ms yet"

    def _xid(self) -> int | None:
        """The newest XID error since the last reading, of whatever process."""
        if self._events is None:
            self._events = self._asking.ask("xid", registered)
        events, newest = self._events, None
        for _ in range(MOST_XIDS if events is not None else 0):
            xid = self._asking.ask("xid", lambda nvml, gpu: next_event(nvml, events), {TIMEOUT: None})
            if xid is None:
                break
            newest = xid
        return newest
