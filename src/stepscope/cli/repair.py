"""`stepscope repair`: make a torn run file whole again."""

import fcntl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ..errors import RunFileError
from ..readers.alive import writer_alive
from ..readers.run_file import read_run
from ..sinks.repair import repair as repair_file
from .files import Json, RunFile, locate
from .screen import print_json, put

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

    Exit code: 0, whether there was anything to do or not; 2 when it was refused.

    \b
    Example:
      stepscope repair output/training.json
    """
    path = locate(file)
    if not force:
        _refuse_while_written(path)
    done = repair_file(path)
    if as_json:
        kept = str(done.kept_in) if done.kept_in else None
        print_json({"path": str(path), "repaired": done.changed, "cut_bytes": done.cut, "kept_in": kept})
    elif not done.changed:
        put(f"{path} is whole: nothing to do")
    elif done.kept_in:
        put(f"{path} is whole again: {done.cut} bytes of a torn record were cut, and are kept in {done.kept_in}")
    else:
        put(f"{path} is whole again: its end was missing, no record was lost")


def _refuse_while_written(path: Path) -> None:
    """Raise when a process holds the file, or when one on another machine may."""
    if _is_locked(path):
        raise RunFileError(f"{path} is being written: wait for the run to end, or use --force if you know better")
    run = read_run(path)
    changed = time.time() - path.stat().st_mtime
    if run.end is None and changed < FRESH_S and writer_alive(run.header, changed, None, datetime.now(UTC)):
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
