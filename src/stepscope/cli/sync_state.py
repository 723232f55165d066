"""What `sync` has brought to each backend: a small file beside the run file.

    with SyncState("output/training.json") as state:      # output/training.sync.json, locked against a second sync
        entry = state.get("wandb", run="9f2c")            # None when there is nothing yet
        state.put("wandb", Entry(run="9f2c", target="9f2c-sync", records=1200))

The file is replaced in one move, so that a kill leaves the old state or the new one.
"""

import fcntl
import os
from pathlib import Path
from typing import Any

import msgspec

from ..errors import RunFileError


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One backend: which run of the file, its name there, and how far it is."""

    run: str
    target: str
    folder: str = ""
    project: str | None = None
    number: int = 1  # of the runs that were begun there
    rewinds: int = 0  # in the run file, when it was begun
    records: int = 0
    rows: int = 0
    parts: tuple[str, ...] = ()  # the files or folders that are whole; the name that Aim gave the run
    address: str | None = None


class SyncState:
    """The entries of a run file, by backend."""

    def __init__(self, run_file: Path):
        self.path = run_file.with_suffix(".sync.json")
        self._lock = -1
        self._entries: dict[str, Entry] = {}

    def __enter__(self) -> "SyncState":
        self._lock = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise RunFileError(f"another sync works in {self.path.parent}: wait for it to end") from error
        except OSError:
            pass  # a file system without locks
        self._entries = self._read()
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._lock)

    def _read(self) -> dict[str, Entry]:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=dict[str, Entry])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise RunFileError(f"cannot read {self.path}: {error}; remove it to bring everything anew") from error

    def get(self, backend: str, run: str) -> Entry | None:
        """The entry of a backend, if it is of this run: a file may have been replaced by that of another."""
        entry = self._entries.get(backend)
        return entry if entry is not None and entry.run == run else None

    def put(self, backend: str, entry: Entry) -> None:
        """Note how far a backend is."""
        self._entries[backend] = entry
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(self._entries)) + b"\n")
            os.replace(part, self.path)
        except OSError as error:
            raise RunFileError(f"cannot write {self.path}: {error.strerror or error}") from error
        finally:
            part.unlink(missing_ok=True)
