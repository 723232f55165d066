"""Read the text of a record with care: foreign spellings, several lines, fields that do not fit, torn ends.

    records(b'{"log": "step", "step": 1, "loss": nan},')      # [Step(step=1, loss=nan)]
    records(b'{"log":"step","st')                             # []
    [flaw.why for flaw in flaws(b'{"log":"step","st')]        # ['not a whole record']

A record's text reaches from its brace to the brace of the next one: what else stands there is a flaw.
"""

from typing import Any, NamedTuple

import msgspec

from ..codec import decode_dict, parse
from ..errors import show
from ..records import KINDS, Other, Record, fields

BLANK = b" \t\r\n\0"
AROUND = BLANK + b",]"
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Flaw(NamedTuple):
    """A part of a text that is left out: where it begins, what it is, and why."""

    offset: int
    text: str
    why: str


def records(text: bytes) -> list[Record | Other]:
    """The records in a text; more than one where a foreign writer put them all on a line."""
    return [build(data) for data in dicts(text)]


def dicts(text: bytes) -> list[dict[str, Any]]:
    """The same as plain data; none where the text is torn."""
    return read(text)[0]


def flaws(text: bytes) -> list[Flaw]:
    """What of a text is left out."""
    found, end = read(text)
    wrong = [
        Flaw(0, f"{key}: {show(value)}", f"does not fit a {data['log']} record")
        for data in found
        for key, value in misfit(data).items()
    ]
    return [*wrong, Flaw(end, shown(text[end:]), "not a whole record")] if end < len(text) else wrong


def read(text: bytes) -> tuple[list[dict[str, Any]], int]:
    """The data in a text, and where that begins which is none."""
    first, _, more = text.partition(b"\n")
    try:
        return [parse(first.rstrip(AROUND))], len(text) - len(more.lstrip(AROUND))
    except UNREADABLE:
        pass
    try:
        return _several(text), len(text)
    except UNREADABLE:
        return _all_but_torn(text)


def _several(text: bytes) -> list[dict[str, Any]]:
    """What is not one record on one line: one on several lines, or several on one."""
    found = parse(b'{"log":"","all":[' + text.rstrip(AROUND) + b"]}")["all"]
    return [data for data in found if isinstance(data, dict) and isinstance(data.get("log"), str)]


def _all_but_torn(text: bytes) -> tuple[list[dict[str, Any]], int]:
    """The same with a torn end: the beginning of the next record, or the last of many on one line."""
    for end in (text.rfind(b"}") + 1, text.rfind(b'{"log"')):
        try:
            if end > 0:
                return _several(text[:end]), end
        except UNREADABLE:
            pass
    return [], 0


def build(data: dict[str, Any]) -> Record | Other:
    """The record of plain data; of a kind that is known, the fields that fit."""
    record = decode_dict(data)
    if not isinstance(record, Other) or record.kind not in KINDS:
        return record
    wrong = misfit(data)
    known = fields(record.kind)
    values = {key: _field(record.kind, key, data[key]) for key in data if key in known and key not in wrong}
    return KINDS[record.kind](**values)


def misfit(data: dict[str, Any]) -> dict[str, Any]:
    """The fields whose values are not of the type that they should be."""
    kind = data["log"]
    if kind not in KINDS or not isinstance(decode_dict(data), Other):
        return {}
    wrong = {}
    for key in fields(kind).keys() & data.keys():
        try:
            _field(kind, key, data[key])
        except msgspec.ValidationError:
            wrong[key] = data[key]
    return wrong


def _field(kind: str, key: str, value: Any) -> Any:
    """One field's value, also where it is spelled as another type: 1 for true, "2.5" for 2.5."""
    record = decode_dict({"log": kind, key: value})
    if not isinstance(record, Other):
        return getattr(record, key)
    return msgspec.convert(value, fields(kind)[key].type, strict=False)


def shown(text: bytes) -> str:
    """A text as a message names it."""
    return show(text.rstrip(AROUND)[:200].decode("utf-8", "replace"))
