"""A backend behind a queue and a thread of its own: whatever it does, training does not notice.

    backend = Background(lambda: Wandb(header), "wandb", on_trouble=print)
    backend.write(record)              # never waits, never raises
    backend.close(deadline_s=3.5)      # how many records did not make it

`make` is called in the thread, because importing a backend takes a second and reaching its server can take for ever.
What raises is tried again a few times and then parked. A backend that hangs is left behind at the deadline:
`abandon` makes sure that nothing of it holds the exit. `on_trouble(rule, message, advice)` is called from threads
of its own and from `close`, never while a lock is held.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any

from ..errors import StepscopeError
from ..records import Record
from .backlog import Backlog
from .sink import Backend, Sink
from .worth import Worth

POLL_S = 0.2  # the thread looks this often: waking it for each record would cost the training thread more
IDLE_POLLS = 10  # after that many looks in vain, what the backend still holds is sent
BACKOFF_S = (0.5, 2.0, 8.0)
BREATH_S = 0.1  # instead of those, at the end
EXIT_S = 3.5  # what all backends together may add to the exit

OnTrouble = Callable[[str, str, str], Any]


def nothing(*_: Any) -> None:
    """For what nobody waits for."""


class Background:
    """One backend, its queue and its thread."""

    def __init__(
        self,
        make: Callable[[], Sink],
        name: str,
        on_trouble: OnTrouble,
        limit: int = 10_000,
        *,
        abandon: Callable[[], Any] = nothing,
        on_ready: Callable[[str | None], Any] = nothing,
        backoff_s: tuple[float, ...] = BACKOFF_S,
        poll_s: float = POLL_S,
    ):
        self.name = name
        self.state = "starting"  # → open → closed, or parked, or abandoned
        self._make, self._abandon, self._on_ready = make, abandon, on_ready
        self._on_trouble = on_trouble
        self._backoff_s, self._poll_s = backoff_s, poll_s
        self._backlog = Backlog(limit, Worth().precious)
        self._failed = 0
        self._in_hand = 0
        self._unsaid: list[tuple[str, str, str]] = []
        self._pid = os.getpid()
        self._stopping, self._done = Event(), Event()
        self._told = False
        self._thread = Thread(target=self._work, name=f"stepscope-{name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # none can be started at the end of the interpreter: what is handed over counts as lost
            self._done.set()

    def write(self, record: Record) -> None:
        """Hand a record over."""
        if self._pid == os.getpid() and not self._stopping.is_set():
            self._backlog.put(record)

    @property
    def lost(self) -> int:
        """How many records the backend does not have."""
        return self._backlog.dropped + self._failed + len(self._backlog) + self._in_hand

    def stop(self) -> None:
        """Take no more records and send what waits; does not wait for it."""
        self._stopping.set()

    def close(self, deadline_s: float = EXIT_S) -> int:
        """Send what waits, for `deadline_s` at most; returns how many records did not make it."""
        if self._pid != os.getpid():
            return 0
        self.stop()
        if not self._done.wait(max(0.0, deadline_s)) and self.state != "abandoned":
            self.state = "abandoned"
            self._quietly(self._abandon)
        self._tell_the_end()
        return self.lost

    def say(self, rule: str, message: str, advice: str = "") -> None:
        """Report trouble; from `close` on it is kept for `close` to report."""
        if self._stopping.is_set():
            self._unsaid.append((rule, message, advice))
            return
        # not from this thread: whoever takes the trouble may wait for a lock that `close` is called under
        thread = Thread(target=self._quietly, args=(self._on_trouble, rule, message, advice), daemon=True)
        self._quietly(thread.start)

    def _tell_the_end(self) -> None:
        if self._told:
            return
        self._told = True
        if self.state == "abandoned":
            self.say(f"{self.name}-abandoned", f"{self.name} did not answer in time and was left behind", self._refill)
        if self.lost:
            self.say(f"{self.name}-lost", f"{self.name} is without {self.lost} records of this run", self._refill)
        for trouble in self._unsaid:
            self._quietly(self._on_trouble, *trouble)

    @property
    def _refill(self) -> str:
        return f"the run file has every record: stepscope sync FILE --to {self.name}"

    def _work(self) -> None:
        sink = None
        try:
            sink = self._tried(self._make)
            self.state = "open"
            self._quietly(self._on_ready, getattr(sink, "address", None))
            self._report(sink)
            self._end(sink)
        except _GivenUp as given_up:
            self._park(given_up)
            self._quietly(getattr(sink, "close", nothing))
        finally:
            self._done.set()

    def _end(self, sink: Sink) -> None:
        try:
            sink.close()
        except BaseException as error:  # noqa: BLE001 - foreign code may raise anything, SystemExit too
            why = f"{self.name} did not end well, its last records may be missing: {_in_one_line(error)}"
            self.say(f"{self.name}-unfinished", why, self._refill)
        self.state = "closed" if self.state == "open" else self.state

    def _report(self, sink: Sink) -> None:
        """Write records until there are no more."""
        failed_before, waited = False, 0
        while True:
            stopping = self._stopping.is_set()  # asked first: what comes before the answer is still written
            record = self._backlog.take()
            if record is None:
                if stopping:
                    return
                self._stopping.wait(self._poll_s)
                waited += 1
                if waited == IDLE_POLLS:
                    self._quietly(getattr(sink, "flush", nothing))
                continue
            waited = 0
            failed_before = self._write(sink, record, failed_before)

    def _write(self, sink: Sink, record: Record, failed_before: bool) -> bool:
        """Write one record. One that the backend cannot take is left out; two in a row, and it is given up."""
        self._in_hand = 1
        try:
            self._tried(sink.write, record)
            return False
        except _GivenUp as given_up:
            self._failed += 1
            if failed_before:
                raise
            self.say(f"{self.name}-refused", f"{self.name} did not take a {record.kind} record: {given_up}", "")
            return True
        finally:
            self._in_hand = 0

    def _tried(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What `call` returns, tried again after each of the pauses."""
        pauses = iter(self._backoff_s)
        while True:
            try:
                return call(*arguments)
            except BaseException as error:  # foreign code may raise anything, SystemExit too
                pause = next(pauses, None)
                if pause is None or isinstance(error, StepscopeError):
                    raise _GivenUp(_in_one_line(error)) from error
            self._pause(pause)

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):  # no time for more than a breath
            time.sleep(min(seconds, BREATH_S))

    def _park(self, why: "_GivenUp") -> None:
        if self.state == "abandoned":
            return
        self.state = "parked"
        self._backlog.shut()
        self._quietly(self._abandon)
        self.say(f"{self.name}-parked", f"{self.name} is given up for this run: {why}", self._refill)

    @staticmethod
    def _quietly(call: Callable[..., Any], *arguments: Any) -> None:
        with suppress(BaseException):
            call(*arguments)


class _GivenUp(Exception):
    """Tried often enough."""


def _in_one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    if isinstance(error, StepscopeError) or not text:
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}"


def close_all(backends: Sequence[Backend], deadline_s: float = EXIT_S) -> int:
    """Close several backends within one deadline; returns how many records did not make it, over all."""
    until = time.monotonic() + deadline_s
    for backend in backends:
        backend.stop()
    return sum(backend.close(until - time.monotonic()) for backend in backends)
