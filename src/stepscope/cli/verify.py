"""`stepscope verify`: is a run file sound?"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
import typer

from ..readers.run_file import Problem, Run, read_run
from ..records import Metrics, Other, Record, Rewind
from .files import HERE, Json, RunFile, locate
from .numbers import count
from .screen import facts, print_json, put, title

SHOWN = 20
ARRAY = re.compile(rb"\s*\[\s*([{\]]|$)")


def verify(file: RunFile = HERE, as_json: Json = False) -> None:
    """Check a run file, and name what is not sound in it.

    Each problem comes with its line and byte offset. Values that are not finite, gaps in the steps and rewinds are
    told as information: they are facts of the run, not faults of the file.

    Exit code: 0 the file is sound, 1 it has problems.

    \b
    Example:
      stepscope verify output/training.json && echo sound
      stepscope verify output --json | jq '.problems[].why'
    """
    run = read_run(locate(file))
    problems = list(_problems(run))
    information = [*_not_finite(run), *_gaps(run), *_rewinds(run), *_ending(run)]
    if as_json:
        print_json(
            {"path": str(run.path), "sound": not problems, "problems": problems, "information": information}
            | {"records": run.kinds}
        )
    else:
        _print(run, problems, information)
    raise typer.Exit(1 if problems else 0)


def _print(run: Run, problems: list[Problem], information: list[str]) -> None:
    state = count(len(problems), "problem") if problems else "sound"
    title(f"{run.path}: {state}")
    facts((_place(run, problem), f"{problem.why}: {problem.text}".removesuffix(": ")) for problem in problems[:SHOWN])
    if len(problems) > SHOWN:
        put(f"and {len(problems) - SHOWN} more: see --json")
    records = ", ".join(f"{number} {kind}" for kind, number in run.kinds.items())
    facts([("holds", records or "no record"), *(("info", text) for text in information)])


def _place(run: Run, problem: Problem) -> str:
    file = f"{Path(problem.file).name} " if problem.file not in ("", str(run.path)) else ""
    return f"{file}line {problem.line}, byte {problem.offset}"


def _problems(run: Run) -> Iterator[Problem]:
    """What the reader could not read; if that was nothing, what a plain JSON reader could not."""
    yield from run.problems
    fault = None if run.problems else first_fault(run.path)
    if fault:
        yield fault


def first_fault(path: Path) -> Problem | None:
    """Where a plain JSON reader stops; None for a file that it reads, and for a log that is not meant to be JSON."""
    data = path.read_bytes()
    if not ARRAY.match(data):
        return None
    try:
        msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        found = re.search(r"byte (\d+)", str(error))
        offset = int(found[1]) if found else len(data)
        text = repr(data[offset : offset + 60]) if offset < len(data) else "the file ends too early"
        return Problem(data.count(b"\n", 0, offset) + 1, offset, text, "not plain JSON", str(path))
    return None


def _not_finite(run: Run) -> Iterator[str]:
    """How often each number was not finite, and where first."""
    number: Counter[str] = Counter()
    first: dict[str, int] = {}
    for record in run.records():
        for name, value in _numbers(record):
            if isinstance(value, float) and not isfinite(value):
                number[name] += 1
                first.setdefault(name, getattr(record, "step", 0))
    for name, times in number.items():
        yield f"{name} is not finite in {count(times, 'record')}, first at step {first[name]}"


def _numbers(record: Record | Other) -> Iterator[tuple[str, Any]]:
    if isinstance(record, Other):
        return
    if isinstance(record, Metrics):
        yield from record.values.items()
        return
    for name in record.__struct_fields__:
        yield (name if record.kind == "step" else f"{record.kind}/{name}"), getattr(record, name)


def _gaps(run: Run) -> Iterator[str]:
    """Steps that are missing, where the run logged every so many."""
    steps = [step.step for step in run.steps]
    strides = Counter(after - before for before, after in pairwise(steps))
    if not strides:
        return
    stride = strides.most_common(1)[0][0]
    if stride > 1:
        yield f"steps are logged every {stride}"
    gaps = [(before, after) for before, after in pairwise(steps) if after - before > stride]
    for before, after in gaps[:SHOWN]:
        yield f"no step between {before} and {after}"
    if len(gaps) > SHOWN:
        yield f"and {len(gaps) - SHOWN} more gaps"


def _rewinds(run: Run) -> Iterator[str]:
    for record in run.records("rewind"):
        if isinstance(record, Rewind):
            yield f"attempt {record.attempt} began again at step {record.step}, from step {record.last_step}"


def _ending(run: Run) -> Iterator[str]:
    if run.header is not None and run.end is None:
        yield "no end: the run still goes on, or was cut off"
