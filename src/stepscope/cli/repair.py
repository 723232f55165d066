"""`stepscope repair`: make a torn run file whole again."""

import fcntl
import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import RunFileError
from ..readers.alive import writer_alive
from ..readers.run_file import read_run
from ..sinks.repair import TAIL, Repair
from ..sinks.repair import repair as repair_file
from .files import Json, RunFile, locate
from .screen import print_json, put
from .verify import first_fault

FRESH_S = 10.0


def repair(
    file: RunFile,
    force: Annotated[bool, typer.Option("--force", help="Even when somebody may be writing the file.")] = False,
    as_json: Json = False,
) -> None:
    """Make a torn run file whole again; nothing is thrown away.

    What must be cut is kept in a file beside it. A run that resumes repairs its file by itself, and all readers cope
    with a torn one: this is for programs that know JSON alone. A file that a process is writing is refused, because
    the repair would tear it.

    Exit code: 0 the file is whole, 1 it is not plain JSON yet, because a line before the end is broken; 2 refused.

    \b
    Example:
      stepscope repair output/training.json
    """
    path = locate(file)
    if not force and not _ends_whole(path):
        _refuse_while_written(path)
    done = repair_file(path)
    fault = first_fault(path)
    if as_json:
        kept = str(done.kept_in) if done.kept_in else None
        print_json(
            {"path": str(path), "repaired": done.changed, "cut_bytes": done.cut, "kept_in": kept, "problem": fault}
        )
    else:
        put(_said(path, done))
        if fault:
            put(
                f"line {fault.line}, byte {fault.offset} is broken and was left as it is: all before and after it reads"
            )
    raise typer.Exit(1 if fault else 0)


def _said(path: Path, done: Repair) -> str:
    if not done.changed:
        return f"{path} ends as it should: nothing to do"
    if not done.kept_in:
        return f"{path} ends as it should again: its last bytes were missing, no record was lost"
    cut = f"{done.cut} bytes of a torn record were cut, and are kept in {done.kept_in}"
    return f"{path} ends as it should again: {cut}"


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(TAIL)))
        return file.read() == TAIL


def _refuse_while_written(path: Path) -> None:
    """Raise when a process holds the file, or when one on another machine may."""
    if _is_locked(path):
        raise RunFileError(f"{path} is being written: wait for the run to end, or use --force if you know better")
    run = read_run(path)
    changed = time.time() - path.stat().st_mtime
    if run.end is None and changed < FRESH_S and writer_alive(run.header, changed, None):
        raise RunFileError(
            f"{path} changed {changed:.0f} s ago and has no end: somebody may be writing it; wait, or use --force"
        )


def _is_locked(path: Path) -> bool:
    """Whether a process holds the writer's lock; a file system without locks cannot tell."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False
