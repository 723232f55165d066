"""Follow a run file while it grows.

    follower = Follower("output/training.json")
    for record in follower.poll():            # what is new since the last poll; call it as often as you like
        print(record)
    follower.offset                           # where to go on from: Follower(path, offset)

A poll reads only what is new. A record that is half-written waits for its other half; a file that does not exist yet
is one without records. A file that shrank or is another one is read from its beginning, and `restarts` counts that.
"""

import os
from contextlib import suppress
from pathlib import Path

from ..errors import RunFileError
from ..records import Other, Record
from .blocks import first_record, pieces
from .careful import AROUND, build, read
from .on_disk import read_at
from .problems import Problem, flaws_in
from .run_text import RunText

MARK = 256


class Follower:
    """Reads what was added to a file since the last poll."""

    def __init__(self, path: str | os.PathLike[str], offset: int = 0):
        self.path = Path(path)
        self.offset = offset
        self.restarts = 0
        self.problems: list[Problem] = []
        self._mark: bytes | None = None

    def poll(self) -> list[Record | Other]:
        """The records that are whole in the file and were not handed out yet."""
        begin = max(self.offset - MARK, 0)
        try:
            with self.path.open("rb") as file:
                data = read_at(file.fileno(), begin, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunFileError(f"cannot read {self.path}: {error.strerror or error}") from error
        if not self._goes_on(data, begin):
            self._restart()
            return self.poll()
        found = self._take(data, begin)
        self._mark = data[: self.offset - begin][-MARK:]
        return found

    def _goes_on(self, data: bytes, begin: int) -> bool:
        """Whether what was read before still stands in the file."""
        before = data[: self.offset - begin]
        return len(before) == self.offset - begin and (self._mark is None or before.endswith(self._mark))

    def _restart(self) -> None:
        self.offset, self._mark = 0, None
        self.restarts += 1
        self._problem(0, "", "the file shrank or was replaced: read again from its beginning")

    def _take(self, data: bytes, begin: int) -> list[Record | Other]:
        """The records behind the offset. All but the last are as whole as they will ever be."""
        start = self.offset - begin
        first = first_record(data[start:])
        if first is None:
            return []
        first += start
        last = max(place for place, _ in pieces(data[first:])) + first
        whole = RunText(data[first:last])
        found: list[Record | Other] = []
        for block in whole.blocks:
            found += whole.read(block, superseded=True)
            for place, text, why in flaws_in(whole.data, block):
                self._problem(begin + first + place, text, why)
        newest, end = read(data[last:])
        if first < last or newest:
            self.offset = begin + len(data[: last + end].rstrip(AROUND))
        return found + [build(data) for data in newest]

    def _problem(self, offset: int, text: str, why: str) -> None:
        with suppress(OSError), self.path.open("rb") as file:
            line = file.read(offset).count(b"\n") + 1
            self.problems.append(Problem(line, offset, text, why, str(self.path)))
