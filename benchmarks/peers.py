"""The trackers that ours is measured beside: where they come from, and a process of each.

    with Peer("trackio", folder) as peer:
        peer.times("step", calls=1000)        # nanoseconds of each call

Each peer gets an environment of its own under .venv-peers/, made when it is first needed: their requirements
contradict each other. One that cannot be installed or started raises `Unavailable` with the reason.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType
from typing import Any

from .report import ROOT

PINNED = {
    "trackio": "0.43.0",
    "wandb": "0.31.0",
    "tensorboardX": "2.6.5",
    "tensorboard": "2.21.0",
    "aim": "3.29.1",
    "mlflow": "3.17.2",
}
SHOWN = {"wandb": "wandb offline"}
INSTALL_S, START_S = 900, 120


class Unavailable(Exception):
    """A peer that cannot be measured here, and why."""


def environment(name: str) -> Path:
    """The interpreter that has the peer; ours is the one that runs this."""
    if name == "stepscope":
        return Path(sys.executable)
    folder = ROOT / ".venv-peers" / f"{name}-{PINNED[name]}"
    if not (folder / "installed").exists():
        print(f"installing {name} {PINNED[name]} into {folder.relative_to(ROOT)}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        install(folder / "bin" / "python", f"{name}=={PINNED[name]}")
        (folder / "installed").touch()
    return folder / "bin" / "python"


def install(python: Path, requirement: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"not installed within {INSTALL_S} s") from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise Unavailable(f"cannot be installed: {errors[-1] if errors else done.stderr[-200:]}")


class Peer:
    """A tracker in its process, which measures when asked and is idle else."""

    def __init__(self, name: str, folder: Path):
        self.name = name
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        command = [str(environment(name)), str(Path(__file__).with_name("peer_process.py")), name, str(self._folder)]
        with open(self._folder / "output.txt", "w") as output:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
            )
        self._answer()

    def times(self, payload: str, calls: int, pause: float = 0.0, limit: float = 2.0) -> list[int]:
        """Nanoseconds of each call, one every `pause` seconds or as fast as they go."""
        asked = {"payload": payload, "calls": calls, "pause": pause, "limit": limit}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        found: list[int] = self._answer()
        return found

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = (self._folder / "output.txt").read_text(errors="replace").strip().splitlines()
            raise Unavailable(f"its process ended: {said[-1] if said else 'without a word'}")
        return json.loads(line)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; one that does not end by itself within a while is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
