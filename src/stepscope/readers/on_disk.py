"""A file's bytes, read from the disk where they are looked at.

    data = open_bytes(Path("output/training.json"))
    len(data), data[0:100]

It shows the file as it was when it was opened: what is appended later is not seen, and the file may be moved,
replaced or removed. A small file is simply read, so that a thousand runs do not hold a thousand files open.
"""

import os
import weakref
from pathlib import Path

from ..errors import RunFileError

SMALL = 1 << 20
TAIL = 1 << 16


class OnDisk:
    """The bytes of a large file. An append rewrites the last bytes of what was there, so these are kept."""

    def __init__(self, path: Path):
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        self._size = os.fstat(self._fd).st_size
        self._tail_at = max(0, self._size - TAIL)
        self._tail = os.pread(self._fd, self._size - self._tail_at, self._tail_at)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        if start >= self._tail_at:
            return self._tail[start - self._tail_at : max(stop - self._tail_at, 0)]
        end = min(stop, self._tail_at)
        found = os.pread(self._fd, max(end - start, 0), start)
        if len(found) < end - start:
            raise RunFileError(f"{self._path} became shorter while it was read: read it again")
        return found + self._tail[: stop - end] if stop > end else found


Bytes = bytes | OnDisk


def open_bytes(path: Path) -> Bytes:
    """The bytes of a file."""
    return path.read_bytes() if path.stat().st_size <= SMALL else OnDisk(path)
