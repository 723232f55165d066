"""`stepscope export`: a run as CSV, JSON Lines or Parquet."""

import csv
import json
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from ..codec import encode
from ..errors import BadValue, MissingExtra, RunFileError
from ..readers.run_file import Run, read_run
from ..records import Other, Record
from .files import HERE, Json, RunFile, locate
from .rows import columns, rows
from .screen import plain, print_json, say


class Format(StrEnum):
    """What a run can be exported to."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


def export(
    to: Annotated[Format, typer.Option("--to", help="The format.")],
    file: RunFile = HERE,
    kind: Annotated[
        str | None, typer.Option("--kind", show_default="step; for jsonl every kind", help="Records of this kind.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", show_default="stdout, for csv and jsonl", help="The file to write.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Export a run as CSV, JSON Lines or Parquet.

    It is the newest history, without what a rewind superseded. CSV and Parquet have one row a record, with the union
    of all names as columns; a step's row also holds the further numbers of the step, and its computed
    tokens_per_second. Of several ranks, steps are those of the file that was given, other kinds have a column `rank`.
    JSON Lines has every record as the run file has it. A number that is not finite is NaN, Infinity or -Infinity; one
    that is unknown is left empty.

    Exit code: 0.

    \b
    Example:
      stepscope export output/training.json --to csv -o steps.csv
      stepscope export output --to csv --kind eval | column -s, -t
      stepscope export output --to parquet -o steps.parquet
    """
    if output is None and (as_json or to is Format.parquet):
        raise BadValue(f"{'--json' if as_json else 'parquet'} needs a file to write: add -o PATH")
    if output is not None:
        _refuse_to_overwrite(output, force)
    run = read_run(locate(file))
    if output is None:
        WRITERS[to](run, kind, sys.stdout)
        return
    number = _write_file(output, lambda target: WRITERS[to](run, kind, target), binary=to is Format.parquet)
    if as_json:
        print_json({"path": str(run.path), "output": str(output), "format": to.value, "rows": number})
    else:
        say(f"{number} rows from {run.path} in {output}")


def _refuse_to_overwrite(path: Path, force: bool) -> None:
    if path.is_dir():
        raise BadValue(f"{path} is a folder: give the name of a file in it")
    if path.exists() and not force:
        raise BadValue(f"{path} exists: choose another name, or use --force to write over it")


def _write_file(path: Path, write: Callable[[IO[Any]], int], binary: bool) -> int:
    """Write beside the target and put it in place when it is whole."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    text: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
    try:
        with open(part, "wb" if binary else "w", **({} if binary else text)) as target:
            number = write(target)
        os.replace(part, path)
    except OSError as error:
        if isinstance(error, RunFileError):
            raise
        raise RunFileError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    return number


def _write_csv(run: Run, kind: str | None, target: IO[str]) -> int:
    names = columns(run, kind or "step")
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(names)
    number = 0
    for row in rows(run, kind or "step"):
        writer.writerow([_text(row.get(name)) for name in names])
        number += 1
    return number


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain(value) if isinstance(value, float) and not isfinite(value) else value


def _write_jsonl(run: Run, kind: str | None, target: IO[str]) -> int:
    number = 0
    for rank in sorted(run.ranks):
        for record in run.records(kind, rank=rank):
            target.write(_line(record) + "\n")
            number += 1
    return number


def _line(record: Record | Other) -> str:
    return json.dumps(record.data) if isinstance(record, Other) else encode(record).decode()


def _write_parquet(run: Run, kind: str | None, target: IO[bytes]) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("parquet", "pyarrow", "to export to Parquet") from error
    names = columns(run, kind or "step")
    values: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows(run, kind or "step"):
        for name in names:
            values[name].append(row.get(name))
    table = pyarrow.table({name: _array(pyarrow, name, column) for name, column in values.items()})
    pyarrow.parquet.write_table(table, target)
    return int(table.num_rows)


def _array(pyarrow: Any, name: str, column: list[Any]) -> Any:
    """A typed column: bool, int64, double or text; times as UTC timestamps where they can be read."""
    kinds = {type(value) for value in column if value is not None}
    if kinds <= {bool}:
        return pyarrow.array(column, pyarrow.bool_())
    if kinds <= {int} and all(value is None or abs(value) < 2**63 for value in column):
        return pyarrow.array(column, pyarrow.int64())
    if kinds <= {bool, int, float}:
        return pyarrow.array([value if value is None else float(value) for value in column], pyarrow.float64())
    text = pyarrow.array([value if value is None else _utf8(value) for value in column], pyarrow.string())
    if name != "time":
        return text
    try:
        return text.cast(pyarrow.timestamp("us")).cast(pyarrow.timestamp("us", "UTC"))
    except pyarrow.ArrowInvalid:  # a foreign format
        return text


def _utf8(value: Any) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


WRITERS: dict[Format, Callable[[Run, str | None, IO[Any]], int]] = {
    Format.csv: _write_csv,
    Format.jsonl: _write_jsonl,
    Format.parquet: _write_parquet,
}
