"""Cut the bytes of a run file into blocks of whole records, and know which of them a rewind superseded.

    blocks = cut(data)
    data[blocks[0].start : blocks[0].end]      # '{"log":"run",…},\n{"log":"step",…},\n'
    blocks[0].limit                            # None, or the step from which on it was superseded later

A block is some 32 kB: small enough for the cache of a core, large enough that one call decodes hundreds of records.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from .careful import records

BLOCK = 1 << 15
BOM = b"\xef\xbb\xbf"
BLANK = b" \t\r\n\0" + BOM

# A record starts with its brace, at the beginning of a line; inside a JSON text there can be no line break.
START = re.compile(rb'\n[ \t]*\[?\s*(?=\{\s*"log"\s*:)')
FIRST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[?\s*(?=\{\s*"log"\s*:)')


class Block(NamedTuple):
    """Some records in a row; those with a step of `limit` or more were superseded by a later rewind."""

    start: int
    end: int
    limit: int | None


def next_record(data: bytes, position: int) -> int | None:
    """Where the first record from `position` on begins."""
    found = FIRST.match(data) if position == 0 else None
    found = found or START.search(data, max(position - 1, 0))
    return found.end() if found else None


def pieces(data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Each record of data[start:end] with its place, up to where the next one begins; `start` is a record's."""
    starts = [start, *(found.end() for found in START.finditer(data, start, end)), end]
    for here, there in pairwise(starts):
        yield here, data[here:there]


def cut(data: bytes) -> list[Block]:
    """The blocks of a file. A rewind begins a block, so that each block belongs to one history."""
    rewinds = list(_rewinds(data))
    starts = sorted({*_walk(data), *(offset for offset, _ in rewinds)})
    limits = []
    limit: int | None = None
    for start in reversed(starts):
        limits.append(limit)
        while rewinds and rewinds[-1][0] >= start:
            _, step = rewinds.pop()
            limit = step if limit is None else min(limit, step)
    return [Block(*span, lim) for span, lim in zip(pairwise([*starts, len(data)]), reversed(limits), strict=True)]


def _walk(data: bytes) -> Iterator[int]:
    position = next_record(data, 0)
    while position is not None:
        yield position
        position = next_record(data, position + BLOCK)


def _rewinds(data: bytes) -> Iterator[tuple[int, int]]:
    """Place and step of each rewind, in the order of the file."""
    offsets = {offset for needle in (b'"log":"rewind"', b'"log": "rewind"') for offset in _each(data, needle)}
    for offset in sorted(offsets):
        start = next_record(data, data.rfind(b"\n", 0, data.rfind(b"{", 0, offset)) + 1)
        if start is not None and start < offset:
            end = next_record(data, start + 1) or len(data)
            for record in records(data[start:end]):
                if record.kind == "rewind":
                    yield start, record.step or 0


def _each(data: bytes, needle: bytes) -> Iterator[int]:
    offset = data.find(needle)
    while offset >= 0:
        yield offset
        offset = data.find(needle, offset + 1)
