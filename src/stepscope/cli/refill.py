"""Brings the records of a run file to a backend: all of them, each once, from where the last time stopped.

    refill(Path("output/training.json"), "tensorboard", Where())              # Done(sent=1200, …)
    refill(Path("output/training.json"), "wandb", Where(offline=True)).address

It never writes into the run that the training itself reported to, but makes one of its own, so that nothing is
there twice. After a rewind the complete newest history goes into a new one.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from ..readers.run_file import Run, read_run
from ..records import Header
from ..sinks.backends import check_backend
from .sessions import SESSIONS, Session, uploaded_torn
from .sync_state import Entry, SyncState


class Where(NamedTuple):
    """Where in the backend the run goes; what is not given follows from the run file."""

    project: str | None = None
    name: str | None = None
    folder: str | None = None
    offline: bool = False


class Done(NamedTuple):
    """What was brought."""

    backend: str
    target: str  # the run there
    address: str | None
    sent: int  # records, this time
    total: int
    parts: tuple[str, ...]
    began_anew: str | None  # why, where there was a run already


def refill(path: Path, backend: str, where: Where) -> Done:
    """Bring what a backend does not have yet."""
    check_backend(backend)
    key = f"{backend}-offline" if where.offline else backend
    run = read_run(path)
    history = run.records(rank=run.rank)
    with SyncState(path) as state:
        before = state.get(key, identity(run))
        entry, why = _entry(before, _wanted(run, backend, where), len(history), key)
        missing = len(history) - entry.records
        if missing or before is None:
            session = Session(entry, run.header or Header(id=entry.run), history, where.name)
            sent = SESSIONS[key](session, lambda noted: state.put(key, noted))
            entry = replace(sent, records=len(history))
            state.put(key, entry)
    return Done(backend, entry.target, entry.address, missing, len(history), entry.parts, why)


def identity(run: Run) -> str:
    """The id of a run; the first record of a file without a header, which never changes, stands for one."""
    if run.header and run.header.id:
        return run.header.id
    with run.path.open("rb") as file:
        return sha256(file.readline(1000) + file.readline(1000).rstrip(b",\n")).hexdigest()[:12]


def _wanted(run: Run, backend: str, where: Where) -> Entry:
    """A first run there."""
    folder = where.folder or str(run.path.parent / "tensorboard" if backend == "tensorboard" else run.path.parent)
    id_ = identity(run)
    return Entry(
        run=id_,
        target=f"{id_}-{'offline' if where.offline else 'sync'}",
        folder=folder if "://" in folder else os.path.abspath(folder),
        project=where.project,
        rewinds=len(run.records("rewind", rank=run.rank)),
    )


def _entry(before: Entry | None, wanted: Entry, total: int, key: str) -> tuple[Entry, str | None]:
    """The run to go on with; or a new one, and why."""
    if before is None:
        return wanted, None
    why = _why_anew(before, wanted, total, key)
    if why is None:
        return before, None
    number = before.number + 1
    return replace(wanted, target=f"{wanted.target}-{number}", number=number), why


def _why_anew(before: Entry, wanted: Entry, total: int, key: str) -> str | None:
    if (before.folder, before.project) != (wanted.folder, wanted.project):
        return f"the last one went to {before.project or 'another project'} in {before.folder}"
    if before.rewinds != wanted.rewinds:
        return "the run was rewound since"
    if before.records > total:
        return "the run file is shorter than it was"
    if key == "wandb-offline" and uploaded_torn(before):
        return "a part of it was uploaded before it was whole"
    return None
