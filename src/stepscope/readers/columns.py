"""Take one number out of records, many at a time.

    columns = Columns(Source("step", "loss"))
    columns.add(b'{"log":"step","step":1,"loss":2.5},\\n{"log":"step","step":2,"loss":"NaN"}')
    columns.steps, columns.values            # array('q', [1, 2]), array('d', [2.5, nan])

A decoder made for the purpose looks at the step and the one field; what it cannot take is read record by record.
"""

import sys
from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec

from ..records import tokens_per_second
from .careful import dicts
from .run_text import BARE, Decode, bare, decode, decoder_of

COMPUTED = {("step", "tokens_per_second"): "step_tokens", ("eval", "tokens_per_second"): "eval_tokens"}
NOT_FINITE = {"nan", "inf", "-inf", "infinity", "-infinity"}
Value = float | str | bool | None


class Source(NamedTuple):
    """Where a number stands: a field of a kind, of one GPU."""

    kind: str
    field: str
    id: int | None = None


class Columns:
    """The steps and the values of a source, in the order in which they were added."""

    def __init__(self, source: Source):
        self.source = source
        self.steps, self.values = array("q"), array("d")
        self._reader = _reader(source)

    def add(self, text: bytes, limit: int | None = None) -> None:
        """Add what a text of records holds, of steps below the limit."""
        found = decode(text, self._reader.decode, dicts)
        if limit is None and self.source.kind != "gpu" and self._add_all(found):
            return
        rows = [each for each in found if type(each) is dict or self._counts(each, limit)]
        if not self._add_all(rows):
            self._add_each(rows, sys.maxsize if limit is None else limit)

    def _counts(self, row: Any, limit: int | None) -> bool:
        if type(row) is not self._reader.row or (limit is not None and row.step >= limit):
            return False
        return self.source.kind != "gpu" or bool(row.id == self.source.id)

    def _add_all(self, rows: list[Any]) -> bool:
        """Add rows, if all of them are of the source and have a plain number."""
        try:
            steps, values = array("q", [row.step for row in rows]), array("d", self._reader.column(rows))
        except (AttributeError, TypeError, OverflowError):
            return False
        self.steps.extend(steps)
        self.values.extend(values)
        return True

    def _add_each(self, rows: list[Any], limit: int) -> None:
        for row in rows:
            if type(row) is dict:
                step, value = _pair(row, self.source)
            else:
                step, value = row.step, number(self._reader.column([row])[0])
            if value is not None and -sys.maxsize <= step < limit:
                self.steps.append(step)
                self.values.append(value)


class _Reader(NamedTuple):
    """How the rows of a source are decoded, what they are, and how they give their values."""

    decode: Decode
    row: Any
    column: Callable[[list[Any]], list[Any]]


@lru_cache(maxsize=256)
def _reader(source: Source) -> _Reader:
    try:
        row, column = _row(source)
        return _Reader(decoder_of(*{**BARE, source.kind: row}.values()), row, column)
    except (ValueError, TypeError):  # a name that the fast decoder cannot take
        return _Reader(refuse, None, _values)


def _row(source: Source) -> tuple[Any, Callable[[list[Any]], list[Any]]]:
    """A struct that takes from a record what the source needs, and what gets the values from a list of it."""
    kind, field, _ = source
    value = ("value", Value, msgspec.field(name=field, default=None))
    if (kind, field) in COMPUTED:
        tokens = ("tokens", Value, msgspec.field(name=COMPUTED[kind, field], default=None))
        return bare(kind, tokens, ("duration_ms", Value, None)), _rates
    if kind == "metrics":
        values = msgspec.defstruct("Values", [value])
        row = bare(kind, ("values", values, msgspec.field(default_factory=values)))
        return row, lambda rows: [row.values.value for row in rows]
    return bare(kind, value, *([("id", int | None, None)] if kind == "gpu" else [])), _values


def _values(rows: list[Any]) -> list[Any]:
    return [row.value for row in rows]


def _rates(rows: list[Any]) -> list[Any]:
    try:
        return [row.tokens / row.duration_ms * 1000 if row.duration_ms > 0 else None for row in rows]
    except TypeError:
        return [rate(row.tokens, row.duration_ms) for row in rows]


def refuse(text: bytes) -> list[Any]:
    """The decoder that leaves everything to the careful way."""
    raise ValueError("to be read with care")


def _pair(data: dict[str, Any], source: Source) -> tuple[int, float | None]:
    """Step and value of a record that was read with care."""
    kind, field, id_ = source
    step = data.get("step", 0)
    if data["log"] != kind or not isinstance(step, int) or (kind == "gpu" and data.get("id") != id_):
        return 0, None
    if (kind, field) in COMPUTED:
        return step, rate(data.get(COMPUTED[kind, field]), data.get("duration_ms"))
    values = data.get("values") if kind == "metrics" else data
    return step, number(values.get(field)) if isinstance(values, dict) else None


def rate(tokens: Any, duration_ms: Any) -> float | None:
    """Tokens per second, where both parts are known."""
    return tokens_per_second(cast(Any, number(tokens)), number(duration_ms))


def number(value: Any) -> float | None:
    """A value as a number, None where it is none."""
    if isinstance(value, str):
        return float(value) if value.lower() in NOT_FINITE else None
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:  # a whole number of more than 300 digits
        return None
