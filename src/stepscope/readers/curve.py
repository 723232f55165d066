"""Numbers of many records as columns, and how such a column went.

    loss = columns(run.steps, ["loss"])["loss"]
    curve(loss).lowest, curve(loss).lowest_step, typical(loss)

All columns come from one pass over the records; a number that was not logged is in none.
"""

from array import array
from collections.abc import Iterable, Sequence
from math import isfinite
from operator import attrgetter
from statistics import median
from sys import maxsize
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..records import StepRecord


class Column(NamedTuple):
    """A number, and the steps at which it was logged."""

    steps: "array[int]"
    values: "array[float]"


class Curve(msgspec.Struct, frozen=True):
    """How one number went: its ends, its extremes among finite values, and how often it was not finite."""

    count: int = 0
    first: float | None = None
    last: float | None = None
    lowest: float | None = None
    lowest_step: int | None = None
    highest: float | None = None
    highest_step: int | None = None
    non_finite: int = 0


def columns(records: Iterable[StepRecord], names: Sequence[str]) -> dict[str, Column]:
    """The columns of these names, from one pass."""
    found = {name: Column(array("q"), array("d")) for name in names}
    takers = [(attrgetter(name), column.steps.append, column.values.append) for name, column in found.items()]
    for record in records:
        for get, add_step, add_value in takers:
            value = get(record)
            if value is not None and -maxsize <= record.step <= maxsize:  # what a foreign file calls a step
                add_step(record.step)
                add_value(value)
    return found


def curve(column: Column) -> Curve:
    """The curve of a column."""
    steps, values = column
    if not values:
        return Curve()
    finite = [place for place, value in enumerate(values) if isfinite(value)]
    ends = Curve(count=len(values), first=values[0], last=values[-1], non_finite=len(values) - len(finite))
    if not finite:
        return ends
    low, high = min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)
    return replace(ends, lowest=values[low], lowest_step=steps[low], highest=values[high], highest_step=steps[high])


def typical(column: Column) -> float | None:
    """The median of the finite values."""
    finite = [value for value in column.values if isfinite(value)]
    return median(finite) if finite else None
