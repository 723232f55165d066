"""An allocation that failed: what was asked for, what was free, and what held the rest.

    try:
        step()
    except Exception as error:
        if is_out_of_memory(error):
            record = out_of_memory(error, watch.now(), last_steps, phase="forward_pass")
        raise

The numbers are those of the error's own text, which was written when it happened: by the time that anybody looks,
the unwinding stack has given memory back. What the text does not say is left out.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ..records import Allocator, OutOfMemory, Segment

STEPS = 256
SIZE = r"([\d.]+) (bytes|[KMGTPE]iB)"
UNITS = {"bytes": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "EiB": 60}
SIGNS = (
    "out of memory",  # CUDA, HIP, XPU and MPS all say so
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",  # on Windows
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, is a failed allocation."""
    return _culprit(error) is not None


def out_of_memory(
    error: BaseException,
    stats: Sequence[Allocator] | Sequence[Segment] | None = None,
    last_steps: Sequence[Any] | None = None,
    phase: str | None = None,
    snapshot_folder: str | os.PathLike[str] | None = None,
) -> OutOfMemory:
    """The record of a failed allocation; with a folder, the allocator's snapshot is written there."""
    message = str(_culprit(error) or error)
    gpu = _gpu(message)
    allocated = _size(rf"{SIZE} is allocated by PyTorch", message)
    unused = _size(rf"{SIZE} is reserved by PyTorch but unallocated", message)
    return OutOfMemory(
        id=gpu,
        asked=_asked(message),
        free=_size(rf"{SIZE} is free", message),
        allocated=allocated,
        reserved=None if allocated is None or unused is None else allocated + unused,
        message=message or type(error).__name__,
        phase=phase,
        stats=_of(gpu, stats or ()) or None,
        last_steps=list(last_steps)[-STEPS:] if last_steps else None,
        snapshot=None if snapshot_folder is None else snapshot(snapshot_folder),
    )


def snapshot(folder: str | os.PathLike[str]) -> str | None:
    """Write the snapshot of CUDA's allocator, for pytorch.org/memory_viz; None when there is none to be had."""
    if not torch.cuda.is_initialized():
        return None
    path = _free_name(Path(folder))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.cuda.memory._dump_snapshot(str(path))
    except Exception:  # noqa: BLE001 - a full disk, or no memory left for it: the record is worth more
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return str(path)


def _culprit(error: BaseException) -> BaseException | None:
    """The failed allocation among an error and its causes."""
    return next((one for one in _causes(error) if _is_one(one)), None)


def _is_one(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        yield one
        seen.append(one)
        one = one.__cause__


def _gpu(message: str) -> int | None:
    found = re.search(r"\bGPU (\d+)", message)
    return None if found is None else int(found[1])


def _asked(message: str) -> int | None:
    """What was asked for: torch on a GPU, torch on the host, numpy."""
    return _size(rf"[Tt]ried to allocate {SIZE}", message) or _size(rf"[Uu]nable to allocate {SIZE}", message) or None


def _size(pattern: str, message: str) -> int | None:
    """The size that a pattern finds, as exact as the message gives it."""
    found = re.search(pattern, message)
    return None if found is None else round(float(found[1]) * 2 ** UNITS[found[2]])


def _of(gpu: int | None, stats: Sequence[Allocator] | Sequence[Segment]) -> list[Segment]:
    """The segments of the GPU that failed; where it was the host, those of the record that has the host's."""
    found = [one for one in stats if isinstance(one, Segment)]
    records = [one for one in stats if isinstance(one, Allocator) and (gpu is None or one.id in (gpu, None))]
    return found or [segment for record in records[:1] for segment in record.stats or ()]


def _free_name(folder: Path) -> Path:
    """A name that is not taken: there may be several in one run, and several ranks in one folder."""
    name = f"oom-rank{os.environ.get('RANK', '0')}"
    numbers = (folder / f"{name}{'' if n == 1 else f'-{n}'}.pickle" for n in range(1, 10_000))
    return next((path for path in numbers if not path.exists()), folder / f"{name}.pickle")
