"""What a batch holds, and what a loader says of itself: samples, tokens, length, time inside its workers.

count({"input_ids": ids})            # Count(samples=8, tokens=2048): integer ids of (batch, sequence)
undo = time_workers(loader, source)  # workers that are started now say how long they work: source.work()
"""

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any, NamedTuple

import torch

from .moments import Source

DEPTH = 4
PLAIN = (list, tuple)
IDS = (torch.int64, torch.int32)


class Count(NamedTuple):
    """What a batch holds."""

    samples: int
    tokens: int


def count(batch: Any) -> Count:
    """Samples are the first dimension of its first tensor; tokens are counted where that holds integer ids."""
    first: Any = batch[0] if type(batch) in PLAIN and batch else None
    if type(first) is not torch.Tensor or not first.dim():  # else the common case, at a third of the cost
        first = next(_tensors(batch, DEPTH), None)
        if first is None:
            return Count(0, 0)
    shape = first.shape
    return Count(shape[0], shape[0] * shape[1] if len(shape) == 2 and first.dtype in IDS else 0)


def _tensors(data: Any, depth: int) -> Iterator[Any]:
    """Its tensors that have a first dimension, `input_ids` before others."""
    if isinstance(data, torch.Tensor):
        if data.dim():
            yield data
    elif isinstance(data, Mapping):
        if isinstance(data.get("input_ids"), torch.Tensor):
            yield data["input_ids"]
        for value in data.values() if depth else ():
            yield from _tensors(value, depth - 1)
    elif isinstance(data, (list, tuple)) and depth:
        for item in data:
            yield from _tensors(item, depth - 1)


def fed(args: Any, kwargs: Any) -> tuple[int, int] | None:
    """Samples and tokens that a module is given; None where that cannot be told."""
    found = count((*args, kwargs))
    return found if found.samples else None


def length_of(loader: Any) -> int | None:
    """How many batches a loader holds; None for an endless one, or one that does not know."""
    try:
        return len(loader)
    except Exception:  # noqa: BLE001 - anything may stand there
        return None


def nothing() -> None:
    """What there is to undo where nothing was done."""


def time_workers(loader: Any, source: Source) -> Callable[[], None]:
    """Have the workers that a loader starts now say how long they work; those of before go on saying it."""
    before = getattr(getattr(loader, "_iterator", None), "_stepscope", None)
    if before is not None or not getattr(loader, "num_workers", 0):
        source.workers = before.workers if before is not None else None
        source.worked = source.workers() if source.workers is not None else 0
        return nothing
    init, spent = loader.worker_init_fn, torch.zeros(loader.num_workers, dtype=torch.int64).share_memory_()
    source.workers = lambda: int(spent.sum())
    loader.worker_init_fn = TimedWorker(init, spent)

    def undo() -> None:
        loader.worker_init_fn = init

    return undo


class TimedWorker:
    """A loader's `worker_init_fn` that also adds up how long the worker takes for its batches."""

    def __init__(self, init: Any, spent: Any):
        self.init, self.spent = init, spent

    def __call__(self, worker: int) -> None:
        """In the worker's process: time each batch, then do what the user's function does."""
        from torch.utils.data._utils import fetch

        for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            kind.fetch = _timed(kind.fetch, self.spent, worker)
        if self.init is not None:
            self.init(worker)


def _timed(fetch: Any, spent: Any, worker: int) -> Any:
    def timed(self: Any, index: Any) -> Any:
        began = perf_counter_ns()
        try:
            return fetch(self, index)
        finally:
            spent[worker] += perf_counter_ns() - began

    return timed
