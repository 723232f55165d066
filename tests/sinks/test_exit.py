"""The end of a program whose backend does not answer: within seconds, with its own exit code, and nothing left over.

The server takes connections and never answers, or there is none. The time counted is that from the last record to
the moment at which nothing holds the program's output any more, so a process that stays behind counts too.
"""

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .wandb_server import KEY, WandbServer

LIMIT_S = 8.0  # five are promised; the rest is for a busy machine

TRAINING = """
    import atexit, sys, threading, time
    from types import SimpleNamespace
    from stepscope.records import Header, Step
    from stepscope.sinks.backends import close_all, connect

    folder, backend, mode, ending = sys.argv[1:5]
    settings = SimpleNamespace(
        output_dir=folder, project="p", name="n", mode=mode, wandb_project=None, wandb_name=None,
        aim_experiment=None, aim_repo=sys.argv[5] or folder, aim_name=None, tensorboard_dir=folder + "/events",
    )
    header = Header(id="a1")
    begun = threading.Event()
    say = lambda rule, message, advice: print(rule, flush=True)
    backends = [connect(backend, settings)(header, say, lambda address: begun.set())]

    def close():
        print("lost", close_all(backends, 3.5), flush=True)

    atexit.register(close)
    if sys.argv[6] == "begun":
        begun.wait(30)
    for step in range(100):
        for backend in backends:
            backend.write(Step(step=step, loss=1.0))
        time.sleep(0.01)
    print(time.time(), flush=True)
    if ending == "close":
        close()
    elif ending == "raise":
        raise ValueError("training broke")
    elif ending == "exit":
        sys.exit(3)
"""


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def train(
    folder: Path, backend: str, mode: str, ending: str, url: str = "", aim_repo: str = "", begun: bool = False
) -> "tuple[float, int, list[str], str]":
    """How long the end took, the exit code, what was said, and what stood on stderr; `begun` waits for the backend."""
    variables = {**os.environ, "WANDB_BASE_URL": url, "WANDB_API_KEY": KEY} if url else dict(os.environ)
    words = [str(folder), backend, mode, ending, aim_repo, "begun" if begun else ""]
    command = [sys.executable, "-c", textwrap.dedent(TRAINING), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables, stdin=subprocess.DEVNULL)
    took, *said = done.stdout.splitlines()
    return time.time() - float(took), done.returncode, said, done.stderr


@pytest.mark.parametrize("ending", [pytest.param("close", marks=pytest.mark.slow), "exit"])
def test_a_silent_server_does_not_hold_the_end(tmp_path: Path, silent_server: str, ending: str) -> None:
    """Neither a close nor the exit; the records are counted as lost."""
    took, code, said, errors = train(tmp_path, "wandb", "online", ending, silent_server)
    assert took < LIMIT_S
    assert (code, errors) == (3 if ending == "exit" else 0, "")
    assert said[:2] == ["wandb-abandoned", "wandb-lost"]
    assert said[2].startswith("lost ")


@pytest.mark.slow
def test_an_exception_ends_the_program_as_ever(tmp_path: Path, silent_server: str) -> None:
    """With one traceback, and its code."""
    took, code, _, errors = train(tmp_path, "wandb", "online", "raise", silent_server)
    assert took < LIMIT_S
    assert code == 1
    assert errors.count("ValueError: training broke") == 1


@pytest.mark.slow
def test_a_closed_port_does_not_hold_the_end(tmp_path: Path) -> None:
    """W&B would go on trying."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    took, code, said, errors = train(tmp_path, "wandb", "online", "exit", url)
    assert took < LIMIT_S
    assert (code, errors) == (3, "")
    assert said[-1].startswith("lost ")


class FallsSilent(WandbServer):
    """Lets a run begin, and never answers when it sends its rows."""

    def take(self, run: str, data: object) -> None:
        time.sleep(60)


def test_a_server_that_falls_silent_does_not_hold_the_end(tmp_path: Path) -> None:
    """After the run has begun there."""
    with FallsSilent() as server:
        took, code, said, errors = train(tmp_path, "wandb", "online", "exit", server.url, begun=True)
    assert took < LIMIT_S
    assert code == 3
    assert "Traceback" not in errors  # W&B itself warns there
    assert said == ["wandb-unfinished", "lost 0"]


@pytest.mark.parametrize("ending", [pytest.param("close", marks=pytest.mark.slow), "exit"])
@pytest.mark.parametrize("backend", ["wandb", "tensorboard"])
def test_all_arrives_when_the_program_ends_early(tmp_path: Path, backend: str, ending: str) -> None:
    """Also when the backend is ready only after the exit has begun."""
    _, code, said, errors = train(tmp_path, backend, "offline", ending)
    if sys.version_info >= (3, 12) and said[:1] == ["wandb-parked"]:
        pytest.skip("W&B was still starting, and from Python 3.12 on no thread can be started at the exit")
    assert (code, errors) == (3 if ending == "exit" else 0, "")
    assert said == (["lost 0"] if ending == "exit" else ["lost 0", "lost 0"])


def test_a_short_burst_is_sent_before_the_end(tmp_path: Path) -> None:
    """Online, within the deadline."""
    with WandbServer() as server:
        _, code, said, errors = train(tmp_path, "wandb", "online", "exit", server.url, begun=True)
    assert (code, said, errors) == (3, ["lost 0"], "")
    assert [row["trainer/step"] for row in server.rows["a1"]] == list(range(100))
    assert server.exit_codes == {"a1": 0}
