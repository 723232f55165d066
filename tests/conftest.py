"""What tests share: an empty environment, and a run in a temporary folder."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope import TrainingRunLogger

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun with `&`: then no child would hear a Ctrl-C either
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting or rank of the shell's reaches a test."""
    for name in list(os.environ):
        if name.startswith(("STEPSCOPE_", "WANDB_")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[Callable[..., TrainingRunLogger]]:
    """Makes silent, strict runs that are closed at the end of the test."""
    runs = []

    def make(path: Any = None, **options: Any) -> TrainingRunLogger:
        options = {"verbosity": -2, "strict": True, **options}
        runs.append(TrainingRunLogger(path or tmp_path / "training.json", **options))
        return runs[-1]

    yield make
    for run in runs:
        run.close()


def load(path: Any) -> list[dict[str, Any]]:
    """The records of a file, as any reader of JSON sees them."""
    with open(path) as file:
        return json.load(file)


def kinds(path: Any) -> list[str]:
    """The kinds of a file's records, in order."""
    return [record["log"] for record in load(path)]
