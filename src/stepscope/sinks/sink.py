"""What takes records: it handles the kinds that it knows and ignores the rest.

def report(sink: Sink) -> None:
    sink.write(Step(step=1, loss=2.3))
    sink.close()
"""

from typing import Protocol

from ..records import Record


class Sink(Protocol):
    """Whatever takes records."""

    def write(self, record: Record) -> None:
        """Take one record."""

    def close(self) -> None:
        """Take no more; a second call does nothing."""


class Backend(Protocol):
    """A sink that works on its own, so that it is closed in two moves: `stop` all, then give all one deadline."""

    def write(self, record: Record) -> None:
        """Hand a record over; never waits, never raises."""

    def stop(self) -> None:
        """Take no more, and send what waits."""

    def close(self, deadline_s: float = ...) -> int:
        """Wait for that until the deadline; how many records did not make it."""
