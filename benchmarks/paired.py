"""The same work with and without something, block by block: their ratio, and how sure it is.

    found = ratios(bare, watched, pairs=31)        # each a function that does a block and returns its seconds
    row = ratio_row("eight phases", found, bar=1.01)

Two blocks stand side by side, each first every other time, so that a machine that warms up or a neighbour that comes
and goes meets both alike. A bar is missed when the whole 95 % interval of the median lies above it.
"""

import statistics
from collections.abc import Callable

from .report import interval, verdict

HEAD = ["what", "ratio", "95 % interval", "pairs", "bar", ""]


def ratios(bare: Callable[[], float], other: Callable[[], float], pairs: int) -> list[float]:
    """What the other block takes of the bare one beside it."""
    found = []
    for pair in range(pairs):
        if pair % 2:
            plain = bare()
            found.append(other() / plain)
        else:
            mine = other()
            found.append(mine / bare())
    return found


def ratio_row(what: str, found: list[float], bar: float | None = None) -> list[str]:
    """A row below `HEAD`."""
    low, high = interval(found)
    figures = [what, f"{statistics.median(found):.4f}", f"{low:.4f} to {high:.4f}", f"{len(found)}"]
    return [*figures, *(["", ""] if bar is None else [f"≤ {bar:g}", verdict(low <= bar)])]
