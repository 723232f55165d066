"""Follow a run file while it grows. (First version.)"""

import os
from collections.abc import Iterator
from pathlib import Path

from ..codec import decode
from ..records import Other, Record


class Follower:
    """Reads what was added to a file since the last poll."""

    def __init__(self, path: str | os.PathLike[str], offset: int = 0):
        self.path, self.offset = Path(path), offset
        self.restarted = False

    def poll(self) -> list[Record | Other]:
        """The records that are complete since the last poll."""
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self.offset:
                    self.offset, self.restarted = 0, True
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        records: list[Record | Other] = []
        for line in data.split(b"\n")[:-1]:
            text = line.strip(b"\0 \r\t,")
            if text == b"]":
                break
            if text and text != b"[":
                try:
                    records.append(decode(text))
                except ValueError:
                    break
            self.offset += len(line) + 1
        return records


def follow(path: str | os.PathLike[str], offset: int = 0) -> Iterator[Record | Other]:
    """Each record that is in the file now; call again with a `Follower` for later ones."""
    yield from Follower(path, offset).poll()
