"""Programs of their own, for faults that would end or bend the process of the tests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

DEADLINE_S = 100
PREAMBLE = """
import os, shutil, signal, sys, threading, time
import stepscope

def logger(path="training.json", **options):
    return stepscope.TrainingRunLogger(path, **options)

def step(n):
    run.log_step(n, n / 100, 1024, 10, 0.5, 2.0, 1e-3)

def steps(*bounds):
    for n in range(*bounds):
        step(n)
"""


class Done(NamedTuple):
    """How a program ended, and what it said."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        """What the console said of events until the program printed `through`."""
        return _events(self.out.partition("\nthrough\n")[0])

    @property
    def said_at_close(self) -> list[str]:
        """What it said of events after that."""
        return _events(self.out.partition("\nthrough\n")[2])


def _events(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("!!")]


Start = Callable[..., "subprocess.Popen[str]"]
Program = Callable[..., Done]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program in the temporary folder, and ends it with the test."""
    running: list[subprocess.Popen[str]] = []
    env = {name: value for name, value in os.environ.items() if not name.startswith("STEPSCOPE_")}

    def begin(*parts: str) -> "subprocess.Popen[str]":
        calm = ("-W", "ignore::DeprecationWarning:__main__")  # Python 3.12 warns of each fork beside a thread
        command = [sys.executable, *calm, "-c", "\n".join(map(dedent, (PREAMBLE, *parts)))]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(command, cwd=tmp_path, env=env, **pipes))  # type: ignore[call-overload]
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def program(start: Start) -> Program:
    """Runs a program to its end."""

    def run(*parts: str) -> Done:
        process = start(*parts)
        out, err = process.communicate(timeout=DEADLINE_S)
        return Done(process.returncode, out, err)

    return run


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, as any reader of JSON sees them."""
    found: list[dict[str, Any]] = json.loads(path.read_bytes())
    return found


def kinds(path: Path) -> list[str]:
    """The kinds of a file's records, in order."""
    return [record["log"] for record in records(path)]


def steps(path: Path) -> list[int]:
    """The steps that a file holds, in order."""
    return [record["step"] for record in records(path) if record["log"] == "step"]


def rules(path: Path) -> list[str]:
    """The rules of a file's events."""
    return [record["rule"] for record in records(path) if record["log"] == "event"]


def end(path: Path) -> dict[str, Any] | None:
    """How the last attempt in a file ended; None where it was cut off."""
    last = records(path)[-1]
    return last if last["log"] == "end" else None
