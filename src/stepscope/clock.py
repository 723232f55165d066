"""The time as every record shows it.

utc_now()     # '2026-01-15T10:30:00.123456'
"""

import time

_second = -1
_text = ""


def utc_now() -> str:
    """Now, in UTC, with microseconds; the part down to the second is made once a second."""
    global _second, _text
    second, rest = divmod(time.time_ns(), 1_000_000_000)
    if second != _second:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _second, _text = second, text
        return f"{text}.{rest // 1000:06d}"
    return f"{_text}.{rest // 1000:06d}"
