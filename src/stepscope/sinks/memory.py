"""Records in a list: for tests, and for programs that look at their own run.

memory = Memory()
memory.write(Step(step=1, loss=2.3))
memory.of("step")[0].loss     # 2.3
"""

from typing import Any

from ..records import Record


class Memory:
    """Keeps every record that it is given."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.closed = False

    def write(self, record: Record) -> None:
        """Keep a record."""
        self.records.append(record)

    def of(self, kind: str) -> list[Any]:
        """The records of a kind."""
        return [record for record in self.records if record.kind == kind]

    def close(self) -> None:
        """Note that the run has ended; the records stay."""
        self.closed = True
