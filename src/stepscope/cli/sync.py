"""`stepscope sync`: fill a backend from a run file."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import MissingExtra, RunFileError, StepscopeError
from .files import HERE, Json, RunFile, locate
from .refill import Done, Where, refill
from .screen import print_json, put, say
from .sessions import is_uploaded


class Backend(StrEnum):
    """What a run can be brought to."""

    wandb = "wandb"
    aim = "aim"
    tensorboard = "tensorboard"


def sync(
    to: Annotated[Backend, typer.Option("--to", help="The backend.")],
    file: RunFile = HERE,
    project: Annotated[
        str | None, typer.Option("--project", help="W&B's project, Aim's experiment. Default: the run's.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name there. Default: the run's.")] = None,
    folder: Annotated[
        str | None,
        typer.Option("--dir", help="W&B's folder, Aim's repository, TensorBoard's folder. Default: beside the file."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="W&B: write a folder for `wandb sync`.")] = False,
    as_json: Json = False,
) -> None:
    """Bring a run to W&B, Aim or TensorBoard: all that its file has, and nothing twice.

    It goes on where the last sync of the file stopped, as training.sync.json beside it says, also after a kill and
    while the run still grows. It makes a run of its own in the backend; after a rewind, a new one with the complete
    newest history. Where W&B cannot be reached, a folder is written that `wandb sync` can send.

    Exit code: 0 all is there, 1 the backend did not take it.

    \b
    Example:
      stepscope sync output/training.json --to tensorboard
      stepscope sync output --to wandb --offline && wandb sync output/wandb/offline-run-*
    """
    path = locate(file)
    where = Where(project, name, folder, to is Backend.wandb and (offline or _is_offline()))
    done = _brought(path, to, where)
    if done is None and to is Backend.wandb and not where.offline:
        say("writing a folder instead, for `wandb sync` to send")
        where = where._replace(offline=True)
        done = _brought(path, to, where)
    if done is None:
        raise typer.Exit(1)
    if as_json:
        print_json({**done._asdict(), "mode": "offline" if where.offline else "online"})
    else:
        _tell(done, where.offline)


def _is_offline() -> bool:
    return "offline" in (os.environ.get("WANDB_MODE"), os.environ.get("STEPSCOPE_MODE"))


def _brought(path: Path, to: Backend, where: Where) -> Done | None:
    """What was brought; None when the backend did not take it, which is said."""
    try:
        return refill(path, to.value, where)
    except (MissingExtra, RunFileError):
        raise
    except Exception as error:  # noqa: BLE001 - a backend may raise anything
        text = str(error) if isinstance(error, StepscopeError) else f"{type(error).__name__}: {error}"
        say(f"{to.value} did not take the run: {text}")
        return None


def _tell(done: Done, offline: bool) -> None:
    if done.began_anew:
        say(f"a new run, because {done.began_anew}")
    if not done.sent:
        put(f"{done.backend} has all {done.total} records: {done.address}")
        return
    put(f"{done.sent} of {done.total} records to {done.backend}: {done.address}")
    if offline:
        waiting = [part for part in done.parts if not is_uploaded(Path(part))]
        put(f"send them with: wandb sync {' '.join(waiting)}")
