"""One step's memory, each segment at its fullest, from readings at the moments of the step.

    sample = Sample(models, optimizers, Past())
    sample.forward(loss)      # backward begins
    sample.backward()         # the gradients are alive
    sample.end()              # the optimizer's state is there
    sample.sizes              # {(0, "weights", "device"): 497759232, …}

The allocator's own peak counter is read and never reset, so it tells a step's peak only when the step raised it. That
is so in the first two; later steps that hold as much where backward begins are taken to have peaked as high.
"""

from collections import Counter
from typing import Any, NamedTuple

from .allocator import Levels, levels
from .saved import saved_for_backward
from .segments import Held, Sizes, held, remainder

WALKS = 4  # of one kind of moment in one sample: micro-batches and optimizers may be many
ALIKE = 0.05  # by how much two steps may differ where backward begins


class Peak(NamedTuple):
    """How a step's memory rose over what lay there before: where backward began, and at its highest."""

    alive: int
    rise: int


class Past:
    """What earlier samples have found, by GPU."""

    def __init__(self) -> None:
        self.peaks: dict[int, Peak] = {}  # of the newest step that raised the counter
        # The least that no segment claimed. A loop that still holds its last step's output, and a captured graph
        # that keeps its tensors, would else pass for what lay there before: they are activations.
        self.unclaimed: dict[int, int] = {}

    def look(self, gpu: int, level: Levels, found: Held) -> None:
        """Learn from a moment between two steps."""
        unclaimed = level.allocated - found.on(gpu)
        self.unclaimed[gpu] = min(unclaimed, self.unclaimed.get(gpu, unclaimed))


class Sample:
    """One step while it is measured."""

    def __init__(self, models: Any, optimizers: Any, past: Past) -> None:
        self.models, self.optimizers, self.past = models, optimizers, past
        self.sizes: Sizes = Counter()
        self.forwards = self.backwards = 0
        self.base: Counter[int] = Counter()  # what lay there before the forward pass, by GPU
        self.alive: Counter[int] = Counter()  # what the forward pass added
        self.gradients: Counter[int] = Counter()  # before backward
        self.after: dict[int, Levels] = {}
        self.start()

    @property
    def full(self) -> bool:
        """Whether all moments were seen."""
        return bool(self.forwards and self.backwards)

    def start(self) -> None:
        """Take what lies there now for what the step begins with."""
        _, self.before = self._look()

    def forward(self, loss: Any) -> None:
        """Measure where backward begins."""
        self.forwards += 1
        self.after = {}
        if self.forwards > WALKS:
            return
        found = self._held()
        read = _levels(found)
        for gpu, level in read.items():
            base = found.on(gpu) + self.past.unclaimed.get(gpu, 0)
            self.base[gpu] = max(self.base[gpu], base)
            self.alive[gpu] = max(self.alive[gpu], level.allocated - base)
            self.gradients[gpu] = found.sizes[gpu, "gradients", "device"]
        if not read and (saved := saved_for_backward(loss, found.keys)) is not None:
            self._keep(Counter({(gpu, "activations", place): size for (gpu, place), size in saved.items()}))

    def backward(self) -> None:
        """Measure where the gradients are alive."""
        self.backwards += 1
        if self.backwards <= WALKS:
            found = self._held()
            self._keep(found.sizes)
            self.after = _levels(found)

    def end(self) -> None:
        """Measure what is left, and settle the activations."""
        found, read = self._look()
        self._keep(found.sizes)
        for gpu, level in read.items():
            rest = remainder(gpu, level, found.on(gpu))
            rest[gpu, "other", "device"] = max(0, self.past.unclaimed[gpu])
            if self.forwards:  # the optimizer's own peak comes after `after`
                rest[gpu, "activations", "device"] = self._activations(gpu, self.after.get(gpu, level))
            self._keep(rest)

    def _activations(self, gpu: int, after: Levels) -> int:
        alive, peaks = self.alive[gpu], self.past.peaks
        before = self.before.get(gpu)
        if before is not None and after.peak_allocated != before.peak_allocated:  # raised, or reset by the program
            peaks[gpu] = Peak(alive, after.peak_allocated - self.base[gpu])
        known = peaks.get(gpu)
        alike = known is not None and abs(alive - known.alive) <= ALIKE * known.alive
        gradients = self.sizes[gpu, "gradients", "device"] - self.gradients[gpu]
        return activations(alive, known.rise if known is not None and alike else None, gradients)

    def _look(self) -> tuple[Held, dict[int, Levels]]:
        found = self._held()
        read = _levels(found)
        for gpu, level in read.items():
            self.past.look(gpu, level, found)
        return found, read

    def _held(self) -> Held:
        return held(self.models, self.optimizers)

    def _keep(self, sizes: Sizes) -> None:
        self.sizes |= sizes  # of two counters, the larger of each number


def activations(alive: int, rise: int | None, gradients: int) -> int:
    """A step's activations at their fullest, in bytes.

    `alive` is what the forward pass left for backward, `rise` the peak of the step over what lay there before it,
    `gradients` what backward added. Through a backward pass activations go while gradients come: where there is more
    of the first, the peak is at its beginning and all of it activations, else at its end and gradients included.
    """
    if rise is None or rise <= alive:
        return alive
    return rise if alive >= gradients else max(alive, rise - gradients)


def present(models: Any, optimizers: Any, past: Past) -> Sizes:
    """All segments at this very moment; what is there beyond what lay there between steps is activations."""
    found = held(models, optimizers)
    for gpu, level in _levels(found).items():
        rest = remainder(gpu, level, found.on(gpu))
        unclaimed = rest[gpu, "other", "device"]
        others = min(unclaimed, max(0, past.unclaimed.get(gpu, unclaimed)))
        rest[gpu, "other", "device"] = others
        rest[gpu, "activations", "device"] = unclaimed - others
        found.sizes.update(rest)
    return found.sizes


def _levels(found: Held) -> dict[int, Levels]:
    """The allocators of the GPUs on which something was found."""
    read = {gpu: levels(gpu) for gpu in found.gpus()}
    return {gpu: level for gpu, level in read.items() if level is not None}
