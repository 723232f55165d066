"""What watching a training costs on a CPU: a real step of some 50 ms, with all that `stepscope.watch` does, and bare.

    python -m benchmarks.watch_overhead
    python -m benchmarks.watch_overhead --quick

Watched means eight phases, the loader, the step's bracket, the records of every step in a file on the repository's
disk, verdicts, memory, and the thread that reads the machine. Blocks of watched and of bare steps take turns in one
process, each with a scope of its own; its first steps, in which memory and operations are counted once, are told
apart. As a control, bare blocks are held against bare blocks the same way.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import stepscope
from stepscope.speed.memory import EVERY_S, MemoryWatch

from .paired import HEAD, ratio_row, ratios
from .report import file_system, fresh_folder, options, table

BAR = 1.01
STEP_MS = 50.0
WIDTH, LAYERS = 640, 4
FIRST = 6  # steps of a block that count as its start

Parts = list[tuple[str, Callable[[], Any]]]


class Training:
    """A perceptron, its update and its moving average, as the parts of a step."""

    def __init__(self, batch: int):
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]
        self.model = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
        self.average = [p.detach().clone() for p in self.model.parameters()]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.data = torch.utils.data.TensorDataset(torch.randn(8 * batch, WIDTH))
        self.batch = batch
        self.x: Any = None
        self.out: Any = None
        self.loss: Any = None

    def loader(self, steps: int) -> Any:
        """So many random batches, made in this process."""
        sampler = torch.utils.data.RandomSampler(self.data, replacement=True, num_samples=steps * self.batch)
        return torch.utils.data.DataLoader(self.data, batch_size=self.batch, sampler=sampler)

    def parts(self) -> Parts:
        """The parts after the fetch, by name: with that eight."""
        return [
            ("data_transfer", self.transfer),
            ("forward_pass", self.forward),
            ("loss", self.measure),
            ("backward_pass", lambda: self.loss.backward()),
            ("clip", lambda: nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)),
            ("optimizer_step", self.update),
            ("ema_update", self.average_up),
        ]

    def transfer(self) -> None:
        """Copy the batch, as to a device."""
        self.x = self.x.clone()

    def forward(self) -> None:
        """The model's outputs."""
        self.out = self.model(self.x)

    def measure(self) -> None:
        """The loss."""
        self.loss = self.out.square().mean()

    def update(self) -> None:
        """The optimizer's step."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def average_up(self) -> None:
        """The moving average of the parameters."""
        with torch.no_grad():
            torch._foreach_lerp_(self.average, [*self.model.parameters()], 0.01)


def bare(training: Training, steps: int) -> Iterator[None]:
    """The loop as it is without us, a step at a time."""
    parts = training.parts()
    for (batch,) in training.loader(steps):
        training.x = batch
        for _, part in parts:
            part()
        yield


def watched(training: Training, steps: int, scope: Any) -> Iterator[None]:
    """The same loop with its brackets."""
    parts = training.parts()
    for (batch,) in scope.loader(training.loader(steps)):
        training.x = batch
        with scope.step():
            for name, part in parts:
                with scope.phase(name):
                    part()
        yield


def timed(loop: Iterator[None]) -> tuple[float, float]:
    """Seconds of its first steps, and of all the others together."""
    begin = time.perf_counter()
    for _ in range(FIRST):
        next(loop)
    middle = time.perf_counter()
    for _ in loop:
        pass
    return middle - begin, time.perf_counter() - middle


class Blocks:
    """Blocks of a training, and what the watched ones cost around their steps."""

    def __init__(self, training: Training, steps: int, run: stepscope.TrainingRunLogger):
        self.training, self.steps, self.run = training, steps, run
        self.starts: list[float] = []
        self.first_bare: list[float] = []
        self.ends: list[float] = []

    def bare(self) -> float:
        """A block without us."""
        first, rest = timed(bare(self.training, FIRST + self.steps))
        self.first_bare.append(first)
        return rest

    def watched(self) -> float:
        """A block with a scope of its own."""
        begin = time.perf_counter()
        scope = stepscope.watch(self.training.model, self.training.optimizer, self.run, card=False)
        made = time.perf_counter() - begin
        first, rest = timed(watched(self.training, FIRST + self.steps, scope))
        end = time.perf_counter()
        scope.close()
        self.starts.append(made + first)
        self.ends.append(time.perf_counter() - end)
        return rest


def sized() -> Training:
    """A training whose step takes about as long as wanted."""
    batch = 64
    for _ in range(3):  # what does not grow with the batch makes the first guess too large
        training = Training(batch)
        _, rest = timed(bare(training, FIRST + 10))
        batch = max(8, round(batch * STEP_MS / (100 * rest)))
    return Training(batch)


def memory_sample_ms(training: Training) -> float:
    """What a sampled step's walks over parameters, gradients and states take."""
    watch, took = MemoryWatch(training.model, training.optimizer, every_s=0), []
    for _ in range(8):
        (training.x,) = next(iter(training.loader(1)))
        training.forward()
        training.measure()
        spent = [_seconds(lambda: watch.after_forward(training.loss))]
        training.loss.backward()
        spent.append(_seconds(watch.before_optimizer))
        training.update()
        spent.append(_seconds(watch.end_of_step))
        took.append(1000 * sum(spent))
    return statistics.median(took)


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    """Print the tables."""
    asked = options(__doc__)
    steps, pairs = (10, 3) if asked.quick else (40, 31)
    torch.set_num_threads(1)
    training = sized()
    folder = fresh_folder("watch_overhead")
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run:
        blocks = Blocks(training, steps, run)
        blocks.watched()  # peaks of the CPU are measured once a machine
        blocks.starts.clear(), blocks.ends.clear()
        found = ratios(blocks.bare, blocks.watched, pairs)
        step_ms = 1000 * blocks.bare() / steps
    control = ratios(blocks.bare, blocks.bare, max(3, pairs // 2))
    print(f"A watched training beside a bare one, a step of {step_ms:.1f} ms; files on {file_system(folder)}\n")
    print(table(HEAD, [ratio_row("watched", found, BAR), ratio_row("bare, as a control", control)]))
    told(stepscope.read_run(folder / "training.json"), found)
    start = 1000 * (statistics.median(blocks.starts) - statistics.median(blocks.first_bare))
    sample = memory_sample_ms(training)
    print(f"once a run: {start:.0f} ms at its start, {1000 * statistics.median(blocks.ends):.0f} ms at its end")
    print(f"once in {EVERY_S:.0f} s: {sample:.2f} ms for memory by segment, {100 * sample / EVERY_S / 1000:.4f} %")


def told(run: Any, found: list[float]) -> None:
    """What the product itself says it cost, beside what was measured."""
    shares = [record.share for record in run.records("profile") if record.share is not None]
    if shares:
        say = f"{100 * statistics.median(shares):.3f} % (the median of {len(shares)} profiles)"
        print(f"\nwatching says of itself that it cost {say}; measured: {100 * (statistics.median(found) - 1):.3f} %")


if __name__ == "__main__":
    main()
