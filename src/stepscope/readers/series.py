"""One named number of a run over its steps, as two columns."""

from array import array
from typing import NamedTuple


class Series(NamedTuple):
    """The steps at which a value was logged, and the values."""

    name: str
    steps: "array[int]"
    values: "array[float]"

    def __len__(self) -> int:
        return len(self.steps)
