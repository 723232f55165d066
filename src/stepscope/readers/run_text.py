"""The bytes of a run file, and the records in them, decoded a block at a time when somebody looks.

    text = RunText(Path("output/training.json").read_bytes())
    [record.loss for block in text.blocks for record in text.read(block, "step")]

A block goes through the decoder in one call. Only where that fails, because of a kind that is not known, a foreign
spelling or a torn line, its records are read one by one and with care.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache, cached_property, reduce
from operator import or_
from typing import Any, cast

import msgspec

from ..records import KINDS, Other, fields
from .blocks import Block, cut, mentions, pieces
from .careful import AROUND, UNREADABLE, records
from .on_disk import Bytes

Decode = Callable[[bytes], list[Any]]

# What a rewind does not undo: it happened, whatever became of the steps.
LASTING = frozenset({"run", "rewind", "message", "event", "end", "dataset", "gpu-model"})

# Free-form data is escaped: only the careful way takes that back.
FREE_FORM = frozenset(kind for kind in KINDS if any(field.free_form for field in fields(kind).values()))
TYPED = {kind: struct for kind, struct in KINDS.items() if kind not in FREE_FORM}


def bare(kind: str, *columns: Any) -> Any:
    """A struct for records of a kind that looks at their step and at the given columns alone."""
    return msgspec.defstruct(kind.title(), [("step", int, 0), *columns], tag=kind, tag_field="log")


BARE = {kind: bare(kind) for kind in KINDS}

# nan and inf without quotes, as llmq writes them. In the middle of a text of JSON, the quotes would break it, and
# the careful way finds out what was meant.
_BARE_NUMBER = re.compile(rb"([:\[,]\s*)(-?(?:nan|inf|infinity))(?=\s*[,}\]])", re.IGNORECASE)


def decoder_of(*structs: Any) -> Decode:
    """What decodes the text of a block whose records are of these structs; it takes "NaN" for a number."""
    array: Any = msgspec.json.Decoder(list[reduce(or_, structs)], strict=False)  # type: ignore[misc]

    def decode(text: bytes) -> list[Any]:
        text = b"[" + text.rstrip(AROUND) + b"]"
        try:
            return cast(list[Any], array.decode(text))
        except msgspec.ValidationError:  # it is JSON, of another shape
            raise
        except msgspec.DecodeError:
            quoted, number = _BARE_NUMBER.subn(rb'\1"\2"', text)
            if not number:
                raise
            return cast(list[Any], array.decode(quoted))

    return decode


decode_bare = decoder_of(*BARE.values())
decode_typed = decoder_of(*TYPED.values())


@cache
def _decode_kind(kind: str) -> Decode:
    return decoder_of(*{**BARE, kind: TYPED[kind]}.values())


def kind_of(record: Any) -> str:
    """The kind of a record, a bare one too."""
    return record.kind if type(record) is Other else str(record.__struct_config__.tag)


def stands(record: Any, limit: int) -> bool:
    """Whether a record is still part of the history after a rewind to `limit`."""
    step = getattr(record, "step", None)
    return step is None or step < limit or kind_of(record) in LASTING


def decode(text: bytes, decoder: Decode, careful: Decode = records) -> list[Any]:
    """What a decoder makes of a text of records; what it cannot take comes as `careful` reads it."""
    try:
        return decoder(text) if text else []
    except UNREADABLE:
        return [record for _, piece in pieces(text) for record in _decode_one(piece, decoder, careful)]


def _decode_one(piece: bytes, decoder: Decode, careful: Decode) -> list[Any]:
    try:
        return decoder(piece)
    except UNREADABLE:
        return careful(piece)


def _read(text: bytes, kind: str | None) -> list[Any]:
    """The records of a kind, or all."""
    if kind is None:
        return decode(text, decode_typed)
    if struct := TYPED.get(kind):
        return [record for record in decode(text, _decode_kind(kind)) if type(record) is struct]
    named = [piece for _, piece in pieces(text) if mentions(piece, kind)]
    return [record for piece in named for record in records(piece) if record.kind == kind]


class RunText:
    """A run file's bytes, cut into blocks."""

    def __init__(self, data: Bytes):
        self.data = data
        self._counts: dict[tuple[Block, bool], Counter[str]] = {}

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks, in the order of the file."""
        return cut(self.data)

    def text(self, block: Block, kind: str | None = None) -> bytes:
        """The text of a block; none where it holds no records of the kind, as most blocks hold one kind or two."""
        text = self.data[block.start : block.end]
        return text if kind is None or mentions(text, kind) else b""

    def read(self, block: Block, kind: str | None = None, superseded: bool = False) -> list[Any]:
        """The records of a block: of a kind or of all, with or without what was superseded later."""
        found = _read(self.text(block, kind), kind)
        if block.limit is None or superseded or kind in LASTING:
            return found
        return [record for record in found if stands(record, block.limit)]

    def count(self, block: Block, superseded: bool = False) -> Counter[str]:
        """How many records of each kind a block holds."""
        if (block, superseded) not in self._counts:
            self._counts[block, superseded] = self._count(block, superseded)
        return self._counts[block, superseded]

    def _count(self, block: Block, superseded: bool) -> Counter[str]:
        found = decode(self.text(block), decode_bare)
        if block.limit is not None and not superseded:
            found = [record for record in found if stands(record, block.limit)]
        counts: Counter[str] = Counter()
        for type_, number in Counter(map(type, found)).items():
            if type_ is Other:
                counts.update(record.kind for record in found if type(record) is Other)
            else:
                counts[str(cast(Any, type_).__struct_config__.tag)] += number
        return counts
