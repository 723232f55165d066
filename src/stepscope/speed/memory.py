"""Watches a training loop's memory: every segment in a few sampled steps, and the levels at any time.

    watch = MemoryWatch(model, optimizer)
    watch.after_forward(loss)         # where the backward pass begins
    watch.before_optimizer()          # the gradients are alive
    watch.end_of_step()               # True: this step was sampled
    watch.allocator()                 # [Allocator(stats=[Segment(name="weights", …), …], id=0)]

The first three steps are sampled, then one each half minute. In all others a moment costs one comparison. It
measures and never logs, never raises, and changes nothing that the program could see.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

from ..records import Allocator, GpuMemory, Memory
from . import allocator
from .memory_sample import Past, Sample, present
from .segments import Sizes, as_segments, several

EVERY_S = 30.0
FIRST = 3  # full samples at the start: the optimizer's state, and the true peak with it, is there from the second on
TRIES = 20  # steps for them: a GradScaler skips some, and there are loops whose optimizer is not seen


class MemoryWatch:
    """Is told the moments of each step, and measures some of the steps."""

    def __init__(
        self,
        models: Any,
        optimizers: Any = (),
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.models: Iterable[Any] = several(models)
        self.optimizers: Iterable[Any] = several(optimizers)
        self.every_s, self.clock = every_s, clock
        self.failure: str | None = None  # why nothing is sampled any more
        self.samples = 0
        self._tries, self._next = 0, 0.0
        self._past = Past()
        self._sample: Sample | None = None
        self._sizes: Sizes | None = None
        self._guarded(self._begin)

    def start_of_step(self) -> None:
        """The step begins: nothing from before, such as an evaluation, counts as its own. May be left out."""
        if self._sample is not None:
            self._guarded(self._sample.start)

    def after_forward(self, loss: Any = None) -> None:
        """Backward begins; the loss shows what is saved for it where there is no allocator to ask."""
        if (sample := self._sample) is not None:
            self._guarded(lambda: sample.forward(loss))

    def before_optimizer(self) -> None:
        """An optimizer is about to step."""
        if self._sample is not None:
            self._guarded(self._sample.backward)

    def end_of_step(self) -> bool:
        """The optimizers have stepped; True when this step was sampled, and `allocator` is new."""
        if self._sample is None and (self.failure is not None or self.clock() < self._next):
            return False
        before = self.samples
        self._guarded(self._end)
        return self.samples > before

    def allocator(self) -> list[Allocator]:
        """Memory by segment in the newest sampled step, one record a GPU; empty before the first."""
        return [] if self._sizes is None else _records(self._sizes)

    def now(self) -> list[Allocator]:
        """Memory by segment at this very moment: what held it when an allocation has failed."""
        found: list[Allocator] = []
        self._guarded(lambda: found.extend(_records(present(self.models, self.optimizers, self._past))))
        return found

    def memory(self, step: int = 0) -> list[Memory]:
        """The allocator of each GPU in use, and the host."""
        return allocator.memory(step)

    def gpu_memory(self) -> list[GpuMemory]:
        """How full each GPU is of this process's tensors; safe in a thread of its own."""
        return allocator.gpu_memory()

    def _begin(self) -> None:
        self._sample = Sample(self.models, self.optimizers, self._past)

    def _end(self) -> None:
        sample, self._sample = self._sample, None
        if sample is not None:
            sample.end()
            self._settle(sample)
        if self._early() or self.clock() >= self._next:
            self._begin()

    def _settle(self, sample: Sample) -> None:
        self._tries += 1
        self._next = self.clock() + self.every_s
        if sample.full or not self._early():  # else a step without an update: the next one will tell more
            self._sizes = sample.sizes
            self.samples += 1

    def _early(self) -> bool:
        return self.samples < FIRST and self._tries < TRIES

    def _guarded(self, measure: Callable[[], None]) -> None:
        """Measure; a failure ends the sampling, never the training."""
        if self.failure is not None:
            return
        try:
            measure()
        except Exception as error:  # noqa: BLE001 - whatever a model or an optimizer does when it is looked at
            self.failure, self._sample = f"{type(error).__name__}: {error}", None


def _records(sizes: Sizes) -> list[Allocator]:
    """One record a GPU; the host's memory stands in that of the first."""
    gpus = sorted({gpu for gpu, _, _ in sizes if gpu is not None})
    if not gpus:
        return [Allocator(stats=as_segments(sizes, {None}))]
    return [Allocator(id=gpu, stats=as_segments(sizes, {gpu, None} if gpu == gpus[0] else {gpu})) for gpu in gpus]
