"""Make a torn run file whole again, and keep what had to be cut.

    repair("out/training.json").cut      # 57: bytes of a half-written record, now in out/training.json.torn

A writer that is killed in the middle of a write leaves at most its last line torn. The repair looks at the end
alone: it goes back to the last whole record, moves what stands behind it into a file beside, and writes the tail.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

from ..codec import parse
from ..errors import RunFileError

TAIL = b"\n]\n"
HEAD = b'[{"log"'


class Repair(NamedTuple):
    """What was done: bytes that were cut, and the file that keeps them."""

    cut: int
    kept_in: Path | None
    changed: bool


def repair(path: str | os.PathLike[str]) -> Repair:
    """Make the file end in a whole record and the tail."""
    path = Path(path)
    try:
        with open(path, "r+b") as file:
            return _repair(path, file.fileno())
    except OSError as error:
        if isinstance(error, RunFileError):
            raise
        raise RunFileError(f"cannot repair {path}: {error.strerror or error}") from error


def _repair(path: Path, fd: int) -> Repair:
    size = os.fstat(fd).st_size
    head = b"".join(os.pread(fd, 4096, 0).removeprefix(b"\xef\xbb\xbf").strip(b"\0").split())[: len(HEAD)]
    if not (HEAD.startswith(head) or head.startswith((HEAD, b"[]"))):
        raise RunFileError(f"{path} is not a run file: it does not begin with '[{{\"log\"'; nothing was changed")
    end = _end_of_last_record(fd, size)
    torn = os.pread(fd, size - end, end) if end else os.pread(fd, size, 0)
    if (end and torn == TAIL) or (not end and torn == b"[" + TAIL):
        return Repair(0, None, False)
    if _is_array(fd, size):
        end, torn = _before_bracket(fd, size), b""
    rest = torn.lstrip(b", \r\n") if torn.strip(b",[]\r\n \t\0") else b""
    kept = _keep(path, rest) if rest else None
    whole = TAIL if end else b"[" + TAIL
    os.pwrite(fd, whole, end)
    os.ftruncate(fd, end + len(whole))
    os.fsync(fd)
    return Repair(len(rest), kept, True)


def _is_array(fd: int, size: int) -> bool:
    """Whether the file is whole already, in the form of another writer."""
    if not os.pread(fd, 4096, max(0, size - 4096)).rstrip().endswith(b"]"):
        return False
    try:
        return isinstance(json.loads(os.pread(fd, size, 0)), list)
    except ValueError:
        return False


def _before_bracket(fd: int, size: int) -> int:
    """Where the last record of a whole array ends."""
    tail = os.pread(fd, 4096, max(0, size - 4096))
    return size - len(tail) + len(tail.rstrip().removesuffix(b"]").rstrip())


def _keep(path: Path, rest: bytes) -> Path:
    kept = path.with_name(path.name + ".torn")
    with open(kept, "ab") as file:
        file.write(rest + b"\n")
    return kept


def _end_of_last_record(fd: int, size: int, block: int = 1 << 16) -> int:
    """Where the last line that is a whole record ends; 0 where there is none."""
    data, begin = b"", size
    while begin > 0:
        step = min(block, begin)
        begin -= step
        data = os.pread(fd, step, begin) + data
        # the first line of `data` may begin before it, unless `data` begins the file
        lines = data.split(b"\n")
        end = begin + len(data)
        for number in range(len(lines) - 1, -1 if begin == 0 else 0, -1):
            line = lines[number]
            if _is_record(line):
                return end - (len(line) - len(line.rstrip(b", \t\r\0")))
            end -= len(line) + 1
        block = len(data)  # a record longer than what was read: twice as much
    return 0


def _is_record(line: bytes) -> bool:
    stripped = line.strip(b", \t\r\0[")
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return False
    try:
        parse(stripped)
    except ValueError:
        return False
    return True
