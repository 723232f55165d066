"""`stepscope tail`: the console lines of a run, live."""

import json
import sys
import time
from collections import deque
from pathlib import Path
from typing import Annotated, Protocol, TextIO, cast

import typer

from ..codec import encode
from ..readers.alive import writer_alive
from ..readers.follow import Follower
from ..readers.run_file import read_run
from ..records import End, Header, Other, Record
from ..sinks.console import Console
from .files import HERE, RunFile, locate
from .screen import say

POLL_S = 0.2
HISTORY = 4 << 20  # bytes: some 20,000 steps
LINE = 4 << 10


class Sink(Protocol):
    """What takes the records."""

    def write(self, record: Record | Other) -> None:
        """Take one."""

    def close(self) -> None:
        """Leave nothing behind."""


class LastLines:
    """A stream that holds back all but the last lines until it is opened; then it passes everything on."""

    def __init__(self, keep: int):
        self.broken = False
        self._held: deque[str] | None = deque(maxlen=keep)
        self._begun = ""

    def write(self, text: str) -> int:
        """Take text as a file does."""
        if self._held is None:
            self._pass_on(text)
        else:
            *lines, self._begun = (self._begun + text).split("\n")
            self._held.extend(line + "\n" for line in lines)
        return len(text)

    def _pass_on(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            self.broken = True  # the console swallows it, for training must not stop on it; a reader must
            raise

    def flush(self) -> None:
        """Nothing waits: what is passed on is flushed at once."""

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return sys.stdout.isatty()

    def open(self) -> None:
        """Print the lines that were kept, and hold back no more."""
        held, self._held = self._held or (), None
        self._pass_on("".join(held) + self._begun)


class JsonLines:
    """Each record as a line of JSON."""

    def __init__(self, stream: LastLines):
        self._stream = stream

    def write(self, record: Record | Other) -> None:
        """Write its line."""
        line = json.dumps(record.data) if isinstance(record, Other) else encode(record).decode()
        self._stream.write(line + "\n")

    def close(self) -> None:
        """There is nothing to leave."""


class Watch:
    """How the run stands, from the records that went by."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.end: End | None = None

    def see(self, record: Record | Other) -> None:
        """Take a record into account."""
        if isinstance(record, Header):
            self.header, self.end = record, None
        elif isinstance(record, End):
            self.end = record

    @property
    def cut_off(self) -> bool:
        """Whether the writer is known to be gone; of another machine's nothing is known."""
        return self.header is not None and writer_alive(self.header, 0.0, None) is False


def tail(
    file: RunFile = HERE,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="Begin with the last so many lines.")] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Go on until the run ends.")] = True,
    verbosity: Annotated[int, typer.Option("-v", "--verbosity", min=-1, max=1, help="-1, 0 or 1.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print each record as a line of JSON.")] = False,
) -> None:
    """Print a run's console lines, live.

    They are the lines that the training program prints, until the run ends or you press Ctrl-C.

    With --json the output is JSON Lines: it has no end before the run has.

    Exit code: 0 the run finished, 1 it failed, was stopped or was cut off; 130 after Ctrl-C. With --no-follow 0.

    \b
    Example:
      stepscope tail output/training.json
      stepscope tail output -n 100 --no-follow
      stepscope tail output --json | jq -r 'select(.log == "eval") | .loss'
    """
    path = locate(file)
    stream, watch, follower = LastLines(lines), Watch(), Follower(path, _begin(path, lines))
    sink: Sink = JsonLines(stream) if as_json else Console(verbosity, stream=cast(TextIO, stream))
    try:
        header = read_run(path).header if follower.offset else None
        if header is not None:
            watch.see(header)
            sink.write(header)  # totals stand in it
        _pass_on(follower, sink, watch)
        stream.open()
        code = _follow(path, follower, sink, watch, stream) if follow else 0
    finally:
        sink.close()
    raise typer.Exit(code)


def _begin(path: Path, lines: int) -> int:
    """Where to begin to read: so far before the last lines that averages have settled."""
    try:
        size = path.stat().st_size
    except OSError:  # the follower waits for a file that is gone for a moment
        return 0
    return max(0, size - max(HISTORY, lines * LINE))


def _pass_on(follower: Follower, sink: Sink, watch: Watch) -> None:
    for record in follower.poll():
        watch.see(record)
        sink.write(record)


def _follow(path: Path, follower: Follower, sink: Sink, watch: Watch, stream: LastLines) -> int:
    """Print what comes until the run has ended; the exit code that says how."""
    while True:
        gone = watch.cut_off  # asked before the poll: what the writer wrote last is then read for certain
        _pass_on(follower, sink, watch)
        if stream.broken:
            raise BrokenPipeError
        if watch.end is not None:
            return 0 if watch.end.status == "finished" else 1
        if gone:
            say(f"{path}: the run was cut off: its process is gone and left no word")
            return 1
        time.sleep(POLL_S)
