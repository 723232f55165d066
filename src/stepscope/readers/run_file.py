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
from collections.abc import Iterator, Sequence
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
    def _bounds(self) -> list[Header | End]:
        """How the attempts began and ended, in the order of the file."""
        text = self._text
        blocks = [block for block in text.blocks if text.text(block, "run") or text.text(block, "end")]
        return [record for block in blocks for record in text.read(block) if isinstance(record, (Header, End))]

    @property
    def headers(self) -> list[Header]:
        """The header of each attempt."""
        return [record for record in self._bounds if isinstance(record, Header)]

    @property
    def header(self) -> Header | None:
        """The header of the newest attempt; None in a file that has none."""
        return self.headers[-1] if self.headers else None

    @property
    def end(self) -> End | None:
        """How the newest attempt ended; None if it still runs or was cut off."""
        last = self._bounds[-1] if self._bounds else None
        return last if isinstance(last, End) else None

    @cached_property
    def _first(self) -> Header:
        """The header that the file begins with: rank and id are the same in every attempt."""
        found = [record for block in self._text.blocks[:1] for record in self._text.read(block, "run")]
        return found[0] if found else Header()

    @property
    def rank(self) -> int:
        """The rank that wrote this file."""
        return self._first.rank

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

    @property
    def ranks(self) -> "dict[int, Run]":
        """The run by rank: this file, and those of the other ranks that lie beside it."""
        return {self.rank: self, **self._beside[0]}

    def _each_rank(self) -> "Iterator[Run]":
        yield self  # the others are not opened unless they are asked for
        yield from self._beside[0].values()

    @cached_property
    def _beside(self) -> "tuple[dict[int, Run], list[Problem]]":
        """The files of the other ranks, and what is wrong with those that are left out."""
        runs, wrong = {}, []
        for rank, path in rank_files(self.path).items():
            try:
                runs[rank] = read_run(path)
                if runs[rank]._first.id != self._first.id:
                    raise RunFileError(f"{path} belongs to another run: its id is {runs[rank]._first.id!r}")
            except RunFileError as error:
                runs.pop(rank, None)
                wrong.append(Problem(1, 0, "", f"left out: {error}", str(path)))
        return runs, wrong

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
        if kind is not None and kind not in KINDS and not self._mentions(kind):
            raise UnknownSetting(f"no records of kind {kind!r} in {self.path}{nearest(kind, {*KINDS, *self.kinds})}")
        if rank is not None and rank not in self.ranks:
            raise UnknownSetting(f"no rank {rank} in {self.path}; known are {', '.join(map(str, self.ranks))}")
        runs = self.ranks.values() if rank is None else [self.ranks[rank]]
        parts: list[Records[Any]] = [Records(run._text, kind, superseded) for run in runs]
        return parts[0] if len(parts) == 1 else Merged(parts)

    def _mentions(self, kind: str) -> bool:
        return any(run._text.text(block, kind) for run in self.ranks.values() for block in run._text.blocks)

    def names(self) -> list[str]:
        """Every name that `series` has numbers for, of all ranks."""
        return sorted({name for run in self.ranks.values() for name in names(run._text)})

    def series(self, name: str, superseded: bool = False) -> Series:
        """The numbers of a name over the steps: of this file, or of the first rank that has it."""
        for run in self._each_rank():
            series = read_series(run._text, name, superseded)
            if len(series):
                return series
        if not is_field(name) and name not in (known := self.names()):
            remedy = nearest(name, known) if known else ": it has no numbers yet"
            raise UnknownSetting(f"no series {name!r} in {self.path}{remedy}")
        return series

    def __repr__(self) -> str:
        return f"<Run {self.path}>"
