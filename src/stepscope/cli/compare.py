"""`stepscope compare`: two runs side by side."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ..errors import BadValue, RunFileError
from ..readers.compare import BETTER, WORSE, Comparison, Row, compare, slowdown
from ..readers.run_file import Run, read_run
from .brief import SECRET
from .files import Json, locate
from .numbers import UNKNOWN, count
from .screen import Column, facts, print_json, put, table, title

COLUMNS = [
    Column("NUMBER"),
    Column("UNIT", spare=2),
    Column("A", right=True),
    Column("B", right=True),
    Column("CHANGE", right=True),
    Column("95 % INTERVAL", right=True, spare=1),
    Column("VERDICT"),
]
CHANGES_SHOWN = 12


def compare_runs(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="A run file, or a folder: its newest run.", show_default=False)
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="The run that is held against it.", show_default=False)],
    skip: Annotated[
        int | None,
        typer.Option("--skip", min=0, help="Leave out so many steps at the start of each.", show_default="5 %"),
    ] = None,
    max_slowdown: Annotated[
        str | None, typer.Option("--max-slowdown", metavar="PERCENT", help="Exit code 1 when B is slower by more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare two runs: the profiling numbers of both, and which differences are more than chance.

    A change is called better or worse when the whole 95 % interval of the ratio lies on one side of 1 and the change
    is large enough to matter (2 %); else it is no difference. The interval knows what varies from step to step, not
    what varies from run to run: where a small difference counts, compare several runs. The first steps of each run
    are left out. Losses have no verdict.

    With --max-slowdown a build can fail on a slower B: when all of the interval of the mean or of the median lies above
    the limit.

    Exit code: 0. With --max-slowdown: 1 when B is slower by more, 2 when there are too few steps to tell.

    \b
    Example:
      stepscope compare before/training.json after/training.json
      stepscope compare main.json branch.json --max-slowdown 5%
    """
    limit = None if max_slowdown is None else _share(max_slowdown)
    before, after = read_run(locate(a)), read_run(locate(b))
    result = compare(before, after, skip)
    slower = _slower(result, limit)
    changes = list(_changes(before, after))
    if as_json:
        print_json({**msgspec.to_builtins(result), "config": changes, "slower": slower})
    else:
        _print(result, changes, slower, limit)
    raise typer.Exit(1 if slower else 0)


def _share(text: str) -> float:
    """`5%`, `5` and `0.05` are the same."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        raise BadValue(f"--max-slowdown {text!r} is no number: give a percentage such as 5%") from None
    if not 0 <= value < 1e6:
        raise BadValue(f"--max-slowdown {text!r} cannot be: give a percentage such as 5%")
    return value if value < 1 and "%" not in text else value / 100


def _slower(result: Comparison, limit: float | None) -> bool | None:
    """Whether B is slower by more than the limit: the whole interval of its mean or its median lies above it."""
    if limit is None:
        return None
    found = slowdown(result)
    if not found:
        raise RunFileError(
            f"cannot tell whether B is slower: {result.a.steps} and {result.b.steps} timed steps give no interval, "
            "a few dozen in each run do"
        )
    return any(low > 1 + limit for low, _ in found)


def _changes(before: Run, after: Run) -> Iterator[dict[str, Any]]:
    """What differs in the configurations; secrets are masked."""
    a, b = (dict(_flat(run.header.config if run.header else None)) for run in (before, after))
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            secret = SECRET.search(name.rpartition(".")[2])
            yield {"name": name, "a": "***" if secret else a.get(name), "b": "***" if secret else b.get(name)}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif name or value is not None:
        yield name or "config", value


def _print(result: Comparison, changes: list[dict[str, Any]], slower: bool | None, limit: float | None) -> None:
    for letter, side in (("A", result.a), ("B", result.b)):
        left = f"{count(side.steps, 'step')}, the first {side.warm_up} left out"
        title(f"{letter}  {side.name or side.path}  {left if side.steps else 'no timed step'}")
    put()
    table(COLUMNS, [_cells(row) for row in result.rows])
    put()
    said = [row for row in result.rows if row.verdict in (BETTER, WORSE)]
    facts([("B against A", _sum(said)), *(("note", note) for note in result.notes)])
    shown = [f"{change['name']}: {_text(change['a'])} → {_text(change['b'])}" for change in changes[:CHANGES_SHOWN]]
    rest = [f"and {len(changes) - CHANGES_SHOWN} more: see --json"] if len(changes) > CHANGES_SHOWN else []
    facts(("config", line) for line in [*shown, *rest])
    if limit is not None:
        facts([("limit", f"B is {'slower' if slower else 'not slower'} by more than {limit * 100:g} %")])


def _sum(said: list[Row]) -> str:
    if not said:
        return "no difference"
    parts = [(word, [row.name for row in said if row.verdict == word]) for word in (BETTER, WORSE)]
    return " · ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)


def _cells(row: Row) -> list[str]:
    interval = UNKNOWN if row.low is None or row.high is None else f"{_change(row.low)} to {_change(row.high)}"
    change = UNKNOWN if row.ratio is None else _change(row.ratio)
    return [row.name, row.unit, _number(row.a), _number(row.b), change, interval, row.verdict or ""]


def _number(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _change(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %" if ratio < 10 else f"× {ratio:.3g}"


def _text(value: Any) -> str:
    return UNKNOWN if value is None else value if isinstance(value, str) else json.dumps(value)
