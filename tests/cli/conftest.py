"""Run files for the commands, and two ways to call a command: in this process and as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepscope.cli.main import app
from stepscope.codec import encode
from stepscope.records import End, Eval, Event, Header, Metrics, Record, Step

Write = Callable[..., Path]


def at(second: float) -> str:
    """The time so many seconds into a run."""
    return f"2026-01-15T10:{30 + int(second) // 60:02d}:{second % 60:09.6f}"


def step(number: int, loss: float = 2.0, **known: object) -> Step:
    """A step of a second."""
    values = {"step_tokens": 1000, "duration_ms": 1000, "norm": 0.5, "lr": 1e-3, "time": at(number)} | known
    return Step(step=number, loss=loss, **values)


def whole_run(steps: int = 10, **header: object) -> list[Record]:
    """A run that finished: a header, steps with falling loss, an evaluation, further numbers, an event, an end."""
    names = {"name": "tidy-otter", "host": "elsewhere", "pid": 1, "argv": ["train.py"], "total_steps": steps} | header
    return [
        Header(time=at(0), id="a1", **names),
        *(step(n, loss=10.0 / n) for n in range(1, steps + 1)),
        Eval(time=at(steps), step=steps, eval_tokens=500, duration_ms=250, loss=1.5),
        Metrics(time=at(steps), step=steps, values={"acc/train": 0.75}),
        Event(
            time=at(steps), step=steps, severity="warning", rule="slow", message="data is late", advice="add workers"
        ),
        End(time=at(steps), status="finished", duration_ms=steps * 1000),
    ]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes records as a run file and gives its path."""

    def write_run(records: list[Record], name: str = "training.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"[\n" + b",\n".join(map(encode, records)) + b"\n]\n")
        return path

    return write_run


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch):
    """Calls a command in this process; the result has exit_code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "100")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], prog_name="stepscope")


@pytest.fixture
def process():
    """Calls a command as a process of its own."""

    def run(*words: object, **options: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "stepscope", *map(str, words)]
        env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
        settings = {"capture_output": True, "text": True, "timeout": 60, "env": env, "encoding": "utf-8"} | options
        return subprocess.run(command, **settings)  # type: ignore[call-overload]

    return run
