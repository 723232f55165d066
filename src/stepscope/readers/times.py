"""When a run gave a sign of life, and how long it was at work.

times = signs_of_life(run)
times[0], times[-1]                   # '2026-01-15T10:30:00.123456', …
at_work(run.headers, times)           # seconds, without the pauses between attempts
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime

from ..records import Header, Other
from .run_file import Run


def signs_of_life(run: Run) -> list[str]:
    """Times of records, in order: all where attempts must be told apart, else the first and last of each kind."""
    return sorted({time.replace(" ", "T") for time in _times(run) if time})


def _times(run: Run) -> Iterator[str]:
    for kind in run.kinds:
        records = run.records(kind, run.rank, superseded=True)
        if len(run.headers) > 1:
            yield from map(_time, records)
        elif records:
            yield from (_time(next(iter(records))), _time(records[-1]))


def _time(record: object) -> str:
    time = record.data.get("time") if isinstance(record, Other) else getattr(record, "time", None)
    return time if isinstance(time, str) else ""


def at_work(headers: Sequence[Header], times: list[str]) -> float | None:
    """From each attempt's start to its last sign of life."""
    if len(times) < 2:
        return None
    starts = [bisect_left(times, header.time) for header in headers] or [0]
    spans = [seconds(times[a], times[b - 1]) for a, b in zip(starts, [*starts[1:], len(times)], strict=True) if b > a]
    return None if None in spans else sum(span for span in spans if span is not None)


def seconds(begin: str | None, end: str | None) -> float | None:
    """From one time to another."""
    try:
        return (datetime.fromisoformat(end or "") - datetime.fromisoformat(begin or "")).total_seconds()
    except (ValueError, TypeError):  # no time, or one of a foreign format
        return None
