"""Where a record goes: into the run file first, then to the callback, the console and the backends.

    route = Route(settings({"log_file": "out/training.json"}))
    route.emit(Step(time=utc_now(), step=1, loss=2.3))
    route.close(End(time=utc_now(), status="finished"))

One lock keeps the order the same for everybody. What goes wrong outside the training is said once, counted,
written as an `event`, and never raised (`strict=True` raises it, for tests).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from glob import escape as escape_glob
from pathlib import Path
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, TextIO

from . import ending
from .clock import utc_now
from .codec import encode, escape
from .config import Settings
from .errors import RunFileError, StepscopeError
from .header import header, launch_id, ranks
from .plain import plain
from .records import End, Event, Header, Record
from .sinks.background import close_all
from .sinks.console import SILENT, Console
from .sinks.history import History, history
from .sinks.jsonfile import JsonFile
from .sinks.late import LateFile
from .sinks.place import absolute, shown
from .sinks.sink import Backend, Sink

if TYPE_CHECKING:
    from .sinks.backends import Opener

LOCK_DEADLINE_S = 2.0
EXIT_DEADLINE_S = 3.5


def beside(path: Path, rank: int, world_size: int) -> Path:
    """The file of a rank: beside the one that rank 0 of this launch took, which may be `training-2.json`."""
    mark = f'"id":"{launch_id(world_size)}"'.encode()
    for zero in sorted(path.parent.glob(f"{escape_glob(path.stem)}*{path.suffix}"), reverse=True):
        with suppress(OSError), zero.open("rb") as file:
            if ".rank" not in zero.name and mark in file.read(1024):
                path = zero
                break
    return path.with_stem(f"{path.stem}.rank{rank}")


class Route:
    """The way of a record, and what stands along it."""

    def __init__(
        self,
        settings: Settings,
        config: Any = None,
        callback: Callable[[str], Any] | None = None,
        sinks: Iterable[Sink] = (),
        stream: TextIO | None = None,
    ):
        self.settings, self._stream = settings, stream
        self.step = 0  # the newest step, for what is said between records
        self.header: Header | None = None
        self.rank, self.world_size = ranks(settings)
        self.file: JsonFile | LateFile | None = None
        self._zero = absolute(settings.log_file or Path(settings.output_dir) / "training.json")  # rank 0's file
        self._config = plain(config)
        escape(self._config)  # raises before there is a file
        self._callback = callback
        self._sinks: list[Sink] = []
        self._more = list(sinks)
        self._backends: list[Backend] = []
        self.console: Console | None = None
        self._troubles: dict[str, int] = {}
        self._lock = RLock()
        self._owner = 0  # the thread that is writing a record now
        self._open = True
        self._told = False  # whether anybody is told of a record, beside the file
        self._closing = False
        self.past = History(None, None, 0, None, False)
        if self.rank == 0 or (settings.resume and self.wanted.exists()):
            self._start()

    @property
    def wanted(self) -> Path:
        """Where the run file belongs; each rank has its own."""
        return self._zero if self.rank == 0 else beside(self._zero, self.rank, self.world_size)

    def _start(self) -> None:
        """Open the file and write the header; a rank above 0 does so when it has something to say."""
        openers = self._openers()
        resume = self.settings.resume and self.wanted.exists()
        self.file = self._open_file(JsonFile.resume if resume else JsonFile.create)
        if resume:
            self.past = history(self.file.path)
        run = self.past
        if self.settings.resume and self.rank and run.id is None and self._zero.exists():
            run = history(self._zero)  # a rank that speaks for the first time belongs to the run all the same
        self.header = header(self.settings, self._config, run.id, run.name, self.past.attempts + 1)
        if self.rank == 0:
            self._start_console(self.file.path, resume)
        self._sinks += self._more
        for name, opened in openers.items():
            self._backends.append(opened(self.header, self.trouble, partial(self._ready, name)))
        self._told = bool(self._callback or self._sinks or self._backends)
        self.emit(self.header)

    def _openers(self) -> dict[str, "Opener"]:
        """What opens each backend; raises, before there is a file, where one cannot be had."""
        if self.rank or not self.settings.report_to:
            return {}
        from .sinks.backends import connect

        return {name: connect(name, self.settings) for name in self.settings.report_to}

    def _ready(self, name: str, address: str | None) -> None:
        """A backend says where it can be seen."""
        if self.console is not None and address:
            with self._lock:
                self.console.note(f"{name}: {address}")

    def _open_file(self, make: Callable[..., JsonFile]) -> JsonFile | LateFile:
        if self.settings.background:
            return LateFile(make(self.wanted, self.trouble), self.trouble)
        return make(self.wanted, self.trouble, lock=self._lock)

    def _start_console(self, path: Path, resumed: bool) -> None:
        if self.settings.verbosity > SILENT:
            self.console = Console(self.settings.verbosity, self._stream)
            self.console.opened(path, self.wanted, resumed)
            self._sinks.append(self.console)

    def emit(self, record: Record) -> None:
        """Take one record everywhere. Raises where the record itself is wrong, before anything is written."""
        with self._lock:
            nested, self._owner = self._owner, get_ident()
            try:
                if self._open and (self.file is not None or self._start_late()):
                    line = encode(record)
                    self.file.put(line)  # type: ignore[union-attr]
                    if self._told:
                        self._tell(record, line)
            finally:
                self._owner = nested
        if ending.deferred and not nested:
            ending.settle()

    def _start_late(self) -> bool:
        """Open the file of a rank above 0, in the middle of training, which goes on without it."""
        try:
            self._start()
        except RunFileError as error:
            self._open = False
            self.trouble("run-file-refused", f"rank {self.rank} has no run file: {error}")
        return self._open

    def _tell(self, record: Record, line: bytes) -> None:
        """Tell everybody but the file."""
        if self._callback is not None:
            self._guarded(self._callback, line.decode(), "callback", "the callback")
        for sink in self._sinks:
            self._guarded(sink.write, record, type(sink).__name__.lower(), f"the {type(sink).__name__} sink")
        for backend in self._backends:
            backend.write(record)

    def _guarded(self, call: Callable[[Any], Any], argument: Any, rule: str, who: str) -> None:
        try:
            call(argument)
        except Exception as error:
            if self.settings.strict:
                raise
            self.trouble(f"{rule}-raised", f"{who} raised {ending.describe(error)}; training goes on", "mend it")

    def trouble(self, rule: str, message: str, advice: str = "") -> None:
        """Something outside the training went wrong: say it once, count it, write it down."""
        self._troubles[rule] = self._troubles.get(rule, 0) + 1
        if self.settings.strict and self._owner == get_ident():
            raise StepscopeError(f"{message}; {advice}")
        if self._troubles[rule] == 1:
            event = self._event(rule, message, advice)
            self.emit(event) if self._open else self._print(event)

    def _print(self, event: Event) -> None:
        """For what can stand in no file."""
        if self.settings.verbosity > SILENT:
            (self.console or Console(self.settings.verbosity, self._stream, waits=False)).write(event)

    def _event(self, rule: str, message: str, advice: str = "", severity: str = "warning") -> Event:
        return Event(
            time=utc_now(), step=self.step, severity=severity, rule=rule, message=message, advice=advice or None
        )

    def progress(self, label: str, done: int | None, total: int | None) -> None:
        """Tell the terminal what a long phase is at."""
        if self.console is not None:
            self.console.progress(label, done, total)

    def busy(self) -> bool:
        """Whether the calling thread is in the middle of a record."""
        return self._owner == get_ident()

    def close(self, end: End) -> bool:
        """Drain the backends within their deadline, write the end, and close the file; whether that was done."""
        if self._closing:
            return False  # another thread is at it
        if not self._lock.acquire(timeout=LOCK_DEADLINE_S):
            self._print(self._event("close", "the run cannot be closed: a thread hangs in a write or a callback"))
            return False
        self._closing = True
        self._lock.release()
        try:
            for backend in self._backends:
                backend.write(end)
            close_all(self._backends, EXIT_DEADLINE_S)
        finally:
            self._backends = []
            self._finish(end)
        return True

    def _finish(self, end: End) -> None:
        for rule, count in list(self._troubles.items()):
            if count > 1:
                self.emit(self._event(rule, f"{rule} happened {count} times", severity="info"))
        try:
            if self.file is not None:
                if lost := self.file.settle():
                    self.trouble("run-file-lost", f"{lost} records could not be written to {shown(self.file.path)}")
                self.emit(end)
        finally:
            self._open = False
            if self.file is not None:
                self.file.close()
            for sink in self._sinks or self._more:
                self._guarded(type(sink).close, sink, "close", f"closing {type(sink).__name__}")

    def forked(self) -> None:
        """In a forked child: let go of everything without a write."""
        self._lock, self._owner, self._open = RLock(), 0, False
        self._sinks, self._backends = [], []
        if self.file is not None:
            self.file.abandon()
