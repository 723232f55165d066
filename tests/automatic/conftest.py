"""Scripts run bare and watched, and what they and their run files say."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import load

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")},
    **{"PYTHONPATH": str(SCRIPTS), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    **{"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "80", "PYTHONWARNINGS": "ignore"},
}


class Ended(NamedTuple):
    """A script that has ended."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def told(self) -> dict[str, Any]:
        """What the script saw."""
        return json.loads(self.stdout.splitlines()[-1])

    @property
    def records(self) -> list[dict[str, Any]]:
        """Its run file; there is one."""
        (path,) = self.folder.glob("*.json")
        return load(path)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The records of a kind."""
        return [record for record in self.records if record["log"] == kind]

    @property
    def events(self) -> dict[str, str]:
        """What was said, by rule."""
        return {event["rule"]: event["message"] for event in self.of("event")}


class Forks:
    """The process that becomes the scripts."""

    def __init__(self, folder: Path):
        command = [sys.executable, "-m", "tests.automatic.forks"]
        self._errors = open(folder / "forks.txt", "w")  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, text=True, stdin=-1, stdout=-1, stderr=self._errors
        )

    def run(self, words: list[str], folder: Path, watched: bool, options: list[str]) -> Ended:
        """A script from its start to its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        folder.mkdir(parents=True, exist_ok=True)
        said = [folder / "stdout", folder / "stderr"]
        asked = {"words": words, "watched": watched, "options": options, "folder": str(folder)}
        self.process.stdin.write(json.dumps({**asked, "stdout": str(said[0]), "stderr": str(said[1])}) + "\n")
        self.process.stdin.flush()
        code = json.loads(self.process.stdout.readline())
        return Ended(code, *(path.read_text() for path in said), folder / "output")

    def close(self) -> None:
        """End it."""
        self.process.communicate(timeout=20)
        self._errors.close()


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """One for all tests."""
    forks = Forks(tmp_path_factory.mktemp("forks"))
    yield forks
    forks.close()


Watch = Callable[..., Ended]


def script_of(text: str, folder: Path) -> str:
    """A script of that name, or of that text."""
    if text.endswith(".py"):
        return str(SCRIPTS / text)
    path = folder / "train.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


_ended: dict[tuple[str, ...], Ended] = {}


def once(forks: Forks, words: list[str], folder: Path, watched: bool) -> Ended:
    """A script of the folder is run once for all tests that look at it."""
    key = (str(watched), *words)
    if key in _ended:
        return _ended[key]
    ended = forks.run(words, folder, watched, ["--output-dir", "output"])
    if Path(words[0]).parent == SCRIPTS:
        _ended[key] = ended
    return ended


@pytest.fixture
def bare(forks: Forks, tmp_path: Path) -> Watch:
    """Runs a script as `python script.py` would."""
    return lambda script, *words: once(forks, [script_of(script, tmp_path), *words], tmp_path / "bare", False)


@pytest.fixture
def watched(forks: Forks, tmp_path: Path) -> Watch:
    """Runs a script by `stepscope run script.py`."""

    return lambda script, *words: once(forks, [script_of(script, tmp_path), *words], tmp_path / "watched", True)


def run_both(
    commands: tuple[list[str], list[str]],
    folder: Path,
    said: str = "",
    folder_of_both: str | None = None,
    together: bool = True,
) -> tuple[Ended, Ended]:
    """Two commands, each a process of its own, in a folder of its own: bare, watched."""
    started: list[tuple[Path, Any]] = []
    ended: list[Ended] = []
    for name, command in zip(("bare", "watched"), commands, strict=True):
        here = folder / (folder_of_both or name)
        here.mkdir(parents=True, exist_ok=True)
        settings = {"cwd": here, "env": ENVIRONMENT, "text": True, "stdin": -1, "stdout": -1, "stderr": -1}
        started.append((here, subprocess.Popen(command, **settings)))
        if name == "bare" and not together:
            started[0][1].wait(120)
    for here, process in started:
        stdout, stderr = process.communicate(said, timeout=120)
        ended.append(Ended(process.returncode, stdout, stderr, here / "output"))
    return ended[0], ended[1]


STEPSCOPE = [sys.executable, "-m", "stepscope", "run", "--output-dir", "output"]


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., tuple[Ended, Ended]]:
    """Runs a script bare and watched, each in a process of its own."""

    def run(script: str, *words: str) -> tuple[Ended, Ended]:
        path = script_of(script, tmp_path)
        return run_both(([sys.executable, path, *words], [*STEPSCOPE, path, *words]), tmp_path)

    return run


def assert_unchanged(bare: Ended, watched: Ended) -> None:
    """The script's output, which holds the hash of its weights, and its exit code are the same."""
    assert watched.stdout == bare.stdout, watched.stderr
    assert watched.code == bare.code


def assert_steps(ended: Ended) -> None:
    """The run file has the steps that the script saw, number by number."""
    seen, found = ended.told["steps"], ended.of("step")
    assert [step["step"] for step in found] == list(range(1, len(seen) + 1))
    several = {record["step"]: record["values"] for record in ended.of("metrics")}
    for known, step in zip(seen, found, strict=True):
        losses, epoch = known.pop("losses", None), known.pop("epoch", None)
        assert epoch is None or step["epoch"] == pytest.approx(epoch)
        if losses is not None:
            assert several[step["step"]] == {f"loss/{n}": value for n, value in enumerate(losses)}
        known = {name: value for name, value in known.items() if value is not None}
        assert {name: step.get(name) for name in known} == known, step
        assert (
            step["duration_ms"]
            >= sum(spent for path, spent in phases_of(ended)[step["step"]].items() if "/" not in path) - 0.01
        )


def phases_of(ended: Ended) -> dict[int, dict[str, float]]:
    """Host milliseconds by phase and step."""
    return {record["step"]: record["host_ms"] for record in ended.of("phases")}
