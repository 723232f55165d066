"""The NVIDIA GPUs that this process sees, through NVML: one record each, whatever state driver and GPU are in.

    nvml = Nvml.open()
    nvml.reason             # "" where there is a GPU, else why there is none; everything below works either way
    nvml.models()           # [GpuModel(id=0, name="NVIDIA H200", …)]
    nvml.read()             # [Gpu(id=0, clock=1980, power=612000, throttle="", …)], ids as torch counts
    nvml.missing            # {'temp_slowdown': 'Not Supported'}
    nvml.troubles           # ['GPU 1 does not answer any more: GPU is lost'], each said once
    nvml.close()

For a background thread, as a `Sampler` is: a reading takes some milliseconds a GPU. The PCIe byte counters have 32
bits, which a fast link fills in less than 100 ms, so a thread of their own reads them as often as that needs.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..records import Gpu, GpuModel, Record
from .nvml_gpu import NvmlGpu
from .sampler import Sampler
from .torch_gpus import TorchGpu, torch_gpus
from .visible import handle_of, visible

TICKS = 1.5  # readings of the PCIe counters in the time that they may go unread


class Nvml:
    """All GPUs of this process; without NVML or without a GPU, none and a reason."""

    def __init__(
        self,
        library: Any,
        *,
        only: Sequence[int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        torch: Callable[[], Sequence[TorchGpu] | None] = torch_gpus,
    ):
        self.reason = ""
        self.troubles: list[str] = []
        self._nvml, self._only, self._clock, self._torch = library, only, clock, torch
        self._pid = os.getpid()
        self._gpus: list[NvmlGpu] = []
        self._initialized = self._ordered = False
        self._ticker: Sampler | None = None
        try:
            library.nvmlInit()
            self._initialized = True
            entries = visible(os.environ.get("CUDA_VISIBLE_DEVICES"), library.nvmlDeviceGetCount())
            self._gpus = self._opened(entries, self.troubles)
            self.reason = "" if self._gpus else "NVML: no GPU is visible here"
        except Exception as error:  # noqa: BLE001 - no library, no driver, or one that is not whole
            self.reason = f"NVML: {str(error) or type(error).__name__}"

    @classmethod
    def open(cls, only: Sequence[int] | None = None, ticking: bool = True) -> "Nvml":
        """The GPUs of this machine, or of them those that `only` names as torch does; never raises."""
        try:
            import pynvml
        except Exception as error:  # noqa: BLE001 - not installed, or another package of that name
            nvml = cls(None, only=only)
            nvml.reason = f"nvidia-ml-py does not load: {error}"
            return nvml
        nvml = cls(pynvml, only=only)
        if ticking:
            nvml.start_ticking()
        return nvml

    def start_ticking(self) -> None:
        """Read the PCIe counters in the background as often as their rates need."""
        longest = [seconds for gpu in self._gpus if (seconds := gpu.pcie_longest_s) is not None]
        if longest and self._ticker is None:
            self._ticker = Sampler(self._tick, lambda record: None, min(longest) / TICKS, name="pcie")

    def read(self) -> list[Gpu]:
        """The state of each GPU; of one that is lost, its id alone."""
        return [gpu.read() for gpu in self._here()]

    def models(self) -> list[GpuModel]:
        """What each GPU is; the number of multiprocessors and the L2 cache are known once torch's CUDA is at work."""
        gpus, known = self._here(), list(self._torch() or ())
        return [gpu.model(known[gpu.id] if gpu.id < len(known) else TorchGpu()) for gpu in gpus]

    @property
    def missing(self) -> dict[str, str]:
        """The fields that stay None, each with its reason, and of which GPUs where it is not all of them."""
        reasons: dict[str, dict[str, list[int]]] = {}
        for gpu in self._gpus:
            for field, why in gpu.missing.items():
                reasons.setdefault(field, {}).setdefault(why, []).append(gpu.id)
        return {field: "; ".join(map(self._of_which, found.items())) for field, found in reasons.items()}

    def close(self) -> None:
        """End the reading and give NVML back."""
        gpus, self._gpus = self._gpus, []
        initialized, self._initialized = self._initialized, False
        if self._pid != os.getpid():
            return
        if self._ticker is not None and not self._ticker.close():
            return  # a call hangs in the driver: what it uses stays
        for gpu in gpus:
            gpu.close()
        if initialized:
            with suppress(Exception):
                self._nvml.nvmlShutdown()

    def _of_which(self, found: tuple[str, list[int]]) -> str:
        why, ids = found
        return why if len(ids) == len(self._gpus) else f"{why} (GPU {', '.join(map(str, ids))})"

    def _here(self) -> list[NvmlGpu]:
        """The GPUs in torch's order; none in a forked child, where NVML must not be used."""
        if self._pid != os.getpid():
            return []
        if not self._ordered and self._gpus:
            self._order()
        return self._gpus

    def _order(self) -> None:
        """Go by torch's UUIDs as soon as it knows them: its order may differ from NVML's."""
        known = self._torch()
        if known is None:
            return
        self._ordered = True
        uuids = [gpu.uuid or "" for gpu in known]
        if not all(uuids) or [gpu.uuid for gpu in self._gpus] == [uuids[id] for id in self._chosen(len(uuids))]:
            return
        wrong: list[str] = []
        gpus = self._opened(uuids, wrong)
        if not wrong:
            before, self._gpus = self._gpus, gpus
            for gpu in before:
                gpu.close()

    def _opened(self, entries: Sequence[int | str], troubles: list[str]) -> list[NvmlGpu]:
        """The GPUs that can be opened; one that cannot does not hide the others."""
        gpus = []
        for id in self._chosen(len(entries)):
            try:
                handle = handle_of(self._nvml, entries[id])
            except Exception as error:  # noqa: BLE001 - NVML's own, or a UUID that is nobody's
                troubles.append(f"GPU {id} cannot be read: {str(error) or type(error).__name__}")
            else:
                gpus.append(NvmlGpu(self._nvml, handle, id, self.troubles.append, self._clock))
        return gpus

    def _chosen(self, count: int) -> list[int]:
        return [id for id in range(count) if self._only is None or id in self._only]

    def _tick(self) -> Sequence[Record]:
        for gpu in self._gpus:
            gpu.tick()
        return ()
