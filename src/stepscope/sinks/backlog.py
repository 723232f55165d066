"""A queue whose `put` never waits: when it is full, every second step in it goes.

    backlog = Backlog(limit=10_000, precious=Worth().precious)
    backlog.put(record)
    backlog.take()        # the oldest record, None when there is none
    backlog.dropped       # how many had to go

What is precious is the last to go. Thinning the whole queue, instead of dropping its end or its beginning, leaves
the course of the run visible.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from ..records import Record


class Entry(NamedTuple):
    """A record that waits."""

    record: Record
    precious: bool


class Backlog:
    """Records between the thread that logs and the thread that reports."""

    def __init__(self, limit: int, precious: Callable[[Record], bool]):
        self.dropped = 0
        self._limit = limit
        self._precious = precious
        self._entries: deque[Entry] = deque()
        self._lock = Lock()
        self._shut = False
        self._told: set[int] = set()  # steps that an event is about

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, record: Record) -> None:
        """Take a record in."""
        with self._lock:
            if self._shut:
                self.dropped += 1
                return
            if len(self._entries) >= self._limit:
                self._thin()
            self._entries.append(Entry(record, self._precious(record)))
            if record.kind == "event":
                self._told.add(getattr(record, "step", 0))

    def take(self) -> Record | None:
        """The oldest record."""
        with self._lock:
            return self._entries.popleft().record if self._entries else None

    def shut(self) -> None:
        """Drop everything that waits and everything that still comes."""
        with self._lock:
            self.dropped += len(self._entries)
            self._entries.clear()
            self._shut = True

    def _thin(self) -> None:
        before = len(self._entries)
        steps = dict.fromkeys(_step(entry) for entry in self._entries if not self._stays(entry))
        leave = set(list(steps)[1::2] or steps)
        self._entries = deque(e for e in self._entries if self._stays(e) or _step(e) not in leave)
        if len(self._entries) == before:
            self._entries.popleft()
        self.dropped += before - len(self._entries)

    def _stays(self, entry: Entry) -> bool:
        return entry.precious or _step(entry) in self._told


def _step(entry: Entry) -> int:
    return getattr(entry.record, "step", 0)
