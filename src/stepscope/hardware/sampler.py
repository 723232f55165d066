"""A background thread that reads at once and then every second, survives whatever a reading raises, and ends in time.

    sampler = Sampler(lambda: [reader.read()], run.emit, interval_s=1.0)
    sampler.failures, sampler.failure         # how many readings failed, and how the last one did
    sampler.close()                           # one last reading, then it is over, in 2 s at most

`read` returns records and `emit` takes them one by one; both run in the thread. In a forked child the sampler is dead.
"""

import os
import time
from collections.abc import Callable, Sequence
from threading import Event, Thread, current_thread

from ..records import Record

CLOSE_S = 2.0


class Sampler:
    """Reads and emits on a schedule that does not drift."""

    def __init__(
        self,
        read: Callable[[], Sequence[Record]],
        emit: Callable[[Record], object],
        interval_s: float = 1.0,
        *,
        name: str = "sampler",
        clock: Callable[[], float] = time.monotonic,
    ):
        self.failures = 0
        self.failure: BaseException | None = None
        self._read, self._emit = read, emit
        self._interval_s, self._clock = interval_s, clock
        self._pid = os.getpid()
        self._stopping, self._abandoned, self._done = Event(), Event(), Event()
        self._last = float("-inf")
        # a daemon: a reading that hangs in a driver must not keep the process alive
        self._thread = Thread(target=self._work, name=f"stepscope-{name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the process may have no more threads
            self._note(error)
            self._done.set()

    def close(self, deadline_s: float = CLOSE_S) -> bool:
        """Take a last reading and end; False where the thread was left behind at the deadline."""
        if self._pid != os.getpid():
            return True  # the thread did not come along
        self._stopping.set()
        if current_thread() is self._thread:
            return True  # called by what takes the records: the thread ends by itself
        ended = self._done.wait(max(0.0, deadline_s))
        self._abandoned.set()  # what still comes from there is not wanted any more
        return ended

    def _work(self) -> None:
        begin, turn = self._clock(), 0
        try:
            while not self._stopping.is_set():
                self._sample()
                # the next turn that is still to come: a slow reading skips turns, it does not pile them up
                turn = 1 + max(turn, int((self._clock() - begin) / self._interval_s))
                self._stopping.wait(max(0.0, begin + turn * self._interval_s - self._clock()))
            if turn <= 1 or self._clock() - self._last > 0.8 * self._interval_s:
                self._sample()  # rates need two readings, so a short run gets a second one
        finally:
            self._done.set()

    def _sample(self) -> None:
        self._last = self._clock()
        try:
            for record in self._read():
                if self._abandoned.is_set():
                    return
                self._emit(record)
        except BaseException as error:  # noqa: BLE001 - foreign code may raise anything, and sampling goes on
            self._note(error)

    def _note(self, error: BaseException) -> None:
        self.failures += 1
        self.failure = error.with_traceback(None)  # a traceback would keep everything in its frames alive
