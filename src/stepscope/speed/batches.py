"""What a batch holds, and what a loader says of itself: samples, tokens, length, time inside its workers.

count({"input_ids": ids})            # Count(samples=8, tokens=2048): integer ids of (batch, sequence)
with timed_workers(loader, source):  # source.workers() → nanoseconds, from now on
    iterator = iter(loader)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, NamedTuple

import torch

from .moments import Source

DEPTH = 4


class Count(NamedTuple):
    """What a batch holds."""

    samples: int
    tokens: int


def count(batch: Any) -> Count:
    """Samples are the first dimension of its first tensor; tokens are integer ids in two dimensions."""
    first = _first(batch, DEPTH, lambda tensor: tensor.dim() > 0)
    ids = _first(batch, DEPTH, _holds_ids)
    return Count(len(first) if first is not None else 0, ids.numel() if ids is not None else 0)


def _holds_ids(tensor: Any) -> bool:
    return tensor.dim() == 2 and tensor.dtype in (torch.int64, torch.int32)


def _first(data: Any, depth: int, fits: Any) -> Any:
    """The first tensor that fits, `input_ids` before others."""
    if isinstance(data, torch.Tensor):
        return data if fits(data) else None
    if depth == 0 or isinstance(data, (str, bytes)):
        return None
    if isinstance(data, Mapping):
        data = [data["input_ids"], *data.values()] if "input_ids" in data else list(data.values())
    elif not isinstance(data, (list, tuple)):
        return None
    for item in data:
        if (found := _first(item, depth - 1, fits)) is not None:
            return found
    return None


def length_of(loader: Any) -> int | None:
    """How many batches a loader holds; None for an endless one, or one that does not know."""
    try:
        return len(loader)
    except Exception:  # noqa: BLE001 - anything may stand there
        return None


@contextmanager
def timed_workers(loader: Any, source: Source) -> Iterator[None]:
    """Have the workers that a loader starts now say how long they work; those of before go on saying it."""
    before = getattr(getattr(loader, "_iterator", None), "_stepscope", None)
    if before is not None or not getattr(loader, "num_workers", 0):
        source.workers = before.workers if before is not None else None
        source.worked = source.workers() if source.workers is not None else 0
        yield
        return
    init, spent = loader.worker_init_fn, torch.zeros(loader.num_workers, dtype=torch.int64).share_memory_()
    source.workers = lambda: int(spent.sum())
    loader.worker_init_fn = TimedWorker(init, spent)
    try:
        yield
    finally:
        loader.worker_init_fn = init


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
