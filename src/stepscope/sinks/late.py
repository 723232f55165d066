"""A run file that is written from a thread: for disks so slow that a write would hold up training.

    file = LateFile(JsonFile.create("out/training.json"))
    file.put(line)        # returns at once; what is not written yet is lost when the process is killed
    file.close()

The promise is weaker than the plain file's: what the thread has written survives the death of the process, and it
writes as fast as the disk takes it. What waits is bounded; beyond that records are lost and counted.
"""

import threading
from collections import deque
from pathlib import Path

from .jsonfile import HELD_BYTES, JsonFile, Trouble, started

POLL_S = 0.05


class LateFile:
    """A `JsonFile` behind a queue and a thread."""

    def __init__(self, file: JsonFile, on_trouble: Trouble, limit: int = 8 * HELD_BYTES):
        self._file = file
        self._on_trouble = on_trouble
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._bytes = self._lost = 0
        self._count = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

    @property
    def lost(self) -> int:
        """Records that are not in the file."""
        return self._lost + self._file.lost + len(self._lines)

    def put(self, line: bytes) -> None:
        """Queue a line."""
        if self._bytes + len(line) > self._limit:
            self._lost += 1
            advice = "put log_file on a faster disk, or log less"
            mib = self._limit >> 20
            return self._on_trouble("run-file-behind", f"the disk is {mib} MiB behind: records are lost", advice)
        with self._count:
            self._bytes += len(line)
        self._lines.append(line)
        if self._thread is None:
            self._thread = started(self._work, "stepscope-file")
            if self._thread is None:
                self._write()

    def _work(self) -> None:
        while not self._stop.wait(POLL_S):
            self._write()
        self._write()

    def _write(self) -> None:
        while self._lines:
            self._file.append(self._lines[0])
            with self._count:
                self._bytes -= len(self._lines.popleft())

    def settle(self) -> int:
        """How many records the file will not have."""
        return self._lost + self._file.settle()

    def close(self, deadline: float = 3.0) -> None:
        """Write what waits, within the deadline, and close."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(deadline)
            if self._thread.is_alive():
                return
        self._write()
        self._file.close(deadline)

    def abandon(self) -> None:
        """Forget the file without a write: what a forked child does."""
        self._file.abandon()
