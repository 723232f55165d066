"""Where a run file may stand: a free name, a whole folder, and one writer at a time.

    path, fd = claim(checked("out/training.json"))     # out/training-2.json where that is taken

Paths are absolute from the start, so that a program that changes its folder changes nothing here.
"""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from ..errors import BadValue, RunFileError
from .repair import TAIL

OPEN = os.O_RDWR | os.O_CLOEXEC
ADVICE = "choose another log_file"


def absolute(path: str | os.PathLike[str]) -> Path:
    """`path` with `~` and the working folder of this moment filled in."""
    try:
        given = Path(path).expanduser()
        if not given.is_absolute() and not os.path.exists(os.getcwd()):
            return given  # this user may not walk there from the root
        return Path(os.path.abspath(given))
    except (RuntimeError, OSError) as error:
        raise BadValue(f"{path}: {error}; {ADVICE}") from error


def shown(path: Path) -> str:
    """A path as a person wrote it: relative where it lies below the working folder."""
    with suppress(OSError, ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def checked(path: str | os.PathLike[str]) -> Path:
    """`path` as an absolute one whose folder exists; raises where no file can be made."""
    file = absolute(path)
    what = f"the folder {shown(file.parent)}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        what = shown(file)
        is_folder = file.is_dir()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise RunFileError(f"cannot make {what}: {why}; {ADVICE}") from error
    if is_folder:
        raise BadValue(f"{path} is a folder; give the name of a file in it, as {Path(path) / 'training.json'}")
    return file


def claim(wanted: Path) -> tuple[Path, int]:
    """Make the first free one of `training.json`, `training-2.json`, … as an empty array."""
    for number in range(1, 1_000_000):
        path = wanted if number == 1 else wanted.with_stem(f"{wanted.stem}-{number}")
        try:
            fd = above_stdio(os.open(path, OPEN | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFileError(f"cannot make {shown(path)}: {error.strerror}; {ADVICE}") from error
        try:
            lock(path, fd)
            if os.pwrite(fd, b"[" + TAIL, 0) != len(TAIL) + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.close(fd)
            path.unlink()
            raise RunFileError(f"cannot write {shown(path)}: {error.strerror}; {ADVICE}") from error
        return path, fd
    raise RunFileError(f"no free name beside {shown(wanted)}: clean up the folder, or {ADVICE}")


def above_stdio(fd: int) -> int:
    """A descriptor that is not 0, 1 or 2: where those were closed, a library's own output would go into the file."""
    if fd > 2:
        return fd
    higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return higher


def lock(path: Path, fd: int) -> None:
    """Hold the file for this writer, where the file system knows locks; two would tear it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunFileError(
            f"{shown(path)} is being written by another process, or by a run of this one that is open: end that one "
            "with close(), or leave resume=True away to start a new file"
        ) from error
    except OSError:
        return  # a file system without locks


def copy(source: int, target: int, begin: int, end: int) -> int:
    """Copy a part of a file; returns where it ended."""
    while begin < end:
        data = os.pread(source, min(end - begin, 1 << 20), begin)
        if not data:
            raise OSError(errno.EIO, "the removed file ends early")
        begin += os.pwrite(target, data, begin)
    return begin
