"""What a training loop leaves between two moments: a pass over a loader, a unit of work, a step, an epoch."""

from collections.abc import Callable
from typing import Any

from .phases import Taken


class Source:
    """One pass over a loader."""

    __slots__ = ("ahead", "batched", "began", "fetched", "length", "mark", "worked", "workers")

    def __init__(self, length: int | None = None, batched: bool = True):
        self.length, self.batched = length, batched  # whether an item is a batch for sure
        self.workers: Callable[[], int] | None = None  # nanoseconds that its workers have spent
        self.worked = 0  # the same when last asked
        self.began: int | None = None  # its first fetch
        self.mark: Any = None  # the same on the device
        self.fetched = 0
        self.ahead = False  # whether it was seen to be fetched from before its batches are needed

    def work(self) -> int | None:
        """Nanoseconds that workers have spent since the last time; None where it has none."""
        if self.workers is None:
            return None
        before, self.worked = self.worked, self.workers()
        return self.worked - before


class Unit:
    """What happened since the last boundary."""

    __slots__ = (
        "backward", "began", "failed", "fetched", "forward", "mark", "samples", "source", "taken", "trains", "update",
    )  # fmt: skip

    def __init__(self, began: int, mark: Any = None):
        self.began, self.mark = began, mark
        self.taken = Taken()
        self.forward = self.backward = self.update = False
        self.failed = False  # an exception came out of it, and nothing has succeeded since
        self.trains = True  # as far as its forward passes say
        self.fetched = self.samples = 0  # batches and samples that came from a loader
        self.source: Source | None = None

    @property
    def only_fetched(self) -> bool:
        """Whether its batches wait for what comes."""
        return bool(self.fetched) and not (self.forward or self.backward or self.update)

    @property
    def expects_backward(self) -> bool:
        """Whether a forward pass that trains waits for its backward pass."""
        return self.forward and self.trains and not (self.backward or self.update or self.failed)


class StepTimes:
    """One step: its times, its losses, and what it worked on."""

    def __init__(self, began: int, mark: Any = None):
        self.began, self.duration, self.mark = began, 0, mark
        self.away = 0  # of it, spent on something else
        self.interval: tuple[Any, Any] | None = None  # the device's events at its ends
        self.taken = Taken()
        self.losses: dict[tuple[int, int], list[Any]] = {}
        self.lrs: list[Any] = []
        self.optimizers: set[int] = set()
        self.forward = False  # whether a forward pass was seen
        self.fetched = self.samples = 0
        self.fed = self.tokens = 0  # samples and tokens that the modules were given
        self.fed_unknown = False  # some of it
        self.updates = self.micro = 0  # optimizer steps, and batches that went through a backward pass
        self.worker: int | None = None
        self.skipped: Any = None
        self.epoch: float | None = None
        self.source: Source | None = None

    @property
    def has_begun(self) -> bool:
        """Whether any of its work is done."""
        return bool(self.micro or self.updates or self.losses)

    def feed(self, known: tuple[int, int] | None) -> None:
        """A micro-batch, by samples and tokens."""
        if known is None:
            self.fed_unknown, self.fed, self.tokens = True, 0, 0
        elif not self.fed_unknown:
            self.fed += known[0]
            self.tokens += known[1]

    def add(self, unit: Unit) -> None:
        """Take in a unit of its work."""
        if self.taken.host:
            self.taken.add(unit.taken)
        else:
            self.taken = unit.taken
        self.fetched += unit.fetched
        self.samples += unit.samples
        self.source = unit.source or self.source

    def precede(self, first: "StepTimes") -> None:
        """The step began with what seemed to be one of its own."""
        self.began, self.mark = first.began, first.mark
        self.away += first.away
        first.taken.add(self.taken)
        self.taken = first.taken
        later = {(updates + first.updates, n): values for (updates, n), values in self.losses.items()}
        self.losses = {**first.losses, **later}
        self.lrs, self.micro = first.lrs or self.lrs, first.micro
        self.optimizers |= first.optimizers
        self.fetched += first.fetched
        self.samples += first.samples
        self.fed, self.tokens, self.fed_unknown = first.fed, first.tokens, first.fed_unknown
        self.updates += first.updates
        self.worker, self.skipped = first.worker, first.skipped
        self.source = self.source or first.source

    @property
    def batches(self) -> int | None:
        """Batches of the step; those that were fetched ahead of it belong to others."""
        return (self.micro if self.source is None or self.source.ahead else self.fetched) or None

    @property
    def seen(self) -> int | None:
        """Samples of the step: of its loader's batches, or what the modules were given."""
        counted = self.source is not None and not self.source.ahead and self.source.batched
        return (self.samples if counted else 0) or self.fed or None


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
