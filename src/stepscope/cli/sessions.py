"""One session of `sync` for each backend: the records that are missing there, so that none comes twice.

    entry = SESSIONS["tensorboard"](Session(entry, header, history), note=print)

What a session that was killed has left behind is taken back or overwritten by the next one:

- W&B online: rows are numbered, and those that W&B has are left out.
- W&B offline, TensorBoard: a session writes a folder or a file of its own; one that was not noted as whole is removed.
- Aim: tracking a step again replaces its value.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..records import Header, Other, Record
from ..tags import Names
from .sync_state import Entry

TIMEOUT_S = 20.0  # for W&B's server to answer
UPLOAD_S = 600.0  # for it to take the last rows

Note = Callable[[Entry], None]


class Session(NamedTuple):
    """What is to be brought, and to which run of the backend."""

    entry: Entry
    header: Header
    history: Sequence[Record | Other]
    name: str | None = None

    def records(self, begin: int, end: int | None = None) -> Iterator[Record]:
        """The records from one place of the history to another; kinds that nobody knows have no name anywhere."""
        return (record for record in islice(self.history, begin, end) if isinstance(record, Record))


def _send(sink: Any, session: Session) -> Entry:
    """Write what is missing, with the names that the whole history gives it."""
    _learn(sink.names, session)
    for record in session.records(session.entry.records, len(session.history)):
        sink.write(record)
    sink.close()
    return replace(session.entry, address=sink.address)


def _learn(names: Names, session: Session) -> None:
    done = session.entry.records
    for place, record in enumerate(session.records(0, len(session.history))):
        names.see(record)
        if done - Names.REMEMBERED <= place < done:
            names.tags(record)  # what these steps have had


def wandb_online(session: Session, note: Note) -> Entry:
    """Rows into a W&B run that may have some of them."""
    from ..sinks.wandb import Wandb

    entry = session.entry
    sink = Wandb(
        session.header,
        entry.project,
        session.name,
        folder=entry.folder,
        run_id=entry.target,
        first_row=entry.rows,
        init_timeout_s=TIMEOUT_S,
        finish_timeout_s=UPLOAD_S,
    )
    return replace(_send(sink, session), rows=sink.next_row or 0)


def wandb_offline(session: Session, note: Note) -> Entry:
    """A folder that `wandb sync` appends to the run that the folders before it have made."""
    from ..sinks.wandb import Wandb

    entry = session.entry
    _remove(_torn(_wandb_folders(entry), entry))
    sink = Wandb(session.header, entry.project, session.name, "offline", entry.folder, entry.target, entry.rows)
    sent = _send(sink, session)
    return replace(sent, rows=sink.next_row or 0, parts=(*entry.parts, str(sink.address)))


def uploaded_torn(entry: Entry) -> bool:
    """Whether somebody has uploaded what a killed session left."""
    return any(is_uploaded(folder) for folder in _torn(_wandb_folders(entry), entry))


def is_uploaded(folder: Path) -> bool:
    """Whether `wandb sync` has sent a folder."""
    return any(folder.glob("*.synced"))


def _wandb_folders(entry: Entry) -> Iterable[Path]:
    logs = Path(entry.folder).glob(f"wandb/offline-run-*/run-{entry.target}.wandb")
    return [log.parent for log in logs]


def tensorboard(session: Session, note: Note) -> Entry:
    """One more event file in the run's folder."""
    from ..sinks.tensorboard import TensorBoard

    entry = session.entry
    folder = Path(entry.folder) / entry.target
    _remove(_torn(folder.glob("events.out.tfevents.*"), entry))
    sink = TensorBoard(str(folder))
    return replace(_send(sink, session), parts=(*entry.parts, sink.path))


def aim(session: Session, note: Note) -> Entry:
    """Values into an Aim run, over those that it has."""
    from ..sinks.aim import Aim

    entry = session.entry
    known = entry.parts[0] if entry.parts else None
    sink = Aim(session.header, entry.project, session.name, entry.folder, known)
    entry = replace(entry, parts=(sink.run_hash,))
    note(entry)
    return _send(sink, session._replace(entry=entry))


def _torn(found: Iterable[Path], entry: Entry) -> list[Path]:
    return [path for path in found if str(path) not in entry.parts]


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


SESSIONS: dict[str, Callable[[Session, Note], Entry]] = {
    "wandb": wandb_online,
    "wandb-offline": wandb_offline,
    "aim": aim,
    "tensorboard": tensorboard,
}
