"""The time of a record is the wall clock's, in UTC, to the microsecond."""

from datetime import UTC, datetime

import pytest

from stepscope import clock


@pytest.mark.parametrize(
    "ns",
    [
        1_768_473_000_123_456_789,
        1_768_473_000_999_999_999,
        1_768_473_001_000_000_000,
        1_768_473_001_000_000_999,
        1_768_473_000_500_000_000,  # the clock was set back
        1_768_559_400_000_001_000,
    ],
)
def test_it_is_what_datetime_says(monkeypatch: pytest.MonkeyPatch, ns: int) -> None:
    """At the edge of a second, and when the clock jumps either way."""
    clock._begin_second(1_768_473_000_999_999_998)
    monkeypatch.setattr(clock, "time_ns", lambda: ns)
    whole = datetime.fromtimestamp(ns // 10**9, UTC).replace(microsecond=ns % 10**9 // 1000)
    assert clock.utc_now() == clock.utc_now() == whole.isoformat(timespec="microseconds").removesuffix("+00:00")
