"""The run file: a JSON array that is whole after every record, written from the caller's thread.

    file = JsonFile.create("out/training.json")       # takes out/training-2.json where that is taken
    file.write(Step(step=1, loss=2.3))                # one positioned write; in the kernel when it returns
    file.close()

The file always ends in "\\n]\\n", and an append is one `pwrite` that starts on that tail. What a `write` has
returned from survives the death of the process. When the disk refuses (full, quota, I/O error), the tail is put
back, the lines are held in memory and tried again once a second; the caller never sees it. A thread of its own
flushes to the device every few seconds, and puts the file back when somebody removed it.
"""

import errno
import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from ..codec import encode
from ..errors import BadValue, RunFileError
from ..records import Record
from .repair import TAIL, repair

OPEN = os.O_RDWR | os.O_CLOEXEC
HELD_BYTES = 8 << 20  # lines kept in memory while the disk refuses them
SLOW_S = 0.5

# (rule, message, advice): how a sink says that something outside the training went wrong
Trouble = Callable[[str, str, str], None]


class JsonFile:
    """A run file that is open for appending."""

    def __init__(
        self,
        path: Path,
        fd: int,
        on_trouble: Trouble | None = None,
        lock: Any = None,
        sync_every: float = 5.0,
    ):
        self.path = path
        self.lost = 0  # records that neither the disk nor the memory took
        self._fd = fd
        self._tail = os.fstat(fd).st_size - len(TAIL)
        self._join = b"\n" if self._tail == 1 else b",\n"
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._tried = 0.0
        self._on_trouble = on_trouble or (lambda rule, message, advice: None)
        self.lock = lock or threading.RLock()
        self._dirty = self._closed = False
        self._sync_every = sync_every
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], on_trouble: Trouble | None = None, **options: Any) -> "JsonFile":
        """A new file at `path`, or at the next free name beside it; an existing file is never touched."""
        wanted = checked(path)
        file, fd = _claim(wanted)
        return cls(file, fd, on_trouble, **options)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], on_trouble: Trouble | None = None, **options: Any) -> "JsonFile":
        """The file at `path`, its torn tail repaired, open for appending; a new one where there is none."""
        file = checked(path)
        if not file.exists():
            return cls.create(file, on_trouble, **options)
        try:
            fd = os.open(file, OPEN)
        except OSError as error:
            raise RunFileError(f"cannot open {file} to resume: {error.strerror}") from error
        try:
            _lock(file, fd)
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
        begin = perf_counter()
        is_usual = self._dirty and not self._held
        refusal = self._pwrite(line) if is_usual else self._rarely(line, begin)
        if refusal:
            self._refused(line, refusal, begin)
        elif perf_counter() - begin > SLOW_S:
            self._on_trouble(
                "run-file-slow",
                f"a write to the run file took {perf_counter() - begin:.1f} s: {self.path}",
                "put log_file on a local disk, or use background=True",
            )

    def _rarely(self, line: bytes, now: float) -> str | None:
        """The first line since a flush, a line behind others that wait, a line after the end."""
        if self._closed:
            return None
        self._dirty = True
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep_safe, name="stepscope-fsync", daemon=True)
            self._keeper.start()
        return self._queue(line, now) if self._held else self._pwrite(line)

    def _refused(self, line: bytes, refusal: str, now: float) -> None:
        if not self._held:
            self._tried = now
            self._keep(line)
        self._on_trouble(
            "run-file-refused",
            f"the run file cannot be written ({refusal}): {self.path}; training goes on",
            "free space or quota; up to 8 MiB of records wait in memory and are written when there is room",
        )

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

    def _queue(self, line: bytes, now: float) -> str | None:
        """Queue a line behind those that wait, and try them all again once a second."""
        self._keep(line)
        if now - self._tried < 1:
            return None
        self._tried = now
        return self._release()

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

    def _keep_safe(self) -> None:
        """Flush to the device every few seconds, off the caller's thread, and look whether the file is there."""
        while not self._stop.wait(self._sync_every):
            self._tend()
        self._tend()

    def _tend(self) -> None:
        with self.lock:
            dirty, self._dirty, fd = self._dirty, False, self._fd
        try:
            if dirty:
                os.fsync(fd)
        except OSError as error:
            self._on_trouble(
                "run-file-sync", f"the run file cannot be flushed ({error.strerror}): {self.path}", "check the disk"
            )
        if os.fstat(fd).st_nlink == 0:
            self._put_back()

    def _put_back(self) -> None:
        """Write a removed file again, from the descriptor that still holds all of it."""
        try:
            path, fd = _claim(self.path)
        except RunFileError as error:
            self._on_trouble(
                "run-file-removed", f"the run file was removed: {error}", "do not delete the folder of a live run"
            )
            return
        done = _copy(self._fd, fd, 0, self._tail)
        with self.lock:
            _copy(self._fd, fd, done, self._tail + len(TAIL))
            old, self._fd, self.path = self._fd, fd, path
        os.close(old)
        self._on_trouble("run-file-restored", f"the run file was removed; all of it was written again: {path}", "")

    def close(self, deadline: float = 3.0) -> None:
        """Write what waits, flush to the device within the deadline, and close."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self._release()
            self.lost += len(self._held)
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


def checked(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path whose folder exists; raises where no file can be made."""
    file = Path(path).expanduser()
    if file.is_dir():
        raise BadValue(f"{file} is a folder; give the name of a file in it, as {file / 'training.json'}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFileError(
            f"cannot make the folder {file.parent}: {error.strerror}; choose another log_file"
        ) from error
    return file


def _claim(wanted: Path) -> tuple[Path, int]:
    """Make the first free one of `training.json`, `training-2.json`, … as an empty array."""
    for number in range(1, 1_000_000):
        path = wanted if number == 1 else wanted.with_stem(f"{wanted.stem}-{number}")
        try:
            fd = os.open(path, OPEN | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFileError(f"cannot make {path}: {error.strerror}; choose another log_file") from error
        try:
            _lock(path, fd)
            if os.pwrite(fd, b"[" + TAIL, 0) != len(TAIL) + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.close(fd)
            path.unlink()
            raise RunFileError(f"cannot write {path}: {error.strerror}; choose another log_file") from error
        return path, fd
    raise RunFileError(f"no free name beside {wanted}: clean up the folder or choose another log_file")


def _lock(path: Path, fd: int) -> None:
    """Hold the file for this process, where the file system knows locks; two writers would tear it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunFileError(
            f"{path} is being written by another process: end that one, or leave resume=True away to start a new file"
        ) from error
    except OSError:
        return  # a file system without locks


def _copy(source: int, target: int, begin: int, end: int) -> int:
    while begin < end:
        begin += os.pwrite(target, os.pread(source, min(end - begin, 1 << 20), begin), begin)
    return begin
