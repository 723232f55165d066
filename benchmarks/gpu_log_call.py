"""What logging device tensors costs a training step on a GPU, beside the ways that wait.

    python -m benchmarks.gpu_log_call

Once beside a step that keeps the device busy, once beside one so small that the host is the bottleneck and every
microsecond shows. Each way runs in blocks of steps, interleaved with the bare
loop; the ratio is of neighbouring blocks, with the 95 % interval of its median.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS, STEPS = 21, 40


def main() -> None:
    """Print the tables, or say that there is no device."""
    import torch

    if not torch.cuda.is_available():
        print("gpu_log_call: needs a CUDA device; not measured here")
        return
    for width, batch in ((4096, 8192), (1024, 512)):
        _table(torch, _training_step(torch, width, batch), f"6 layers of {width}², batch {batch}")


def _table(torch: Any, step: Callable[[], tuple[Any, Any]], title: str) -> None:
    from stepscope import TrainingRunLogger

    folder = Path(__file__).parents[1] / "build"
    folder.mkdir(exist_ok=True)
    calls: list[float] = []
    with tempfile.TemporaryDirectory(dir=folder) as out:
        run = TrainingRunLogger(Path(out) / "training.json", verbosity=-2)
        ways: dict[str, Callable[[int, Any, Any], Any]] = {
            "log_step(loss=tensor, norm=tensor)": lambda n, loss, norm: run.log_step(n, loss=loss, norm=norm),
            "loss.item(), norm.item()": lambda n, loss, norm: (loss.item(), norm.item()),
        }
        ratios = {name: _ratios(torch, step, way) for name, way in ways.items()}
        _block(torch, step, _timed(lambda n, loss, norm: run.log_step(n + 10**6, loss=loss, norm=norm), calls), 0)
        run.close()
    print(f"\nLogging device tensors every step, {title}: {_block(torch, step, None, 0) / STEPS * 1e3:.2f} ms a step")
    print(f"  {'way':38} ratio to the bare loop [95 % interval of the median]")
    for name, values in ratios.items():
        low, high = _interval(values)
        print(f"  {name:38} {statistics.median(values):.4f}  [{low:.4f}, {high:.4f}]")
    print(f"  host time of a log_step call: median {statistics.median(calls) * 1e6:.1f} µs")


def _interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median, from the order of the values."""
    ordered = sorted(values)
    off = int((len(ordered) - 1.96 * len(ordered) ** 0.5) / 2)
    return ordered[off], ordered[-1 - off]


def _training_step(torch: Any, width: int, batch: int) -> Callable[[], tuple[Any, Any]]:
    layers = [torch.nn.Linear(width, width) for _ in range(6)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(batch, width, device="cuda")

    def step() -> tuple[Any, Any]:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss, norm

    for _ in range(20):
        step()
    return step


def _timed(way: Callable[[int, Any, Any], None], calls: list[float]) -> Callable[[int, Any, Any], None]:
    def timed(n: int, loss: Any, norm: Any) -> None:
        begin = time.perf_counter()
        way(n, loss, norm)
        calls.append(time.perf_counter() - begin)

    return timed


def _block(
    torch: Any, step: Callable[[], tuple[Any, Any]], way: Callable[[int, Any, Any], None] | None, n: int
) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for number in range(STEPS):
        loss, norm = step()
        if way:
            way(n + number, loss, norm)
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def _ratios(torch: Any, step: Callable[[], tuple[Any, Any]], way: Callable[[int, Any, Any], None]) -> list[float]:
    values = []
    for number in range(ROUNDS):
        before = _block(torch, step, None, 0)
        watched = _block(torch, step, way, number * STEPS)
        after = _block(torch, step, None, 0)
        values.append(2 * watched / (before + after))
    return values


if __name__ == "__main__":
    main()
