"""Find the run files in a folder, and the files of a run's other ranks.

    find_runs("output")                             # [Path('output/training-2.json'), Path('output/training.json')]
    rank_files(Path("output/training.json"))        # {1: Path('output/training.rank1.json')}

Only the beginning of a file is read. The run that began last is the newest; where two began at once, or do not say
when, the file that changed last.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from .blocks import FIRST

DEPTH = 8
FOLDERS = 20_000
HEAD = 1024
_RANK = re.compile(r"\.rank(\d+)$")
_TIME = re.compile(rb'"time"\s*:\s*"([^"]+)"')


def find_runs(folder: str | os.PathLike[str]) -> list[Path]:
    """The runs under a folder, the one that began last first; of each run the file of rank 0."""
    found = [(began, path) for path in _json_files(Path(folder)) if (began := _began(path)) is not None]
    return [path for _, path in sorted(found, reverse=True)]


def rank_files(path: Path) -> dict[int, Path]:
    """The files of the other ranks beside that of rank 0, by rank."""
    beside = re.compile(re.escape(path.stem) + r"\.rank(\d+)" + re.escape(path.suffix))
    with suppress(OSError):
        matches = [match for name in os.listdir(path.parent) if (match := beside.fullmatch(name))]
        return dict(sorted((int(match[1]), path.with_name(match[0])) for match in matches))
    return {}


def _json_files(folder: Path) -> Iterator[Path]:
    depth = len(folder.parts) + DEPTH
    for seen, (name, folders, files) in enumerate(os.walk(folder)):
        here = Path(name)
        at_end = seen >= FOLDERS or len(here.parts) >= depth
        folders[:] = [] if at_end else sorted(f for f in folders if not f.startswith("."))
        yield from (here / file for file in files if file.endswith(".json") and not _RANK.search(file[:-5]))


def _began(path: Path) -> tuple[float, float, str] | None:
    """When the run in a file began, and when it last changed; None if it is no run file."""
    with suppress(OSError), path.open("rb") as file:
        head = file.read(HEAD)
        if FIRST.match(head):
            changed = os.fstat(file.fileno()).st_mtime
            return _seconds(head) or changed, changed, path.name
    return None


def _seconds(head: bytes) -> float | None:
    """The time of the first record as seconds since 1970."""
    match = _TIME.search(head)
    with suppress(ValueError):
        return datetime.fromisoformat(match[1].decode()).replace(tzinfo=UTC).timestamp() if match else None
    return None
