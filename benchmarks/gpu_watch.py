"""What watching costs a real training step on a GPU: GPT-2 124M, compiled, 32 × 1024 tokens, watched and bare.

    python -m benchmarks.gpu_watch

Watched means eight phases with their device events, the loader, the step's bracket, records in a file, memory, and
the thread that reads NVML and the host. Blocks of watched and of bare steps take turns, each watched one with a scope
of its own, whose first steps count as its start: in them memory is measured and operations are counted.
"""

import statistics
import time
from collections.abc import Iterator
from typing import Any

from .paired import HEAD, ratio_row, ratios
from .report import fresh_folder, options, table

BAR = 1.002
PAIRS, STEPS, FIRST = 21, 15, 5


def main() -> None:
    """Print the table, or say that there is no device."""
    asked = options(__doc__)
    import torch

    if not torch.cuda.is_available():
        print("gpu_watch: no CUDA device here; not measured")
        return
    measure(*((3, 5) if asked.quick else (PAIRS, STEPS)))


def measure(pairs: int, steps: int) -> None:
    """The table."""
    import stepscope

    from .gpt2 import gpt2

    folder = fresh_folder("gpu_watch")
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run:
        blocks = Blocks(gpt2(), steps, run)
        blocks.watched(), blocks.bare()
        blocks.starts.clear(), blocks.first_bare.clear()
        compiled = compilations()
        found = ratios(blocks.bare, blocks.watched, pairs)
        recompiled = compilations() - compiled
        step_ms = 1000 * blocks.bare() / steps
        control = ratios(blocks.bare, blocks.bare, max(3, pairs // 4))
    start = 1000 * (statistics.median(blocks.starts) - statistics.median(blocks.first_bare))
    print(f"\nWatching GPT-2 124M, compiled, 32 × 1024 tokens: {step_ms:.2f} ms a step\n")
    print(table(HEAD, [ratio_row("watched", found, BAR), ratio_row("bare, as a control", control)]))
    shares = [r.share for r in stepscope.read_run(folder / "training.json").records("profile") if r.share is not None]
    said = f"{100 * statistics.median(shares):.3f} % of the host's time" if shares else "nothing"
    print(f"\nwatching says of itself that it cost {said}; once a run, at its start: {start:.0f} ms")
    print(f"graphs compiled again because of it: {recompiled}")


def compilations() -> int:
    """Graphs that torch has compiled so far."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


class Blocks:
    """Blocks of steps, watched and bare, each from an idle device to an idle device."""

    def __init__(self, training: Any, steps: int, run: Any):
        self.training, self.steps, self.run = training, steps, run
        self.starts: list[float] = []
        self.first_bare: list[float] = []

    def bare(self) -> float:
        """Seconds of a block without us."""
        first, rest = timed(self._bare())
        self.first_bare.append(first)
        return rest

    def watched(self) -> float:
        """Seconds of a block that is watched."""
        import stepscope

        begin = time.perf_counter()
        scope = stepscope.watch(self.training.model, self.training.optimizer, self.run, card=False)
        made = time.perf_counter() - begin
        first, rest = timed(self._watched(scope))
        scope.close()
        self.starts.append(made + first)
        return rest

    def _bare(self) -> Iterator[None]:
        training, parts = self.training, self.training.parts()
        for batch in training.batches(FIRST + self.steps):
            training.host = batch
            for _, part in parts:
                part()
            yield

    def _watched(self, scope: Any) -> Iterator[None]:
        training, parts = self.training, self.training.parts()
        for batch in scope.loader(training.batches(FIRST + self.steps)):
            training.host = batch
            with scope.step():
                for name, part in parts:
                    with scope.phase(name):
                        part()
            yield


def timed(loop: Iterator[None]) -> tuple[float, float]:
    """Seconds of the first steps, and of all the others, until the device is done."""
    import torch

    begin = time.perf_counter()
    for _ in range(FIRST):
        next(loop)
    torch.cuda.synchronize()
    middle = time.perf_counter()
    for _ in loop:
        pass
    torch.cuda.synchronize()
    return middle - begin, time.perf_counter() - middle


if __name__ == "__main__":
    main()
