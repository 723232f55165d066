"""Robust statistics of a series: what its level is, and whether it rises.

    rise = trend(durations)        # Trend(start=10.1, end=12.2, steady=0.93)
    rise.growth                    # 0.21

The slope is Theil and Sen's, the median of the slopes between all pairs, taken between the medians of blocks: one
slow step in three moves it no more than none. `steady` is Kendall's tau: 1 where every block lies above those before.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import ceil, isnan
from statistics import median
from typing import NamedTuple

BLOCKS = 20


class Trend(NamedTuple):
    """A straight line through a series."""

    start: float
    end: float
    steady: float

    @property
    def growth(self) -> float:
        """How much of its start it has gained."""
        return (self.end - self.start) / self.start if self.start > 0 else 0.0


def trend(values: Sequence[float], share: float = 0.5) -> Trend | None:
    """The line through a series, or through the values below which such a share lies; None where it is too short."""
    levels = block_levels(values, min(BLOCKS, len(values)), share)
    if len(levels) < 4:
        return None
    pairs = list(combinations(range(len(levels)), 2))
    slope = median((levels[b] - levels[a]) / (b - a) for a, b in pairs)
    middle = median(value - slope * at for at, value in enumerate(levels))
    signs = sum((levels[b] > levels[a]) - (levels[b] < levels[a]) for a, b in pairs)
    half = 0.5  # a block's level stands for its middle
    return Trend(middle - slope * half, middle + slope * (len(levels) - half), signs / len(pairs))


def block_levels(values: Sequence[float], blocks: int, share: float = 0.5) -> list[float]:
    """The medians of so many blocks of about the same length, or another quantile."""
    level = median if share == 0.5 else lambda block: quantile(block, share)
    ends = [round(at * len(values) / blocks) for at in range(blocks + 1)] if blocks else []
    return [level(values[a:b]) for a, b in pairwise(ends) if b > a]


def spread(values: Sequence[float]) -> float:
    """A standard deviation that a few odd values do not move: 1.4826 times the median distance from the median."""
    middle = median(values)
    return 1.4826 * median(abs(value - middle) for value in values)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which such a share lies: the nearest that is there."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def known(values: Sequence[float]) -> list[float]:
    """The values that are numbers."""
    return [value for value in values if not isnan(value)]
