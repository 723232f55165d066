"""The arguments that all commands share, and the run file that a name stands for.

def show(file: RunFile = HERE, as_json: Json = False): ...
path = locate(Path("output"))         # output/training.json, and says so on stderr
"""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import RunFileError
from ..readers.run_file import find_runs
from .screen import say

HERE = Path(".")

RunFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", show_default="here", help="A run file, or a folder: its newest run."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]


def locate(path: Path) -> Path:
    """The run file that is meant: the path itself, or the newest run in the folder."""
    if not path.exists():
        raise RunFileError(f"no run file {path}: check the name, or look with `stepscope list`")
    if not path.is_dir():
        return path
    found = find_runs(path)
    if not found:
        raise RunFileError(f"no run file in {path}: give the file that the run wrote, such as output/training.json")
    if len(found) > 1:
        say(f"the newest of {len(found)} runs in {path}: {found[0]}")
    else:
        say(f"the run in {path}: {found[0]}")
    return found[0]
