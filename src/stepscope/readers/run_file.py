"""Read a run from its file: typed records, columns, and what had to be skipped. (First version.)"""

import os
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..codec import decode
from ..errors import RunFileError, UnknownSetting, nearest
from ..records import End, Eval, Event, Gpu, Header, Metrics, Moe, Other, Record, Rewind, Step
from .series import Series

ALWAYS = {"run", "rewind", "message", "event", "end", "dataset", "gpu-model"}


class Problem(msgspec.Struct, frozen=True):
    """Something in the file that could not be read."""

    line: int
    offset: int
    text: str
    why: str
    file: str = ""


class Run:
    """A run, as its file tells it."""

    def __init__(self, path: Path, records: list[Any], problems: list[Problem]):
        self.path, self.problems, self._all = path, problems, records
        self.headers: Sequence[Header] = [r for r in records if isinstance(r, Header)]
        self.header: Header | None = self.headers[-1] if self.headers else None
        self.rank = self.header.rank if self.header else 0
        self.ranks: dict[int, Run] = {self.rank: self}

    @property
    def steps(self) -> Sequence[Step]:
        return [r for r in self._own("step") if isinstance(r, Step)]

    @property
    def evals(self) -> Sequence[Eval]:
        return [r for r in self._own("eval") if isinstance(r, Eval)]

    @property
    def events(self) -> Sequence[Event]:
        return [r for r in self.records("event") if isinstance(r, Event)]

    @property
    def end(self) -> End | None:
        last: End | None = None
        for record in self._all:
            last = None if isinstance(record, Header) else record if isinstance(record, End) else last
        return last

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(r.kind for r in self._all))

    def records(
        self, kind: str | None = None, rank: int | None = None, superseded: bool = False
    ) -> Sequence[Record | Other]:
        """Records of a kind (None: all, in file order), of one rank or of all."""
        runs = self.ranks.values() if rank is None else [self.ranks[rank]]
        return [r for run in runs for r in run._own(kind, superseded)]

    def _own(self, kind: str | None, superseded: bool = False) -> list[Any]:
        found, limit = [], float("inf")
        for r in reversed(self._all):
            if isinstance(r, Rewind):
                limit = min(limit, r.step)
            if kind in (None, r.kind) and (superseded or r.kind in ALWAYS or (getattr(r, "step", 0) or 0) < limit):
                found.append(r)
        return found[::-1]

    def names(self) -> list[str]:
        """Every name that `series` takes for this run."""
        return sorted({n for r in self._all for n in _values(r)})

    def series(self, name: str, superseded: bool = False) -> Series:
        """The values of a name over the steps."""
        steps, values = array("q"), array("d")
        for r in self._own(None, superseded):
            value = _values(r).get(name)
            if value is not None:
                steps.append(r.step)
                values.append(value)
        if not steps and name not in (names := self.names()):
            raise UnknownSetting(f"no series {name!r} in {self.path}{nearest(name, names)}")
        return Series(name, steps, values)


def _values(r: Any) -> dict[str, float]:
    if isinstance(r, Metrics):
        return dict(r.values)
    prefix = {Step: "", Eval: "eval/", Moe: "moe/"}.get(type(r))
    if isinstance(r, Gpu):
        prefix = f"gpu/{r.id}/"
    if prefix is None:
        return {}
    names = [*r.__struct_fields__, "tokens_per_second"]
    return {prefix + n: v for n in names if isinstance(v := getattr(r, n, None), (int, float)) and n != "step"}


def read_run(path: str | os.PathLike[str]) -> Run:
    """The run in a file, or the newest run in a folder."""
    path = Path(path)
    if path.is_dir():
        found = find_runs(path)
        if not found:
            raise RunFileError(f"no run file in {path}: give the file that the run wrote, such as output/training.json")
        path = found[0]
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise RunFileError(f"no run file {path}: check the name, or give the folder") from error
    records, problems, offset = [], [], 0
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.strip(b"\0 \r\t,")
        if text and text not in (b"[", b"]"):
            try:
                records.append(decode(text))
            except ValueError:
                problems.append(Problem(number, offset, repr(text[:60]), "not a whole record"))
        offset += len(line) + 1
    if data.strip() and not records and not data.startswith(b"["):
        raise RunFileError(f"{path} is not a run file")
    run = Run(path, records, problems)
    for beside in sorted(path.parent.glob(f"{path.stem}.rank*{path.suffix}")):
        match = re.search(r"\.rank(\d+)$", beside.stem)
        if match:
            run.ranks[int(match[1])] = read_run(beside)
    return run


def find_runs(folder: str | os.PathLike[str]) -> list[Path]:
    """The run files under a folder, newest first."""
    found = [p for p in Path(folder).rglob("*.json") if not re.search(r"\.rank\d+$", p.stem)]
    found = [p for p in found if p.open("rb").read(200).lstrip(b"[\n ").startswith(b'{"log"')]
    return sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)
