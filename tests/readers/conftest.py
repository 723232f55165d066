"""Run files for the readers: from records, from lines of text, in memory and from the disk."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from stepscope.codec import encode
from stepscope.readers import on_disk
from stepscope.readers.run_file import Run, read_run
from stepscope.records import Record

Read = Callable[[object], Run]


def as_file(records: Iterable[Record]) -> bytes:
    """The bytes of a run file with these records."""
    return b"[\n" + b",\n".join(map(encode, records)) + b"\n]\n"


@pytest.fixture(params=["small", "large"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once as a small file, whose bytes are kept, and once as a large one, which stays on the disk."""
    monkeypatch.setattr(on_disk, "SMALL", 1 << 40 if request.param == "small" else -1)
    return str(request.param)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes records or bytes into a file and reads the run in it."""

    def write_and_read(content: object, name: str = "training.json") -> Run:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else as_file(content))  # type: ignore[arg-type]
        return read_run(path)

    return write_and_read
