"""How two runs' numbers stand to each other, and how sure that is.

    before, after = Total(waits, durations), Total(waits_2, durations_2)
    before.value                          # the share: the sum of the waits over the sum of the durations
    interval(before, after)               # (0.41, 0.47): 95 % interval of after.value / before.value

A number of a run is a ratio of two sums over its steps. Neighbouring steps are alike, so the sums are cut into blocks
that are long enough to be independent, and the spread of the blocks gives the ratio's standard error (the classical
ratio estimator); the interval is Welch's, on the logarithm. It knows what varies inside a run. What varies from run to
run (another machine, another neighbour on it) only more runs can tell.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import exp, isfinite, log, sqrt
from random import Random
from statistics import NormalDist, median
from typing import NamedTuple

from ..diagnose.slopes import block_levels

BLOCKS, FEWEST = 20, 6
ALIKE = 0.3  # correlation of neighbouring blocks from which on they are made longer
SURE = 0.95
DRAWS = 2000


class Total(NamedTuple):
    """Two sums over the same steps."""

    over: Sequence[float]
    under: Sequence[float]

    @property
    def value(self) -> float | None:
        """Their ratio."""
        below = sum(self.under)
        return sum(self.over) / below if below > 0 else None


class Estimate(NamedTuple):
    """A number, its standard error as a share of it, and the blocks that these come from."""

    value: float
    error: float
    blocks: int


def estimate(total: Total, fewest: int = FEWEST) -> Estimate | None:
    """The number with its error; None where there are too few steps for one."""
    value, most = total.value, max(fewest, min(BLOCKS, len(total.over) // 4))
    if value is None or value <= 0 or not isfinite(value) or len(total.over) < fewest:
        return None
    blocks = min(most, len(total.over))
    rest = _residuals(total, value, blocks)
    while blocks * 2 // 3 >= fewest and _alike(rest) > ALIKE:
        blocks = blocks * 2 // 3
        rest = _residuals(total, value, blocks)
    squares = sum(each * each for each in rest) * blocks / (blocks - 1) * _wider(rest)
    return Estimate(value, sqrt(squares) / sum(total.over), blocks)


def _residuals(total: Total, value: float, blocks: int) -> list[float]:
    """What each block has beyond its share."""
    size = len(total.over)
    ends = [round(at * size / blocks) for at in range(blocks + 1)]
    return [sum(total.over[a:b]) - value * sum(total.under[a:b]) for a, b in pairwise(ends)]


def _alike(rest: Sequence[float]) -> float:
    """The correlation of neighbours."""
    squares = sum(each * each for each in rest)
    return sum(a * b for a, b in pairwise(rest)) / squares if squares > 0 else 0.0


def _wider(rest: Sequence[float]) -> float:
    """How much larger a sum's variance is where neighbours are alike: (1 + r) / (1 - r) times."""
    alike = min(0.8, max(0.0, _alike(rest) + 1 / len(rest)))  # few blocks show it too low
    return (1 + alike) / (1 - alike)


def interval(before: Total, after: Total, fewest: int = FEWEST) -> tuple[float, float] | None:
    """The 95 % interval of after / before; None where either run is too short for one."""
    a, b = estimate(before, fewest), estimate(after, fewest)
    if a is None or b is None:
        return None
    variance = a.error**2 + b.error**2
    if variance == 0:
        return b.value / a.value, b.value / a.value
    freedom = variance**2 / (a.error**4 / (a.blocks - 1) + b.error**4 / (b.blocks - 1))
    half = student(freedom) * sqrt(variance)
    middle = log(b.value / a.value)
    return (exp(middle - half), exp(middle + half)) if half < 50 else None


def median_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the ratio of the medians, which a busy machine's outliers do not widen.

    The medians of blocks are drawn again and again, with a fixed seed: the same files give the same interval.
    """
    levels = [_levels(values) for values in (before, after)]
    if not all(levels) or min(map(min, levels)) <= 0:
        return None
    chance = Random(0)
    drawn = [[median(chance.choices(each, k=len(each))) for _ in range(DRAWS)] for each in levels]
    ratios = sorted(log(b / a) for a, b in zip(*drawn, strict=True))
    cut, middle = round(DRAWS * (1 - SURE) / 2), log(median(levels[1]) / median(levels[0]))
    wider = sqrt(max(_wider([level - median(each) for level in each]) for each in levels))
    return exp(middle + wider * (ratios[cut] - middle)), exp(middle + wider * (ratios[-1 - cut] - middle))


def _levels(values: Sequence[float]) -> list[float]:
    """The medians of blocks that are long enough to be independent."""
    blocks = min(BLOCKS, len(values) // 4)
    while blocks >= FEWEST:
        levels = block_levels(values, blocks)
        middle = median(levels)
        if _alike([level - middle for level in levels]) <= ALIKE or blocks * 2 // 3 < FEWEST:
            return levels
        blocks = blocks * 2 // 3
    return []


def student(freedom: float, sure: float = SURE) -> float:
    """The two-sided quantile of Student's distribution, by Cornish and Fisher's expansion (Abramowitz, 26.7.5)."""
    z = NormalDist().inv_cdf((1 + sure) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))
