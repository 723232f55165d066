"""What torch knows of its GPUs and NVML does not; nothing as long as asking would make a CUDA context.

torch_gpus()                                # None, or [TorchGpu(uuid="GPU-…", sm_count=132, l2_size=62914560)]
cuda_runtime("13.0")                        # 13000
"""

import sys
from typing import Any, NamedTuple


class TorchGpu(NamedTuple):
    """A GPU in torch's order."""

    uuid: str | None = None
    sm_count: int | None = None
    l2_size: int | None = None
    cuda_runtime: int | None = None


def torch_gpus() -> list[TorchGpu] | None:
    """The GPUs that torch works with; None before it does."""
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return None
        runtime = cuda_runtime(torch.version.cuda)
        return [_gpu(torch.cuda.get_device_properties(i), runtime) for i in range(torch.cuda.device_count())]
    except Exception:  # noqa: BLE001 - a driver that broke raises what it likes
        return None


def _gpu(known: Any, runtime: int | None) -> TorchGpu:
    uuid = getattr(known, "uuid", None)
    return TorchGpu(
        uuid=None if uuid is None else f"GPU-{uuid}",
        sm_count=getattr(known, "multi_processor_count", None),
        l2_size=getattr(known, "L2_cache_size", None),
        cuda_runtime=runtime,
    )


def cuda_runtime(version: str | None) -> int | None:
    """CUDA's version as its own header counts: 12.8 is 12080."""
    try:
        major, minor = (version or "").split(".")[:2]
        return int(major) * 1000 + int(minor) * 10
    except ValueError:
        return None
