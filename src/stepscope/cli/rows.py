"""A run's records of one kind as the rows of a table.

    columns(run, "step")              # ['time', 'step', …, 'tokens_per_second', 'loss', 'lr', 'acc/train']
    list(rows(run, "step"))[0]        # {'time': '2026-…', 'step': 1, 'loss': 2.3456, …}

A row has what is known, and nothing else. Further numbers of a step stand in its row, and under `metrics/…` where their
name is a field of the step already.
"""

import json
from collections.abc import Iterator
from heapq import merge
from itertools import chain
from typing import Any

import msgspec

from ..errors import UnknownSetting, nearest
from ..readers.run_file import Run
from ..records import KINDS, Metrics, Other, Record, fields
from .screen import plain

Row = dict[str, Any]


def columns(run: Run, kind: str) -> list[str]:
    """The names that occur: the kind's fields in their order, then the others as they come."""
    found = dict.fromkeys(chain.from_iterable(rows(run, kind)))
    ordered = [name for name in _in_order(kind) if name in found]
    return [*ordered, *(name for name in found if name not in ordered)]


def rows(run: Run, kind: str) -> Iterator[Row]:
    """The newest history of a kind, a row at a time."""
    if kind not in run.kinds:
        raise UnknownSetting(f"{run.path} has no record of kind {kind!r}{nearest(kind, run.kinds)}")
    if kind == "step":
        return _steps(run)
    return _all_ranks(run, kind)


def _in_order(kind: str) -> list[str]:
    names = list(fields(kind)) if kind in KINDS else []
    if "duration_ms" in names and kind in ("step", "eval"):
        names.insert(names.index("duration_ms") + 1, "tokens_per_second")
    return names


def _steps(run: Run) -> Iterator[Row]:
    """One row a step: its record and its further numbers; a step that has only these has a row too."""
    numbers: dict[int, Row] = {}
    for record in run.records("metrics", rank=run.rank):
        if isinstance(record, Metrics):
            numbers.setdefault(record.step, {}).update(_renamed(record.values))
    alone = dict(numbers)
    for step in run.steps:
        alone.pop(step.step, None)
    logged = (_row(step) | numbers.get(step.step, {}) for step in run.steps)
    others = ({"step": step, **values} for step, values in sorted(alone.items()))
    return merge(logged, others, key=lambda row: row["step"])


def _renamed(values: dict[str, Any]) -> Row:
    taken = set(_in_order("step"))
    return {f"metrics/{name}" if name in taken else name: value for name, value in values.items()}


def _all_ranks(run: Run, kind: str) -> Iterator[Row]:
    for rank in sorted(run.ranks):
        own = {"rank": rank} if len(run.ranks) > 1 else {}
        for record in run.records(kind, rank=rank):
            yield _row(record) | own


def _row(record: Record | Other) -> Row:
    if isinstance(record, Other):
        return {name: _cell(value) for name, value in record.data.items() if name != "log"}
    row = {name: _cell(value) for name in record.__struct_fields__ if (value := getattr(record, name)) is not None}
    if isinstance(record, Metrics):
        row |= _renamed(row.pop("values") and record.values)
    speed = getattr(record, "tokens_per_second", None)
    return row if speed is None else row | {"tokens_per_second": speed}


def _cell(value: Any) -> Any:
    """A scalar as it is, anything nested as JSON."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    return json.dumps(plain(msgspec.to_builtins(value)), ensure_ascii=False)
