"""Whether the shares of an epoch are right: a loop of planted sleeps, each timed by the loop itself as well.

    python -m benchmarks.planted_sleeps
    python -m benchmarks.planted_sleeps --quick

Every phase of *MAE profiling* sleeps for a time of its own around a very small training. What each body took is
taken with `perf_counter` inside its phase, and the epoch from before its first fetch to after its last picture.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

import stepscope

from .report import fresh_folder, options, table, verdict

BAR_POINTS, BAR_OTHER = 1.0, 1.0
FETCH = "data_generation"
SLEEPS_MS = {
    FETCH: 9.0,
    "data_transfer": 3.0,
    "forward_pass": 12.0,
    "backward_pass": 18.0,
    "optimizer_step": 4.0,
    "ema_update": 2.0,
}
AFTER_MS = {"validation_epoch": 400.0, "visualization_generation": 150.0}


class Truth:
    """What the loop itself measures."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.total = 0.0

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """The body of a phase."""
        begin = time.perf_counter()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - begin

    def share(self, name: str) -> float:
        """Percent of the epoch."""
        return 100 * self.spent.get(name, 0.0) / self.total


class Loop:
    """A tiny training whose phases sleep."""

    def __init__(self, scope: Any, steps: int):
        self.scope, self.steps = scope, steps
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.average = self.model.weight.detach().clone()
        self.out: Any = None

    def epoch(self) -> Truth:
        """One epoch, and the truth about it."""
        truth = Truth()
        begin = time.perf_counter()
        for x in self.scope.loader(self.batches(truth)):
            with self.scope.step():
                for name, work in self.work(x):
                    with self.scope.phase(name), truth.around(name):
                        work()
                        time.sleep(SLEEPS_MS[name] / 1000)
        for name, slept in AFTER_MS.items():
            with self.scope.phase(name), truth.around(name):
                time.sleep(slept / 1000)
        truth.total = time.perf_counter() - begin
        return truth

    def batches(self, truth: Truth) -> Iterator[Any]:
        """Each takes its time to be made."""
        for _ in range(self.steps):
            with truth.around(FETCH):
                time.sleep(SLEEPS_MS[FETCH] / 1000)
                x = torch.randn(4, 8)
            yield x

    def work(self, x: Any) -> list[tuple[str, Callable[[], Any]]]:
        """What the phases do beside sleeping."""
        return [
            ("data_transfer", x.clone),
            ("forward_pass", lambda: setattr(self, "out", self.model(x).square().mean())),
            ("backward_pass", lambda: self.out.backward()),
            ("optimizer_step", self.optimizer.step),
            ("ema_update", lambda: self.average.lerp_(self.model.weight.detach(), 0.1)),
        ]


def main() -> None:
    """Print the table."""
    asked = options(__doc__)
    epochs, steps = (2, 25) if asked.quick else (max(4, asked.rounds), 100)
    folder = fresh_folder("planted_sleeps")
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run:
        scope = stepscope.watch(run=run, card=False)
        loop = Loop(scope, steps)
        truths = [loop.epoch() for _ in range(epochs)]
        scope.close()
    found = stepscope.read_run(folder / "training.json").records("epoch")
    assert len(found) == epochs, f"{len(found)} epoch records of {epochs} epochs"
    print(f"Shares of an epoch with planted sleeps, %: {epochs} epochs of {steps} steps\n")
    head = ["phase", "planted, as the loop timed it", "stepscope", "largest difference, points", "bar", ""]
    print(table(head, [*rows(found, truths), other_row(found, truths)]))


def rows(found: list[Any], truths: list[Truth]) -> Iterator[list[str]]:
    """One for each phase: the last epoch's share, and the largest difference of all."""
    for name in [*SLEEPS_MS, *AFTER_MS]:
        ours = [share(epoch, name) for epoch in found]
        off = max(abs(mine - truth.share(name)) for mine, truth in zip(ours, truths, strict=True))
        figures = [name, f"{truths[-1].share(name):.2f}", f"{ours[-1]:.2f}", f"{off:.3f}"]
        yield [*figures, f"≤ {BAR_POINTS:g} point", verdict(off <= BAR_POINTS)]


def other_row(found: list[Any], truths: list[Truth]) -> list[str]:
    """Time in no phase, in the worst epoch; beside it what the loop itself could not put anywhere."""
    ours = max(100 * epoch.other_ms / epoch.total_ms for epoch in found)
    unknown = max(100 - sum(truth.share(name) for name in truth.spent) for truth in truths)
    return ["other, worst epoch", f"{unknown:.2f}", f"{ours:.2f}", "", f"≤ {BAR_OTHER:g} %", verdict(ours <= BAR_OTHER)]


def share(epoch: Any, name: str) -> float:
    """Percent of an epoch that a phase took."""
    return 100 * sum(spent.ms for spent in epoch.phases or [] if spent.name == name) / epoch.total_ms


if __name__ == "__main__":
    main()
