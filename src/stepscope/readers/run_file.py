"""Read a run from its file, or the newest run from a folder.

    run = read_run("output/training.json")
    run.header.config, run.end, run.problems
    [step.loss for step in run.steps if step.norm and step.norm > 1]
    run.series("eval/loss").values

Nothing is decoded before somebody looks. What a rewind superseded is left out unless it is asked for. `steps`,
`evals` and series are those of the file that was given; `events` and `records` are those of all its ranks.
"""

import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ..errors import RunFileError, UnknownSetting, nearest
from ..records import KINDS, End, Eval, Event, Header, Other, Record, Step
from .folder import find_runs as find_runs
from .folder import rank_files
from .lazy import Merged, Records
from .problems import Problem as Problem
from .problems import problems
from .recognize import recognize
from .run_text import RunText
from .series import Series as Series
from .series import is_field, names, read_series


def read_run(path: str | os.PathLike[str]) -> "Run":
    """The run in a file, or the newest one in a folder."""
    path = Path(path)
    if path.is_dir():
        found = find_runs(path)
        if not found:
            raise RunFileError(f"no run file in {path}: give the file that the run wrote, such as output/training.json")
        path = found[0]
    try:
        return Run(path, RunText(recognize(path)))
    except FileNotFoundError as error:
        raise RunFileError(f"no run file {path}: check the name, or look with `stepscope list`") from error
    except OSError as error:
        if isinstance(error, RunFileError):
            raise
        raise RunFileError(f"cannot read {path}: {error.strerror or error}") from error


class Run:
    """A run as its files tell it, as they were when it was read."""

    def __init__(self, path: Path, text: RunText):
        self.path = path
        self._text = text

    @cached_property
    def headers(self) -> list[Header]:
        """The header of each attempt."""
        return list(iter(Records(self._text, "run")))  # without counting all records first

    @property
    def header(self) -> Header | None:
        """The header of the newest attempt; None in a file that has none."""
        return self.headers[-1] if self.headers else None

    @property
    def rank(self) -> int:
        """The rank that wrote this file."""
        return self.header.rank if self.header else 0

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The training steps."""
        return Records(self._text, "step")

    @cached_property
    def evals(self) -> Sequence[Eval]:
        """The evaluations."""
        return Records(self._text, "eval")

    @property
    def events(self) -> Sequence[Event]:
        """What happened, on every rank."""
        return cast(Sequence[Event], self.records("event"))

    @cached_property
    def end(self) -> End | None:
        """How the newest attempt ended; None if it still runs or was cut off."""
        for block in reversed(self._text.blocks):
            if self._text.read(block, "end") or self._text.read(block, "run"):
                last = [record for record in self._text.read(block) if isinstance(record, (End, Header))][-1]
                return last if isinstance(last, End) else None
        return None

    @property
    def ranks(self) -> "dict[int, Run]":
        """The run by rank: this file, and those of the other ranks that lie beside it."""
        return {self.rank: self, **self._beside[0]}

    @cached_property
    def _beside(self) -> "tuple[dict[int, Run], list[Problem]]":
        """The files of the other ranks, and what is wrong with those that are left out."""
        runs, wrong = {}, []
        for rank, path in rank_files(self.path).items():
            try:
                runs[rank] = read_run(path)
                self._same_run(runs[rank])
            except RunFileError as error:
                runs.pop(rank, None)
                wrong.append(Problem(1, 0, "", f"left out: {error}", str(path)))
        return runs, wrong

    def _same_run(self, other: "Run") -> None:
        mine, its = self.header.id if self.header else "", other.header.id if other.header else ""
        if mine != its:
            raise RunFileError(f"{other.path.name} belongs to another run: its id is {its!r}, not {mine!r}")

    @cached_property
    def problems(self) -> list[Problem]:
        """What was skipped in the files of all ranks, and why."""
        own = problems(self._text, str(self.path))
        others, wrong = self._beside
        return [*own, *wrong, *(problem for run in others.values() for problem in run.problems)]

    @cached_property
    def kinds(self) -> dict[str, int]:
        """How many records of each kind there are on all ranks, without those that were superseded."""
        counts: Counter[str] = Counter()
        for run in self.ranks.values():
            for block in run._text.blocks:
                counts.update(run._text.count(block))
        return dict(counts)

    def records(
        self, kind: str | None = None, rank: int | None = None, superseded: bool = False
    ) -> Sequence[Record | Other]:
        """The records of a kind or of all: of one rank in the order of its file, or of all ranks by step."""
        if kind is not None and kind not in KINDS and kind not in self.kinds:
            raise UnknownSetting(f"no records of kind {kind!r} in {self.path}{nearest(kind, {*KINDS, *self.kinds})}")
        if rank is not None and rank not in self.ranks:
            raise UnknownSetting(f"no rank {rank} in {self.path}; known are {', '.join(map(str, self.ranks))}")
        runs = self.ranks.values() if rank is None else [self.ranks[rank]]
        parts: list[Records[Any]] = [Records(run._text, kind, superseded) for run in runs]
        return parts[0] if len(parts) == 1 else Merged(parts)

    def names(self) -> list[str]:
        """Every name that `series` has numbers for, of all ranks."""
        return sorted({name for run in self.ranks.values() for name in names(run._text)})

    def series(self, name: str, superseded: bool = False) -> Series:
        """The numbers of a name over the steps: of this file, or of the first rank that has it."""
        for run in self.ranks.values():
            series = read_series(run._text, name, superseded)
            if len(series):
                return series
        if not is_field(name) and name not in (known := self.names()):
            raise UnknownSetting(f"no series {name!r} in {self.path}{nearest(name, known)}")
        return series

    def __repr__(self) -> str:
        return f"<Run {self.path}>"
