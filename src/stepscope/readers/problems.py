"""What of a run file could not be read: where it stands, and why.

    for problem in problems(text):
        print(problem.line, problem.offset, problem.why, problem.text)

To know it, the whole file is read; the other readers skip in silence what is listed here.
"""

from collections.abc import Iterator

import msgspec

from .blocks import Block, pieces
from .careful import AROUND, BLANK, UNREADABLE, flaws, read, shown
from .on_disk import Bytes
from .run_text import RunText, decode_typed

BOM = b"\xef\xbb\xbf"


class Problem(msgspec.Struct, frozen=True):
    """A part of a file that was skipped, and why; lines count from 1, offsets from 0."""

    line: int
    offset: int
    text: str
    why: str
    file: str = ""


def problems(text: RunText, file: str = "") -> list[Problem]:
    """All that was skipped, in the order of the file."""
    found, line, last = [], 1, 0
    for offset, what, why in _found(text):
        line, last = line + sum(part.count(b"\n") for part in _parts(text.data, last, offset)), offset
        found.append(Problem(line, offset, what, why, file))
    return found


def _parts(data: Bytes, start: int, end: int, size: int = 1 << 18) -> Iterator[bytes]:
    return (data[place : min(place + size, end)] for place in range(start, end, size))


def _found(text: RunText) -> Iterator[tuple[int, str, str]]:
    head = text.data[: text.blocks[0].start if text.blocks else len(text.data)]
    if wrong := head.removeprefix(BOM).strip(AROUND + b"["):
        yield head.find(wrong), shown(wrong), "not a record" if text.blocks else "not a whole record"
    for block in text.blocks:
        yield from flaws_in(text.data, block)
    yield from _end(text.data, text.blocks[-1].start if text.blocks else 0)


def flaws_in(data: Bytes, block: Block) -> Iterator[tuple[int, str, str]]:
    """What of a block is left out: its place in the data, what it is, and why."""
    text = data[block.start : block.end]
    if not _is_sound(text):
        for place, piece in pieces(text):
            for flaw in [] if _is_sound(piece) else flaws(piece):
                yield block.start + place + flaw.offset, flaw.text, flaw.why


def _is_sound(text: bytes) -> bool:
    try:
        decode_typed(text)
    except UNREADABLE:
        return False
    return True


def _end(data: Bytes, last: int) -> Iterator[tuple[int, str, str]]:
    """What is wrong with the end of the file, apart from a torn record; `last` is where its last block begins."""
    text = data[last : len(data)]
    end = last + len(text.rstrip(b"\0"))
    if end < len(data):
        yield end, f"{len(data) - end} bytes of zero", "not written to the disk before a loss of power"
    head = data[:64].removeprefix(BOM).strip(BLANK)
    if not head:
        yield 0, "", "the file is empty"
    elif head.startswith(b"[") and text.rstrip(BLANK).endswith((b"}", b"[", b",")) and _is_whole(text):
        yield end, "", "the closing bracket is missing"


def _is_whole(text: bytes) -> bool:
    """Whether a text ends in a whole record: otherwise that was told already."""
    *_, (_, last) = pieces(text)
    return read(last)[1] == len(last) or not text.strip(AROUND + b"[")
