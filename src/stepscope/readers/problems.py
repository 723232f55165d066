"""What of a run file could not be read: where it stands, and why.

for problem in problems(text):
    print(problem.line, problem.offset, problem.why, problem.text)
"""

from collections.abc import Iterator

import msgspec

from .blocks import Block, pieces
from .careful import AROUND, BLANK, UNREADABLE, flaws, shown
from .run_text import RunText, decode_typed

BOM = b"\xef\xbb\xbf"


class Problem(msgspec.Struct, frozen=True):
    """A part of a file that was skipped, and why; `file` names it where a run has several."""

    line: int
    offset: int
    text: str
    why: str
    file: str = ""


def problems(text: RunText, file: str = "") -> list[Problem]:
    """All that was skipped, in the order of the file."""
    found, line, last = [], 1, 0
    for offset, what, why in _found(text):
        line, last = line + text.data.count(b"\n", last, offset), offset
        found.append(Problem(line, offset, what, why, file))
    return found


def _found(text: RunText) -> Iterator[tuple[int, str, str]]:
    data = text.data
    first = text.blocks[0].start if text.blocks else len(data)
    if head := data[:first].removeprefix(BOM).strip(AROUND + b"["):
        yield data.find(head), shown(head), "cut off in the first record" if not text.blocks else "not a record"
    for block in text.blocks:
        yield from flaws_in(data, block)
    yield from _tail(data)


def flaws_in(data: bytes, block: Block) -> Iterator[tuple[int, str, str]]:
    """What of a block is left out: its place in the data, what it is, and why."""
    text = data[block.start : block.end]
    try:
        decode_typed(text)
    except UNREADABLE:
        for place, piece in pieces(text):
            for flaw in flaws(piece):
                yield block.start + place + flaw.offset, flaw.text, flaw.why


def _tail(data: bytes) -> Iterator[tuple[int, str, str]]:
    """What is wrong with the end of the file, apart from a torn record."""
    end = len(data)
    while end and data[end - 1] == 0:
        end -= 1
    if end < len(data):
        yield end, f"{len(data) - end} bytes of zero", "not written to the disk before a loss of power"
    head, tail = data[:64].removeprefix(BOM).lstrip(BLANK), data[max(0, end - 64) : end].rstrip(BLANK)
    if not head:
        yield 0, "", "the file is empty"
    elif head.startswith(b"[") and tail.endswith((b"}", b"[", b",")):
        yield end, "", "the closing bracket is missing"
