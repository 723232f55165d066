"""What a broken backend costs: the training loop beside one without a backend, and the exit.

    python -m benchmarks.backend_hangs

Each loop runs in a process of its own; blocks of steps take turns with the loop that has no backend, and the ratio
is that of neighbours, with the 95 % interval of its median. The loop without a backend is also measured against
itself: that is the noise. W&B is the real one; its server is a port where nobody listens, or somebody who never
answers. The exit is counted from the last step until nothing holds the program's output any more.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from .report import ROOT, fresh_folder, interval, options, table, verdict

RATIO_BAR, EXIT_BAR_S = 1.01, 5.0
STEPS, SETTLE_S = 20, 3.0
WAYS = {
    "none": "no backend, once more",
    "hangs": "blocks for ever in a write",
    "raises": "raises at every write",
    "closed": "W&B, nobody listens",
    "silent": "W&B, the server never answers",
}


class Loop:
    """A training loop that runs steps when asked."""

    def __init__(self, folder: Path, kind: str, url: str = ""):
        folder.mkdir()
        environment = {**os.environ, "WANDB_BASE_URL": url, "WANDB_API_KEY": "a" * 40} if url else dict(os.environ)
        command = [sys.executable, "-m", "benchmarks.backend_process", str(folder), "wandb" if url else kind]
        with open(folder / "output.txt", "w") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._answer()

    def steps(self, count: int) -> int:
        """Nanoseconds of so many steps."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return int(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> float:
        """Seconds that it takes to end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        began = time.monotonic()
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.wait()
        return time.monotonic() - began


class Pair(NamedTuple):
    """A block of the loop, and the mean of the blocks without a backend before it and after it, in nanoseconds."""

    took: float
    control: float


def pairs_of(loop: Loop, control: Loop, count: int) -> list[Pair]:
    """Blocks in turn."""
    found, before = [], control.steps(STEPS)
    for _ in range(count):
        took, after = loop.steps(STEPS), control.steps(STEPS)
        found.append(Pair(took, (before + after) / 2))
        before = after
    return found


def early_end(folder: Path, kind: str, url: str) -> float:
    """Seconds that a loop takes to end which ends soon after its begin, with its backend still starting."""
    loop = Loop(folder, kind, url)
    loop.steps(STEPS)
    return loop.end()


def row(name: str, loop: Loop, control: Loop, rounds: int, count: int, ends: list[float]) -> list[str]:
    """A line of the table; the round whose interval lies highest counts, and the longest end."""
    found = [pairs_of(loop, control, count) for _ in range(rounds)]
    worst = max(found, key=lambda pairs: interval([took / control for took, control in pairs])[0])
    ratios = [took / control for took, control in worst]
    extra_us = statistics.median(took - control for took, control in worst) / STEPS / 1000
    low, high = interval(ratios)
    end = max([loop.end(), *ends])
    held = verdict(low <= RATIO_BAR and end <= EXIT_BAR_S)
    return [
        name,
        f"{statistics.median(ratios):.4f}",
        f"{low:.4f} to {high:.4f}",
        f"{extra_us:+.0f}",
        f"{end:.1f} s",
        held,
    ]


def main() -> None:
    """Print the table."""
    asked = options(__doc__)
    rounds, count = (1, 8) if asked.quick else (asked.rounds, 24)
    folder = fresh_folder("backend_hangs")
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        with socket.create_server(("127.0.0.1", 0)) as closed:
            ports = {"silent": silent.getsockname()[1], "closed": closed.getsockname()[1]}
        urls = {kind: f"http://127.0.0.1:{port}" for kind, port in ports.items()}
        control = Loop(folder / "control", "none")
        loops = {kind: Loop(folder / kind, kind, urls.get(kind, "")) for kind in WAYS}
        step_ms = control.steps(STEPS) / STEPS / 1e6
        time.sleep(SETTLE_S)  # importing a backend is its thread's work, and is done once
        rows = []
        for kind, loop in loops.items():
            ends = [early_end(folder / f"{kind}-{n}", kind, urls.get(kind, "")) for n in range(rounds)]
            rows.append(row(WAYS[kind], loop, control, rounds, count, ends))
        control.end()
    print(
        f"a step takes {step_ms:.1f} ms; the loop's time to that without a backend, worst of {rounds}; and its exit\n"
    )
    head = ["backend", "ratio", "95 % interval", "µs a step", "exit", f"from ≤ {RATIO_BAR}, exit ≤ {EXIT_BAR_S:.0f} s"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
