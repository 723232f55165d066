"""What a device reaches in matrix products and in copying memory: bounded to about a second, and leaves no trace.

    measure("cuda")             # Peaks(name="NVIDIA H200", tf32=434.0, bf16=785.0, …, source="measured")
    measure("cpu")              # Peaks(name="AMD EPYC, 2 threads", fp32=0.21, bf16=0.05, source="measured")

The operands are random: constant ones draw less power and reach more than any training does. On a CPU whose cores
others use at that moment a number format has no figure. What is global in torch (random numbers, threads, precision)
is as it was afterwards.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .cpu import cpu_name
from .peak import Peaks

GPU_S, CPU_S = 0.15, 0.1  # for each number format
LARGEST = 8192
SMALLEST_CPU = 256
BUSY = 0.7  # with less, the threads waited for cores that others had, and a hundredth of the peak is reached
LONG_S = 0.01  # a product that takes this long is large enough
COPIED = 1 << 30


def measure(device: Any) -> Peaks:
    """The best of what was reached in each number format."""
    import torch

    device = torch.device(device)
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        return _gpu(device) if device.type == "cuda" else _cpu()


def _cpu() -> Peaks:
    import torch

    name = f"{cpu_name()}, {torch.get_num_threads()} threads"
    fp32, bf16 = _growing(torch.float32), _growing(torch.bfloat16)
    return Peaks(name, fp32=fp32, bf16=bf16, source="measured")


def _growing(dtype: Any) -> float | None:
    """TFLOP/s of the best product; they grow until one is long enough to be worth it, or the time is over."""
    size, best = SMALLEST_CPU, (0.0, 0.0)
    a, b = _random(2, size, dtype, "cpu")
    a @ b  # the first one wakes threads and libraries
    until = time.perf_counter() + CPU_S
    while True:
        seconds, busy = _product(a, b)
        best = max(best, (2 * size**3 / seconds / 1e12, busy))
        left = until - time.perf_counter()
        if left < seconds:
            return best[0] if best[1] >= BUSY else None
        if seconds < LONG_S and left > 20 * seconds:  # of twice the size, eight times as long, and the making of it
            size *= 2
            a, b = _random(2, size, dtype, "cpu")


def _product(a: Any, b: Any) -> tuple[float, float]:
    """How long a product took, and the share of that time in which the threads had a core each."""
    import torch

    begin, used = time.perf_counter(), time.process_time()
    a @ b
    seconds = max(time.perf_counter() - begin, 1e-9)
    return seconds, (time.process_time() - used) / seconds / torch.get_num_threads()


def _gpu(device: Any) -> Peaks:
    import torch

    with torch.cuda.device(device):
        size = _fitting(torch.cuda.mem_get_info()[0])
        tf32 = bf16 = None
        if torch.cuda.get_device_capability() >= (8, 0):  # older ones compute these in other formats
            with _tf32():
                tf32 = _products(torch.float32, size, device)
            bf16 = _products(torch.bfloat16, size, device)
        fp16 = _products(torch.float16, size, device)
        name, bandwidth = torch.cuda.get_device_name(device), _copies(device)
        return Peaks(name, tf32=tf32, bf16=bf16, fp16=fp16, bandwidth=bandwidth, source="measured")


def _fitting(free: int) -> int:
    """The largest size whose three matrices take a tenth of the free memory at most."""
    size = LARGEST
    while size > 512 and 3 * size * size * 4 > free / 10:
        size //= 2
    return size


def _products(dtype: Any, size: int, device: Any) -> float | None:
    """TFLOP/s of products one after the other; None where the device has no room or no such product."""
    import torch

    try:
        a, b = _random(2, size, dtype, device)
        out = torch.empty_like(a)
        seconds = _repeated(lambda: torch.matmul(a, b, out=out))
    except RuntimeError:
        return None
    return 2 * size**3 / seconds / 1e12


def _copies(device: Any) -> float | None:
    """GB/s of a copy inside the device: each byte is read and written."""
    import torch

    try:
        size = min(COPIED, torch.cuda.mem_get_info()[0] // 10)
        source = torch.zeros(size, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        seconds = _repeated(lambda: target.copy_(source))
    except RuntimeError:
        return None
    return 2 * float(size) / seconds / 1e9


def _repeated(work: Callable[[], object]) -> float:
    """Seconds that the device takes for one piece of work, when it has many to do."""
    for _ in range(3):
        work()
    once = _timed(work, 1)
    return _timed(work, max(1, min(1000, int(GPU_S / max(once, 1e-6)))))


def _timed(work: Callable[[], object], times: int) -> float:
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / times


def _random(count: int, size: int, dtype: Any, device: Any) -> list[Any]:
    import torch

    own = torch.Generator(device=device).manual_seed(0)  # the user's random numbers stay as they are
    return [
        torch.randn(size, size, generator=own, device=device, dtype=torch.float32, requires_grad=False).to(dtype)
        for _ in range(count)
    ]


@contextmanager
def _tf32() -> Iterator[None]:
    """Products of FP32 matrices in TF32 meanwhile."""
    import torch

    matmul = torch.backends.cuda.matmul
    name, value = ("fp32_precision", "tf32") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True)
    before = getattr(matmul, name)
    setattr(matmul, name, value)
    try:
        yield
    finally:
        setattr(matmul, name, before)
