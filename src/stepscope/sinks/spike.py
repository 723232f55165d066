"""Which gradient norms stand out: more than five times their moving average.

    average = NormAverage()
    average.flags(0.1)      # False
    average.flags(9.9)      # True, once a few norms are known

The average leaves out the value under test, and values that were flagged or are not finite, so that five times
means five times. A norm that stays high is the new normal after a while.
"""

from math import isfinite

FACTOR = 5.0
NEEDED = 5  # norms before the first flag
WEIGHT = 0.1
NEW_NORMAL = 20  # flagged norms in a row after which the level counts as changed


class NormAverage:
    """A moving average of the norms that are not flagged."""

    def __init__(self) -> None:
        self.mean = 0.0
        self._count = 0
        self._flagged = 0

    def flags(self, norm: float) -> bool:
        """Whether `norm` is a spike; if it is not, it enters the average."""
        if not isfinite(norm):
            return True
        if self._count >= NEEDED and norm > FACTOR * self.mean:
            self._flagged += 1
            if self._flagged < NEW_NORMAL:
                return True
            self._count = 0
        self._flagged = 0
        self._count += 1
        self.mean += (norm - self.mean) * max(WEIGHT, 1 / self._count)
        return False
