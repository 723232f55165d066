"""The time as every record shows it.

utc_now()     # '2026-01-15T10:30:00.123456'
"""

from time import gmtime, strftime, time_ns

SECOND = 1_000_000_000

# The present second as text, and the moment a second before it: what has passed since then has ten digits.
# One tuple, so that two threads never mix two seconds.
_second = ("", 0)


def utc_now() -> str:
    """Now, in UTC, with microseconds; the part down to the second is made once a second."""
    now = time_ns()
    text, before = _second
    digits = str(now - before)
    if len(digits) != 10 or digits[0] != "1":
        text, digits = _begin_second(now), str(now % SECOND + SECOND)
    return text + digits[1:7]


def _begin_second(now: int) -> str:
    global _second
    second = now // SECOND
    text = strftime("%Y-%m-%dT%H:%M:%S.", gmtime(second))
    _second = (text, (second - 1) * SECOND)
    return text
