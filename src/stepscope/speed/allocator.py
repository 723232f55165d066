"""What CUDA's caching allocator holds, and what the process holds on the host.

    levels(0).allocated          # bytes; None without CUDA
    gpu_memory()                 # a GpuMemory for each GPU that this process uses
    memory(step=100)             # a Memory for each of them, and one for the host

Nothing here wakes CUDA, waits for a device or resets a counter: what `torch.cuda.max_memory_allocated` tells the
program stays what it would have told it. One reading costs tens of microseconds: take one when it is needed.
"""

import functools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ..records import GpuMemory, Memory

LIMIT = 0.90  # of a GPU's memory: above it, it is called a bottleneck


class Levels(NamedTuple):
    """One reading of one GPU's allocator, in bytes; peaks are since the start, or since the program reset them."""

    allocated: int
    peak_allocated: int
    reserved: int
    peak_reserved: int
    split: int  # free, but inside blocks whose other parts are in use: it can only serve what fits
    retries: int | None
    ooms: int | None


def levels(gpu: int) -> Levels | None:
    """What the allocator of a GPU holds now; None where there is none, or it does not tell."""
    if not torch.cuda.is_initialized():
        return None
    try:
        # the nested form: flattening and sorting it, as memory_stats does, costs several times the reading
        return parsed(torch.cuda.memory_stats_as_nested_dict(gpu))
    except Exception:  # noqa: BLE001 - another allocator that keeps no statistics, or a lost device
        return None


def parsed(stats: Mapping[str, Any]) -> Levels | None:
    """The levels in the allocator's own statistics."""
    if not stats:
        return None
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    split = stats.get("inactive_split_bytes", {}).get("all", {})
    return Levels(
        allocated["current"],
        allocated["peak"],
        reserved["current"],
        reserved["peak"],
        split.get("current", 0),
        stats.get("num_alloc_retries"),
        stats.get("num_ooms"),
    )


def used_gpus() -> dict[int, Levels]:
    """The GPUs of which this process holds memory, by torch's index; none while CUDA sleeps."""
    if not torch.cuda.is_initialized():
        return {}
    found = {gpu: levels(gpu) for gpu in range(torch.cuda.device_count())}
    return {gpu: level for gpu, level in found.items() if level is not None and level.reserved}


def gpu_memory(limit: float = LIMIT) -> list[GpuMemory]:
    """How full each GPU is of this process's tensors; safe to call from any thread."""
    return [_fullness(gpu, level, total(gpu), limit) for gpu, level in used_gpus().items()]


def _fullness(gpu: int, level: Levels, total: int, limit: float) -> GpuMemory:
    share = level.allocated / total
    return GpuMemory(
        id=gpu,
        allocated=level.allocated,
        total=total,
        reserved=level.reserved,
        utilization=100 * share,
        pressure=share,
        bottleneck=share > limit,
    )


@functools.cache
def total(gpu: int) -> int:
    """A GPU's memory; `mem_get_info` would open a context, of some 500 MB, on one that is not in use."""
    return int(torch.cuda.get_device_properties(gpu).total_memory)


def memory(step: int = 0) -> list[Memory]:
    """The allocator of each GPU in use, then the host."""
    found = [
        Memory(
            step=step,
            id=gpu,
            allocated=level.allocated,
            peak_allocated=level.peak_allocated,
            reserved=level.reserved,
            peak_reserved=level.peak_reserved,
            retries=level.retries,
            ooms=level.ooms,
        )
        for gpu, level in used_gpus().items()
    ]
    host = resident()
    return found if host is None else [*found, Memory(step=step, resident=host)]


def resident() -> int | None:
    """The process's resident memory; None where the system does not say it in a file."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None
