"""Several sinks as one.

    sink = Tee(Memory(), Console(0))
    sink.write(record)

Each gets every record, whatever the others do; what they raised is raised when all have had it.
"""

from typing import Any

from ..records import Record
from .sink import Sink


class Tee:
    """Passes records on to several sinks."""

    def __init__(self, *sinks: Sink):
        self.sinks = sinks

    def write(self, record: Record) -> None:
        """Give a record to every sink."""
        _each([sink.write for sink in self.sinks], record)

    def close(self) -> None:
        """Close every sink."""
        _each([sink.close for sink in self.sinks])


def _each(calls: list[Any], *arguments: Any) -> None:
    raised: list[Exception] = []
    for call in calls:
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - the others must have their turn
            raised.append(error)
    if len(raised) == 1:
        raise raised[0]
    if raised:
        raise ExceptionGroup("several sinks failed", raised)
