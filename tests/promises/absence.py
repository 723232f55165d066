"""What is promised and not there yet: how its absence is told from every other failure.

    stepscope.watch(model)                           # AttributeError: absent(error) is "stepscope.watch"
    command("doctor", file, "--json")                # NotThere("stepscope doctor"), else what it printed
    program("trainers/lm/train_lm.py", "--help")     # the same for a trainer or a script
    names_of("trainers/lm/train_lm.py")              # for what it defines
    make("bench-cost")                               # and for a target of the Makefile

A test that waits is an xfail for `Absent` alone: any other error in it, and its passing, fails.
"""

import functools
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import stepscope

ROOT = Path(__file__).resolve().parents[2]

CAPABILITIES = {
    "stepscope.gradient_norms": "model health",
    "stepscope.spectral_norms": "model health",
    "stepscope.router_statistics": "model health",
    "stepscope.TrainingMonitor": "model health",
    "stepscope.WeightUpdateMonitor": "model health",
    "stepscope.SimpleLogger": "model health",
    "make bench-cost": "model health",
    "stepscope.mup": "width scaling",
    "stepscope.coordinate_check": "width scaling",
    "trainers/speedrun/train.py": "speedrun trainer",
    "trainers/speedrun/scripts/run_basic_speedrun.sh": "speedrun trainer",
    "trainers/speedrun/scripts/run_mup_width_group_scaling.sh": "speedrun trainer",
    "trainers/speedrun/scripts/data": "speedrun trainer",
    "trainers/lm/train_lm.py": "language-model trainer",
    "trainers/mae/train.py": "MAE trainer",
}


class Absent(Exception):
    """The one failure that a waiting test may have: the promised name is not there."""


class NotThere(LookupError):
    """A command, a program or a make target that does not exist yet; its argument is the name."""


def absent(error: BaseException) -> str | None:
    """The promised name whose absence `error` is; None for any other error."""
    if isinstance(error, NotThere):
        return str(error.args[0])
    if isinstance(error, AttributeError) and error.obj is stepscope:
        return f"stepscope.{error.name}"
    return None


def command(*words: Any) -> str:
    """What `stepscope …` prints."""
    if not re.search(rf"^\W*{words[0]}\b", _commands(), re.MULTILINE):
        raise NotThere(f"stepscope {words[0]}")
    return _output([sys.executable, "-m", "stepscope", *map(str, words)])


@functools.cache
def _commands() -> str:
    return _output([sys.executable, "-m", "stepscope", "--help"])


def program(path: str, arguments: str = "", at: str | Path | None = None, **environment: str) -> str:
    """What a trainer or a script of the repository prints, run in the folder `at` (its own where none is given)."""
    file = script(path)
    interpreter = "bash" if file.suffix == ".sh" else sys.executable
    return _output([interpreter, str(file), *shlex.split(arguments)], at or file.parent, environment)


def script(path: str) -> Path:
    """A trainer or a script of the repository."""
    if not (ROOT / path).exists():
        raise NotThere(path)
    return ROOT / path


def names_of(path: str) -> SimpleNamespace:
    """What a trainer defines, without training; its own folder comes first on the path, as when it is run."""
    file = script(path)
    sys.path.insert(0, str(file.parent))
    try:
        return SimpleNamespace(**runpy.run_path(str(file), run_name=file.stem))
    finally:
        sys.path.remove(str(file.parent))


def make(target: str) -> str:
    """What `make target` prints."""
    if not re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
        raise NotThere(f"make {target}")
    return _output(["make", "-s", target], ROOT)


def _output(words: list[str], at: str | Path | None = None, environment: dict[str, str] | None = None) -> str:
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **(environment or {})}
    done = subprocess.run(words, cwd=at, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
