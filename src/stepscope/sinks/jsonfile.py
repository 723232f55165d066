"""The run file: a JSON array that is whole after every record, written from the caller's thread.

    file = JsonFile.create("out/training.json")       # takes out/training-2.json where that is taken
    file.write(Step(step=1, loss=2.3))                # one positioned write; in the kernel when it returns
    file.close()

The file always ends in "\\n]\\n", and an append is one `pwrite` that starts on that tail. What a `write` has
returned from survives the death of the process. When the disk refuses (full, quota, I/O error), the tail is put
back, the lines are held in memory and tried again once a second; the caller never sees it. A thread of its own
flushes to the device every few seconds, and puts the file back when somebody removed it.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from ..codec import encode
from ..errors import RunFileError
from ..records import Record
from .place import OPEN, above_stdio, checked, claim, copy, lock, shown
from .repair import TAIL, repair

HELD_BYTES = 8 << 20  # lines kept in memory while the disk refuses them
SLOW_S = 0.5

# (rule, message, advice): how a sink says that something outside the training went wrong
Trouble = Callable[[str, str, str], None]


class JsonFile:
    """A run file that is open for appending."""

    def __init__(
        self, path: Path, fd: int, on_trouble: Trouble | None = None, lock: Any = None, sync_every: float = 5.0
    ):
        self.path = path
        self.lost = 0  # records that neither the disk nor the memory took
        self.lock = lock or threading.RLock()
        self._fd = fd
        self._tail = os.fstat(fd).st_size - len(TAIL)
        self._join = b"\n" if self._tail == 1 else b",\n"
        self._held: deque[bytes] = deque()  # what the disk refused
        self._held_bytes = 0
        self._tried = 0.0
        self._behind: deque[bytes] = deque()  # what a signal's handler logged in the middle of a write
        self._on_trouble = on_trouble or (lambda rule, message, advice: None)
        self._writing = self._dirty = self._closed = False
        self._sync_every = sync_every
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], on_trouble: Trouble | None = None, **options: Any) -> "JsonFile":
        """A new file at `path`, or at the next free name beside it; an existing file is never touched."""
        return cls(*claim(checked(path)), on_trouble, **options)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], on_trouble: Trouble | None = None, **options: Any) -> "JsonFile":
        """The file at `path`, its torn tail repaired, open for appending; a new one where there is none."""
        file = checked(path)
        if not file.exists():
            return cls.create(file, on_trouble, **options)
        try:
            fd = above_stdio(os.open(file, OPEN))
        except OSError as error:
            raise RunFileError(f"cannot open {shown(file)} to resume: {error.strerror}") from error
        try:
            lock(file, fd)
            repair(file)
        except BaseException:
            os.close(fd)
            raise
        return cls(file, fd, on_trouble, **options)

    def write(self, record: Record) -> None:
        """Append a record."""
        self.append(encode(record))

    def append(self, line: bytes) -> None:
        """Append one line of JSON; when it returns, the kernel has it, or the disk's refusal was said."""
        with self.lock:
            self.put(line)

    def put(self, line: bytes) -> None:
        """`append` for a caller that holds `lock`, which spares it a second one."""
        if self._closed:
            return
        if self._writing:  # a signal's handler logs, in the middle of a write of this very thread
            self._behind.append(line)
            return
        begin = perf_counter()
        self._writing = True
        try:
            is_usual = self._dirty and not self._held
            refusal = self._pwrite(line) if is_usual else self._rarely(line, begin)
        finally:
            self._writing = False
        if refusal:
            self._tried = begin
            self._keep(line)
            self._on_trouble(
                "run-file-refused",
                f"the run file cannot be written ({refusal}): {shown(self.path)}; training goes on",
                "free space or quota; up to 8 MiB of records wait in memory and are written when there is room",
            )
        elif perf_counter() - begin > SLOW_S:
            self._on_trouble(
                "run-file-slow",
                f"a write to the run file took {perf_counter() - begin:.1f} s: {shown(self.path)}",
                "put log_file on a local disk, or use background=True",
            )
        while self._behind:
            self.put(self._behind.popleft())

    def _rarely(self, line: bytes, now: float) -> str | None:
        """The first line since a flush, a line behind others that wait, a line after the end."""
        self._dirty = True
        if self._keeper is None:
            self._keeper = started(self._keep_safe, "stepscope-fsync")
        if self._held and now - self._tried < 1:  # a disk that refuses is asked once a second
            self._keep(line)
            return None
        return self._release() or self._pwrite(line)

    def _pwrite(self, line: bytes) -> str | None:
        """One positioned write over the tail; what refused it, after the tail has been put back."""
        data = self._join + line + TAIL
        try:
            if os.pwrite(self._fd, data, self._tail) == len(data):
                self._tail += len(data) - 3  # the length of the tail
                self._join = b",\n"
                return None
            refusal = "no space left"
        except OSError as error:
            if error.errno is None:  # not the system's: a signal's handler raised it
                self._put_tail()
                raise
            refusal = error.strerror or str(error)
        except BaseException:  # Ctrl-C between the write and the new tail
            self._put_tail()
            raise
        self._put_tail()
        return refusal

    def _put_tail(self) -> None:
        """End the file behind the last whole record again."""
        with suppress(OSError):  # else the reader copes with the torn end
            os.pwrite(self._fd, TAIL, self._tail)
            os.ftruncate(self._fd, self._tail + len(TAIL))

    def _keep(self, line: bytes) -> None:
        if self._held_bytes + len(line) > HELD_BYTES:
            self.lost += 1
            return
        self._held.append(line)
        self._held_bytes += len(line)

    def _release(self) -> str | None:
        while self._held:
            refusal = self._pwrite(self._held[0])
            if refusal:
                return refusal
            self._held_bytes -= len(self._held.popleft())
        return None

    def settle(self) -> int:
        """Try once more what the disk has refused; how many records it does not have."""
        with self.lock:
            self._release()
            return self.lost + len(self._held)

    def _keep_safe(self) -> None:
        """Flush to the device every few seconds, off the caller's thread, and look whether the file is there."""
        while not self._stop.wait(self._sync_every):
            self._tend()
        self._tend()

    def _tend(self) -> None:
        with self.lock:
            dirty, self._dirty, fd, tail = self._dirty, False, self._fd, self._tail
        try:
            if dirty:
                os.fsync(fd)
            state = os.fstat(fd)
        except OSError as error:
            what = f"the run file cannot be flushed ({error.strerror}): {shown(self.path)}"
            self._on_trouble("run-file-sync", what, "check the disk")
            return
        if state.st_nlink == 0:
            self._put_back()
        elif state.st_size < tail:
            what = f"somebody cut the run file off: {shown(self.path)}; what stood before this is gone"
            self._on_trouble("run-file-cut", what, "do not write to the file of a live run")

    def _put_back(self) -> None:
        """Write a removed file again, from the descriptor that still holds all of it."""
        try:
            path, fd = claim(self.path)
            try:
                done = copy(self._fd, fd, 0, self._tail)
                with self.lock:
                    copy(self._fd, fd, done, self._tail + len(TAIL))
                    old, self._fd, self.path = self._fd, fd, path
            except OSError:
                os.close(fd)
                path.unlink()
                raise
        except OSError as error:
            what = f"the run file was removed, and cannot be written again: {error}"
            self._on_trouble("run-file-removed", what, "do not delete a live run")
            return
        os.close(old)
        self._on_trouble("run-file-restored", f"the run file was removed; it was written again: {shown(path)}", "")

    def close(self, deadline: float = 3.0) -> None:
        """Write what waits, flush to the device within the deadline, and close."""
        with self.lock:
            if self._closed:
                return
            self.lost = self.settle()
            self._closed = True
        self._stop.set()
        if self._keeper is not None:
            self._keeper.join(deadline)
            if self._keeper.is_alive():  # the device hangs: the descriptor stays with its thread
                return
        os.close(self._fd)

    def abandon(self) -> None:
        """Forget the file without a write: what a forked child does."""
        self.lock = threading.RLock()
        if not self._closed:
            self._closed = True
            os.close(self._fd)


def started(work: Callable[[], None], name: str) -> threading.Thread | None:
    """A thread at work; None where there can be none any more, as at the end of the interpreter."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
