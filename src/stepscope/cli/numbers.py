"""Numbers as a person reads them; what is unknown is `n/a`.

number(2.34561), rate(105025.6), duration(8130), size(8 << 30)     # '2.3456' '105.0k' '2h15m' '8.0 GiB'
"""

from datetime import UTC, datetime
from math import isfinite

UNKNOWN = "n/a"


def number(value: float | None) -> str:
    """A loss or a norm: four decimals, or four digits where that would hide it."""
    if value is None:
        return UNKNOWN
    if not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.4g}"


def rate(value: float | None) -> str:
    """A count with k, M, B or T: 999, 105.0k, 1.2M."""
    if value is None:
        return UNKNOWN
    for unit, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.1f}{unit}"
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of one, in percent."""
    return UNKNOWN if share is None else f"{share * 100:.{digits}f} %"


def milliseconds(value: float | None) -> str:
    """The duration of a step."""
    if value is None:
        return UNKNOWN
    return f"{value:.3g} ms" if value < 100 else f"{value:.0f} ms" if value < 10_000 else duration(value / 1000)


def duration(seconds: float | None) -> str:
    """A stretch of time in its two largest units."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"
    minutes, hours = divmod(int(seconds), 3600)[1] // 60, int(seconds) // 3600
    if hours == 0:
        return f"{minutes}m{int(seconds) % 60:02d}s"
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"


def ago(seconds: float | None) -> str:
    """How long ago something was."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return "now"
    for unit, span in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= span:
            return f"{seconds // span:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def moment(time: str | None) -> str:
    """A time of the run file, which is UTC, to the minute."""
    if time is None:
        return UNKNOWN
    try:
        return datetime.fromisoformat(time).replace(tzinfo=UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:  # a foreign format
        return time


def size(value: float | None) -> str:
    """Bytes in the largest binary unit that fits."""
    if value is None:
        return UNKNOWN
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value:.0f} bytes"


def count(number: int, thing: str) -> str:
    """A number of things, in the plural where it must be."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
