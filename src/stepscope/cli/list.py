"""`stepscope list`: the runs below a folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ..errors import RunFileError
from ..readers.run_file import find_runs, read_run
from ..readers.summary import Summary, summarize
from .files import HERE, Json
from .numbers import UNKNOWN, ago, duration, number, rate
from .screen import Column, print_json, say, table

COLUMNS = [
    Column("FILE", folds=True),
    Column("STATUS"),
    Column("STEPS", right=True),
    Column("LOSS", right=True),
    Column("EVAL", right=True, spare=1),
    Column("TOK/S", right=True, spare=2),
    Column("TIME", right=True, spare=3),
    Column("LAST", right=True),
    Column("NAME", spare=4),
]


def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default="here", help="A folder.")] = HERE,
    as_json: Json = False,
) -> None:
    """List the runs below a folder, the newest first.

    STATUS is running, finished, failed, stopped (by a signal) or cut off (it died without a word). LOSS is the last
    one, EVAL the lowest, TOK/S the median, TIME how long the run was at work, LAST when it last wrote.

    Exit code: 0, or 1 when there are no runs.

    \b
    Example:
      stepscope list output
      stepscope list output --json | jq -r '.[] | select(.status == "failed") | .path'
    """
    if not folder.is_dir():
        raise RunFileError(f"no folder {folder}: check the name; for one file use `stepscope show`")
    found = list(_summaries(folder))
    if as_json:
        print_json(found)
    elif found:
        table(COLUMNS, map(_row, found))
    else:
        say(f"no runs below {folder}")
    raise typer.Exit(0 if found else 1)


def _summaries(folder: Path) -> Iterator[Summary]:
    for path in find_runs(folder):
        try:
            yield summarize(read_run(path))
        except RunFileError as error:  # one bad file must not hide the others
            say(str(error))


def _row(run: Summary) -> list[str]:
    return [
        run.path,
        run.status or UNKNOWN,
        _steps(run),
        number(run.loss.last),
        number(run.eval.lowest),
        rate(run.speed.tokens_per_second),
        duration(run.duration_s),
        ago(run.idle_s),
        run.name or UNKNOWN,
    ]


def _steps(run: Summary) -> str:
    if run.last_step is None:
        return UNKNOWN
    return f"{run.last_step}/{run.total_steps}" if run.total_steps else str(run.last_step)
