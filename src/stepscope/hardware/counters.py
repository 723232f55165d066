"""Rates from counters that only ever grow: the mean over the time between two readings, not a glimpse.

received = Rate()
received.per_second(1_000, now=10.0)              # None: one reading is no rate
received.per_second(5_000, now=12.0)              # 2000.0
narrow = NarrowCounter(max_per_second=64e9)       # 32 bits: full every 67 ms at that rate
narrow.add(4_294_967_000, now=0.00)
narrow.add(704, now=0.05)                         # it went over its end: 1,000 since
narrow.per_second()                               # 20000.0
"""

BITS_32 = 1 << 32
SAFE_SHARE = 0.9  # of the time in which a counter can come round: later than that, nobody knows how often it did


class Rate:
    """The rate of a counter that never comes round in practice."""

    def __init__(self, shortest_s: float = 0.0):
        self._shortest_s = shortest_s
        self._last: tuple[float, float] | None = None

    def per_second(self, count: float, now: float) -> float | None:
        """The mean rate since the last reading; None for the first, after a reset, and too soon after the last."""
        if self._last is None:
            self._last = (count, now)
            return None
        before, then = self._last
        if now - then <= self._shortest_s:
            return None
        self._last = (count, now)
        return (count - before) / (now - then) if count >= before else None


class NarrowCounter:
    """The rate of a 32-bit counter, from readings close enough together to know how often it came round."""

    def __init__(self, max_per_second: float | None):
        self.longest_s = SAFE_SHARE * BITS_32 / max_per_second if max_per_second else None
        self._bits_32 = True
        self._last: tuple[int, float] | None = None
        self._counted, self._covered_s = 0, 0.0
        self._began: float | None = None

    def add(self, count: int, now: float) -> None:
        """Take a reading; what passed since the last one counts if that was not too long ago."""
        last, self._last = self._last, (count, now)
        self._bits_32 = self._bits_32 and count < BITS_32
        if last is None:
            self._began = now
            return
        passed = count - last[0]
        if not self._bits_32 and passed >= 0:
            self._count(passed, now - last[1])
        elif self._bits_32 and self.longest_s is not None and now - last[1] <= self.longest_s:
            self._count(passed % BITS_32, now - last[1])

    def _count(self, passed: int, seconds: float) -> None:
        self._counted += passed
        self._covered_s += seconds

    def per_second(self) -> float | None:
        """The mean rate since the last call; None where more than half of that time is not covered."""
        if self._last is None or self._began is None:
            return None
        counted, covered_s, whole_s = self._counted, self._covered_s, self._last[1] - self._began
        self._counted, self._covered_s, self._began = 0, 0.0, self._last[1]
        return counted / covered_s if covered_s > 0 and covered_s >= whole_s / 2 else None
