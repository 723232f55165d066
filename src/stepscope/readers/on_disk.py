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


def read_at(fd: int, start: int, stop: int) -> bytes:
    """The bytes between two places; fewer where the file ends before.

    An append rewrites the last three bytes. Who reads on to a moving end can so get old bytes followed by new ones
    that belong elsewhere: a live file is read up to the size that it had at first, and no further.
    """
    parts = []
    while start < stop and (part := os.pread(fd, stop - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts) if len(parts) != 1 else parts[0]


class OnDisk:
    """The bytes of a large file; the last ones are kept, as an append rewrites them."""

    def __init__(self, path: Path, fd: int, size: int):
        weakref.finalize(self, os.close, fd)
        self._path, self._fd, self._size = path, fd, size
        self._tail_at = max(0, size - TAIL)
        self._tail = read_at(fd, self._tail_at, size)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        if start >= self._tail_at:
            return self._tail[start - self._tail_at : max(stop - self._tail_at, 0)]
        end = min(stop, self._tail_at)
        found = read_at(self._fd, start, end)
        if len(found) < end - start:
            raise RunFileError(f"{self._path} became shorter while it was read: read it again")
        return found + self._tail[: stop - end] if stop > end else found


Bytes = bytes | OnDisk


def open_bytes(path: Path) -> Bytes:
    """The bytes of a file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    size = os.fstat(fd).st_size
    if size > SMALL:
        return OnDisk(path, fd, size)
    try:
        return read_at(fd, 0, size)
    finally:
        os.close(fd)
