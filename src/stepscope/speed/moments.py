"""What a training loop leaves between two moments: a pass over a loader, a unit of work, a step, an epoch."""

from collections.abc import Callable
from typing import Any

from .phases import Taken


class Source:
    """One pass over a loader."""

    __slots__ = ("ahead", "began", "fetched", "length", "mark", "worked", "workers")

    def __init__(self, length: int | None = None, workers: Callable[[], int] | None = None):
        self.length, self.workers = length, workers
        self.began: int | None = None  # its first fetch
        self.mark: Any = None  # the same on the device
        self.fetched = 0
        self.ahead = False  # whether it was seen to be fetched from before its batches are needed
        self.worked = 0  # nanoseconds that its workers had spent when last asked

    def work(self) -> int | None:
        """Nanoseconds that workers have spent since the last time; None where it has none."""
        if self.workers is None:
            return None
        before, self.worked = self.worked, self.workers()
        return self.worked - before


class Unit:
    """What happened since the last boundary."""


    def __init__(self, began: int, mark: Any = None):
        self.began, self.mark = began, mark
        self.taken = Taken()
        self.forward = self.backward = self.update = False
        self.trains = True  # as far as its forward passes say
        self.fetched = self.samples = 0  # batches and samples that came from a loader
        self.fed = self.tokens = 0  # samples and tokens that a root module was given
        self.source: Source | None = None


class StepTimes:
    """One step: its times, its losses, and what it worked on."""

    def __init__(self, began: int, mark: Any = None):
        self.began, self.duration, self.mark = began, 0, mark
        self.interval: tuple[Any, Any] | None = None  # the device's events at its ends
        self.taken = Taken()
        self.losses: dict[tuple[int, int], list[Any]] = {}
        self.lrs: list[Any] = []
        self.fetched = self.samples = self.fed = self.tokens = 0
        self.updates = self.micro = 0  # optimizer steps, and batches that went through a backward pass
        self.worker: int | None = None
        self.skipped: Any = None
        self.epoch: float | None = None
        self.source: Source | None = None

    @property
    def has_begun(self) -> bool:
        """Whether any of its work is done."""
        return bool(self.micro or self.updates or self.losses)

    def add(self, unit: Unit) -> None:
        """Take in a unit of its work."""
        self.taken.add(unit.taken)
        self.fetched += unit.fetched
        self.samples += unit.samples
        self.fed += unit.fed
        self.tokens += unit.tokens
        self.source = unit.source or self.source

    @property
    def batches(self) -> int | None:
        """Batches of the step; those that were fetched ahead of it belong to others."""
        return (self.micro if self.source is not None and self.source.ahead else self.fetched) or None

    @property
    def seen(self) -> int | None:
        """Samples of the step."""
        return (self.fed if self.source is None or self.source.ahead else self.samples) or None


class EpochTimes:
    """One epoch, from its first fetch to the next epoch's."""

    def __init__(self, number: int, began: int, mark: Any = None):
        self.number, self.began, self.mark = number, began, mark
        self.total = 0
        self.interval: tuple[Any, Any] | None = None
        self.micro = 0  # batches that went through a backward pass

    def progress(self, source: Source | None) -> float | None:
        """Epochs that are done; a loader that is fetched from ahead has come further than the training."""
        if source is None or not source.length:
            return None
        done = min(self.micro or source.fetched, source.fetched)
        return self.number - 1 + min(1.0, done / source.length)
