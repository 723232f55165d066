"""A loader whose fetches are timed: for iterables that torch's hooks do not see, and for all that `watch` is given.

    for batch in Loader(batches, loop, tell): ...

It has its loader's length and attributes, and yields the very same batches.
"""

from collections.abc import Callable, Iterator
from typing import Any

from .batches import count, length_of
from .loop import Loop
from .moments import Source


class Loader:
    """Stands before an iterable; each pass over it is a pass over that."""

    def __init__(self, iterable: Any, loop: Loop, tell: Callable[..., Any]):
        self._iterable, self._loop, self._tell = iterable, loop, tell

    def __len__(self) -> int:
        return len(self._iterable)

    def __getattr__(self, name: str) -> Any:
        if name == "_iterable":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._iterable, name)

    def __iter__(self) -> Iterator[Any]:
        source = Source(length_of(self._iterable))
        self._tell(self._loop.fetch_begins, source)
        try:
            batches = iter(self._iterable)
        finally:
            self._tell(self._loop.fetch_ends, source, None)
        if hasattr(batches, "_stepscope"):  # a loader of torch: its own iterator tells the loop
            yield from batches
            return
        while True:
            self._tell(self._loop.fetch_begins, source)
            samples = None
            try:
                batch = next(batches)
                samples = count(batch).samples
            except StopIteration:
                return
            finally:
                self._tell(self._loop.fetch_ends, source, samples)
            yield batch
