"""Records as a sequence that decodes them when they are looked at, and holds none of them.

    steps = Records(text, "step")
    steps[-1], [step.loss for step in steps]      # decodes as far as it must
    len(steps), steps[10:20]                      # counts all of them first, once

It compares equal to a list of equal records.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import merge
from itertools import accumulate, chain
from typing import Any, TypeVar, overload

from .blocks import Block
from .run_text import RunText

T = TypeVar("T")


class Lazy(Sequence[T]):
    """What the two sequences below share: slices, equality, how they show."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._at(place) for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"no record {index}: there are {len(self)}")
        return self._at(place)

    def _at(self, place: int) -> T:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=False))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


class Records(Lazy[T]):
    """The records of a kind, or of all, in the order of the file."""

    def __init__(self, text: RunText, kind: str | None = None, superseded: bool = False):
        self._text, self._kind, self._superseded = text, kind, superseded
        self._read_last: tuple[int, list[T]] = (-1, [])

    def _read(self, block: int) -> list[T]:
        return self._text.read(self._text.blocks[block], self._kind, self._superseded)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(map(self._read, range(len(self._text.blocks))))

    def __reversed__(self) -> Iterator[T]:
        blocks = range(len(self._text.blocks))
        return chain.from_iterable(map(reversed, map(self._read, reversed(blocks))))

    @cached_property
    def _ends(self) -> list[int]:
        """How many records there are up to the end of each block."""
        return list(accumulate(map(self._count, self._text.blocks)))

    def _count(self, block: Block) -> int:
        if self._kind is None:
            return self._text.count(block, self._superseded).total()
        return self._text.count(block, self._superseded)[self._kind] if self._text.text(block, self._kind) else 0

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: Any) -> Any:
        if index == -1:  # what a live screen asks for: not worth counting all records
            return next(reversed(self)) if self else super().__getitem__(index)
        return super().__getitem__(index)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def _at(self, place: int) -> T:
        block = bisect_right(self._ends, place)
        last = self._read_last  # taken once: another thread may read another block
        if last[0] != block:
            last = self._read_last = (block, self._read(block))
        return last[1][place - self._ends[block]]


class Merged(Lazy[T]):
    """The records of several ranks, in the order of their steps."""

    def __init__(self, parts: Iterable[Records[T]]):
        self._parts = list(parts)

    def __iter__(self) -> Iterator[T]:
        return merge(*self._parts, key=lambda record: getattr(record, "step", None) or 0)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @cached_property
    def _all(self) -> list[T]:
        return list(self)

    def _at(self, place: int) -> T:
        return self._all[place]
