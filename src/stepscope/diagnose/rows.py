"""Numbers of many records by name, a row a record, in 8 bytes each; what is unknown is NaN.

rows = Rows(keep=1000)                        # the newest thousand or more; None keeps all
rows.add(7, {"duration_ms": 10.2, "host/forward_pass": 4.1})
rows.column("duration_ms"), rows.mean("duration_ms")
"""

from array import array
from collections.abc import Iterable, Mapping
from math import isfinite, nan

from .slopes import known


class Rows:
    """Columns of numbers that grow together, and forget their oldest rows where they must."""

    def __init__(self, keep: int | None = None):
        self.steps = array("q")
        self.dropped = 0
        self._keep = keep
        self._columns: dict[str, array[float]] = {}

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int, values: "Mapping[str, float | None] | Iterable[tuple[str, float | None]]") -> None:
        """A row; numbers that are unknown or not finite are left out."""
        place = len(self.steps)
        self.steps.append(step)
        for name, value in values.items() if isinstance(values, Mapping) else values:
            if value is not None and isfinite(value):
                column = self._columns.get(name)
                if column is None:
                    column = self._columns[name] = array("d")
                if len(column) < place:
                    column.extend([nan] * (place - len(column)))
                if len(column) == place:  # a name that comes twice counts once
                    column.append(value)
        if self._keep is not None and place >= 2 * self._keep:
            self.forget(len(self.steps) - self._keep)

    def forget(self, number: int) -> None:
        """Drop so many of the oldest rows; `add` does so once in as many as are kept, so that a row costs little."""
        for name in list(self._columns):
            del self._columns[name][:number]
            if not self._columns[name]:
                del self._columns[name]
        del self.steps[:number]
        self.dropped += number

    def names(self, prefix: str = "") -> list[str]:
        """The columns whose name begins so, without that beginning."""
        return [name.removeprefix(prefix) for name in self._columns if name.startswith(prefix)]

    def column(self, name: str) -> "array[float]":
        """A number in every row."""
        column = self._columns.setdefault(name, array("d"))
        column.extend([nan] * (len(self.steps) - len(column)))
        return column

    def values(self, name: str, begin: int = 0) -> list[float]:
        """A number where it is known, from a row on."""
        return known(self.column(name)[begin:]) if name in self._columns else []

    def sum(self, name: str, begin: int = 0) -> float:
        """The sum of what is known."""
        return sum(self.values(name, begin))

    def mean(self, name: str, begin: int = 0) -> float | None:
        """The mean of what is known; None where nothing is."""
        values = self.values(name, begin)
        return sum(values) / len(values) if values else None

    def per_row(self, name: str, begin: int = 0) -> float:
        """The mean over all rows: a row without it had none of it."""
        rows = len(self.steps) - begin
        return self.sum(name, begin) / rows if rows > 0 else 0.0
