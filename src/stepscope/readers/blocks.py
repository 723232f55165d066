"""Cut a run file into blocks of whole records, and know what a rewind superseded.

    block = cut(data)[0]
    data[block.start : block.end]      # b'{"log":"run",…},\\n{"log":"step",…},\\n'
    block.limit                        # None, or the step from which on it was superseded later

A block has some 32 kB: small enough to stay in a core's cache, large enough that one call decodes hundreds of
records.
"""

import re
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

from ..records import Header, Record, Rewind
from .careful import records
from .on_disk import Bytes

R = TypeVar("R", bound=Record)

SIZE = 1 << 15
LOOK = 1 << 12

# A record begins with its brace, where a line begins: inside a text of JSON there can be no line break.
START = re.compile(rb'\n[ \t]*\[?\s*(?=\{\s*"log"\s*:)')
FIRST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[?\s*(?=\{\s*"log"\s*:)')


class Block(NamedTuple):
    """Some records in a row; those with a step of `limit` or above were superseded."""

    start: int
    end: int
    limit: int | None


def first_record(text: bytes) -> int | None:
    """Where the first record of a text begins, if it begins with one or has one in a line of its own."""
    found = FIRST.match(text) or START.search(text)
    return found.end() if found else None


def pieces(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Each record of a text that begins with one, and its place; it reaches to where the next one begins."""
    starts = [0, *(found.end() for found in START.finditer(text)), len(text)]
    for here, there in pairwise(starts):
        yield here, text[here:there]


def mentions(text: bytes, kind: str) -> bool:
    """Whether a text may hold records of a kind: a cheap look."""
    if not kind.isascii():  # it may be written as \\uXXXX
        return True
    name = kind.encode()
    return all(letter in text for letter in name) and b'"' + name + b'"' in text  # one letter is found much faster


def cut(data: Bytes) -> list[Block]:
    """The blocks of a file. Where a rewind's attempt begins, a block begins: each belongs to one history."""
    starts: set[int] = set()
    found: list[tuple[int, Rewind]] = []
    for start, text in _walk(data):
        starts.add(start)
        found += _places(text, start, Rewind)
    rewinds = _from_attempts(data, found) if found else []
    starts.update(place for place, _ in rewinds)
    return _with_limits(sorted(starts), rewinds, len(data))


def _with_limits(starts: list[int], rewinds: list[tuple[int, int]], size: int) -> list[Block]:
    limits: list[int | None] = []
    limit: int | None = None
    for start in reversed(starts):
        limits.append(limit)
        while rewinds and rewinds[-1][0] >= start:
            step = rewinds.pop()[1]
            limit = step if limit is None else min(limit, step)
    ends = [*starts, size][1:]
    return [Block(*block) for block in zip(starts, ends, reversed(limits), strict=True)]


def _walk(data: Bytes) -> Iterator[tuple[int, bytes]]:
    """The file as texts of about a block's size, each of whole records, with the place of each."""
    _, place = _until(data, 0, first_record)
    while place is not None:
        text, end = _until(data, place, _next_record)
        yield place, text[:end]
        place = None if end is None else place + end


def _until(data: Bytes, place: int, find: Callable[[bytes], int | None]) -> tuple[bytes, int | None]:
    """The text from a place on that holds what `find` looks for, and where; at worst it reaches to the file's end."""
    size = SIZE + LOOK
    while True:
        text = data[place : place + size]
        end = find(text)
        if end is not None or place + size >= len(data):
            return text, end
        size *= 2


def _next_record(text: bytes) -> int | None:
    found = START.search(text, SIZE)
    return found.end() if found else None


def _from_attempts(data: Bytes, found: list[tuple[int, Rewind]]) -> list[tuple[int, int]]:
    """Where the attempt of each rewind begins: what it measured before, as an evaluation of a checkpoint, stands."""
    headers = [place for start, text in _walk(data) for place, _ in _places(text, start, Header)]
    before = [(place, bisect(headers, place), rewind.step) for place, rewind in found]
    return [(headers[number - 1] if number > 1 else place, step) for place, number, step in before]


def _places(text: bytes, start: int, struct: type[R]) -> Iterator[tuple[int, R]]:
    """The records of a kind in a text, with their places in the file."""
    kind = str(struct.__struct_config__.tag)
    if mentions(text, kind):
        for place, piece in pieces(text):
            if mentions(piece, kind):
                yield from ((start + place, record) for record in records(piece) if isinstance(record, struct))
