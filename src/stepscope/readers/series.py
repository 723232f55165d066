"""A number of a run over its steps, as two columns.

    loss = read_run("output/training.json").series("loss")
    loss.steps, loss.values                  # array('q', [1, 2, …]), array('d', [2.3456, 2.3411, …])
    numpy.asarray(loss.values)               # the same memory

Names are a field of `step` (`loss`), of another kind (`eval/loss`, `moe/aux_loss`, `sol/tps`), of a GPU
(`gpu/0/power`), or what the program itself named in its `metrics`. A field that only the file knows works too.
"""

import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple, cast

import msgspec

from ..records import KINDS, fields, tokens_per_second
from .careful import dicts
from .run_text import BARE, LASTING, Decode, RunText, bare, decode, decoder_of

COMPUTED = {("step", "tokens_per_second"): "step_tokens", ("eval", "tokens_per_second"): "eval_tokens"}
NOT_FINITE = {"nan", "inf", "-inf", "infinity", "-infinity"}
Value = float | str | bool | None


@dataclass(frozen=True, slots=True)
class Series:
    """The steps at which a number was logged, and the number."""

    name: str
    steps: "array[int]"
    values: "array[float]"

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(self.steps, self.values, strict=True)


class Source(NamedTuple):
    """Where a series comes from: a field of a kind, of one GPU."""

    kind: str
    field: str
    id: int | None = None


def sources(name: str) -> Iterator[Source]:
    """What a name can mean, the most likely first."""
    kind, _, field = name.partition("/")
    id_, _, gpu_field = field.partition("/")
    if kind == "gpu" and id_.isdecimal() and gpu_field:
        yield Source("gpu", gpu_field, int(id_))
    elif field:
        yield Source(kind, field)
    else:
        yield Source("step", name)
    yield Source("metrics", name)
    if kind == "moe":  # what a step has inline
        yield Source("step", f"moe_{field}")


def is_field(name: str) -> bool:
    """Whether a name is one that every run may have, logged or not."""
    first = next(sources(name))
    return (first.kind, first.field) in COMPUTED or (
        first.kind in KINDS and first.field in fields(first.kind) and first.field != "step"
    )


def read_series(text: RunText, name: str, superseded: bool = False) -> Series:
    """The first series that has a value, of all that the name can mean; an empty one if none has."""
    series = Series(name, array("q"), array("d"))
    for source in sources(name):
        for block in text.blocks:
            limit = None if superseded or source.kind in LASTING else block.limit
            _append(series, text.text(block, source.kind), source, limit)
        if series.steps:
            break
    return series if superseded else _in_order(series)


def _append(series: Series, text: bytes, source: Source, limit: int | None) -> None:
    """Add what a text of records holds: as columns where that goes, for it is many times faster."""
    reader = _reader(source)
    found = decode(text, reader.decode, dicts)
    all_count = limit is None and source.kind != "gpu"
    if all_count and _append_columns(series, found, reader):
        return
    rows = [each for each in found if type(each) is reader.row or type(each) is dict]
    if not (all_count and _append_columns(series, rows, reader)):
        _append_one_by_one(series, rows, source, sys.maxsize if limit is None else limit)


def _append_columns(series: Series, rows: list[Any], reader: "_Reader") -> bool:
    """Add rows if they are all of the source, and each has a plain number."""
    try:
        steps, values = array("q", [row.step for row in rows]), array("d", reader.column(rows))
    except (AttributeError, TypeError, OverflowError):
        return False
    series.steps.extend(steps)
    series.values.extend(values)
    return True


def _append_one_by_one(series: Series, rows: list[Any], source: Source, limit: int) -> None:
    column = _reader(source).column
    for row in rows:
        step, value = _pair(row, source) if type(row) is dict else (row.step, column([row])[0])
        number = _number(value)
        if number is not None and -sys.maxsize <= step < limit and getattr(row, "id", source.id) == source.id:
            series.steps.append(step)
            series.values.append(number)


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
        return _Reader(_refuse, None, _refuse)


def _row(source: Source) -> tuple[Any, Callable[[list[Any]], list[Any]]]:
    """A struct that takes from a record what the series needs, and what gets the values from a list of it."""
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
        return [_rate(row.tokens, row.duration_ms) for row in rows]


def _refuse(text: Any) -> Any:
    raise ValueError("to be read with care")


def _pair(data: dict[str, Any], source: Source) -> tuple[int, Any]:
    """Step and value of a record that was read with care."""
    kind, field, id_ = source
    step = _number(data.get("step", 0))
    if data["log"] != kind or step is None or not isfinite(step) or (kind == "gpu" and data.get("id") != id_):
        return 0, None
    if (kind, field) in COMPUTED:
        return int(step), _rate(data.get(COMPUTED[kind, field]), data.get("duration_ms"))
    values = data.get("values") if kind == "metrics" else data
    return int(step), values.get(field) if isinstance(values, dict) else None


def _rate(tokens: Any, duration_ms: Any) -> float | None:
    return tokens_per_second(cast(Any, _number(tokens)), _number(duration_ms))


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return float(value) if value.lower() in NOT_FINITE else None
    return float(value) if isinstance(value, (int, float)) and abs(value) <= sys.float_info.max else None


def _in_order(series: Series) -> Series:
    """By step: a record with numbers from a device comes a little after those with numbers of the host."""
    steps, values = series.steps, series.values
    parts = (steps[place : place + 1001].tolist() for place in range(0, len(steps), 1000))
    if all(part == sorted(part) for part in parts):
        return series
    order = sorted(range(len(steps)), key=steps.__getitem__)
    return Series(series.name, array("q", map(steps.__getitem__, order)), array("d", map(values.__getitem__, order)))


def names(text: RunText) -> set[str]:
    """Every name for which the file has a number."""
    found: set[str] = set()
    for block in text.blocks:
        for data in decode(text.text(block), _refuse, dicts):
            found.update(_names(data))
    return found


def _names(data: dict[str, Any]) -> Iterator[str]:
    kind, values = data["log"], data
    if kind == "metrics" and isinstance(data.get("values"), dict):
        kind, values = "", data["values"]
    prefix = {"step": "", "": "", "gpu": f"gpu/{data.get('id')}/"}.get(kind, f"{kind}/")
    yield from (prefix + name for name, value in values.items() if name != "step" and _number(value) is not None)
    if _rate(data.get(f"{kind}_tokens"), data.get("duration_ms")) is not None:
        yield f"{prefix}tokens_per_second"
