"""What it costs to read a file of a million steps: against `json.load` of the same file.

    python -m benchmarks.read_million
    python -m benchmarks.read_million --quick

The two take turns, each reading in a process of its own; times are without the interpreter's start and its
imports, from the call that opens the file. The worst round of three counts.
"""

import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from stepscope.codec import encode
from stepscope.records import Eval, Header, Record, Step

from .report import file_system, fresh_folder, options, table, verdict

BAR = 3.0
JSON = "with open(sys.argv[1]) as file: json.load(file)"
OURS = {
    'series("loss")': 'assert len(read_run(sys.argv[1]).series("loss")) == int(sys.argv[2])',
    "for step in .steps": "for step in read_run(sys.argv[1]).steps: pass",
    "for eval in .evals": "for eval in read_run(sys.argv[1]).evals: pass",
    "list(.steps)": "assert len(list(read_run(sys.argv[1]).steps)) == int(sys.argv[2])",
    ".problems": "assert not read_run(sys.argv[1]).problems",
}
BARRED = {'series("loss")', "for step in .steps", "for eval in .evals"}
PROGRAM = """
import json, resource, sys, time
from stepscope import read_run
began = time.perf_counter()
{}
took = time.perf_counter() - began
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


class Cost(NamedTuple):
    """Seconds, and the process's highest memory in MiB."""

    seconds: float
    memory: float


def write(path: Path, steps: int) -> None:
    """A run of so many steps, with an evaluation every thousand."""
    chance = random.Random(1)
    with path.open("wb") as file:
        file.write(b"[\n" + encode(Header(time="2026-01-15T10:30:00.123456", id="a", config={"lr": 2e-4})))
        for number in range(steps):
            for record in records(number, steps, chance):
                file.write(b",\n" + encode(record))
        file.write(b"\n]\n")


def records(number: int, steps: int, chance: random.Random) -> list[Record]:
    """What a step logs."""
    time = f"2026-01-15T10:{number // 60 % 60:02}:{number % 60:02}.{number % 1_000_000:06}"
    loss, norm, epoch = 2 + chance.random(), chance.random(), number / steps
    step = Step(time=time, step=number, epoch=epoch, step_tokens=16384, duration_ms=156, norm=norm, loss=loss, lr=2e-4)
    ended = Eval(time=time, step=number, epoch=epoch, eval_tokens=32768, duration_ms=234, loss=loss)
    return [step] if number % 1000 else [step, ended]


def cost(code: str, path: Path, steps: int) -> Cost:
    """What it costs to run `code` in a new process."""
    command = [sys.executable, "-c", PROGRAM.format(code), str(path), str(steps)]
    seconds, memory = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return Cost(float(seconds), float(memory))


def row(name: str, ours: list[Cost], theirs: list[Cost]) -> list[str]:
    """A line of the table: the worst round of ours."""
    ratios = [their.seconds / our.seconds for our, their in zip(ours, theirs, strict=True)]
    memory = max(our.memory for our in ours)
    holds = min(ratios) >= BAR and memory < min(their.memory for their in theirs)
    times = [f"{max(our.seconds for our in ours):.2f}", f"{min(ratios):.1f}×", f"{memory:.0f}"]
    return [name, *times, *((f"≥ {BAR:.0f}×, less memory", verdict(holds)) if name in BARRED else ("", ""))]


def main() -> None:
    """Write the file, read it in turn, print the table."""
    asked = options(__doc__)
    steps = 100_000 if asked.quick else 1_000_000
    folder = fresh_folder("read_million")
    path = folder / "training.json"
    write(path, steps)
    size = path.stat().st_size
    print(f"{steps:,} steps, {size / 2**20:.0f} MiB on {file_system(folder)}, worst of {asked.rounds}\n")
    theirs: list[Cost] = []
    ours: dict[str, list[Cost]] = {name: [] for name in OURS}
    for _ in range(asked.rounds):
        theirs.append(cost(JSON, path, steps))
        for name, code in OURS.items():
            ours[name].append(cost(code, path, steps))
    best = min(theirs)
    rows = [["json.load", f"{best.seconds:.2f}", "1×", f"{best.memory:.0f}", "", ""]]
    print(table(["", "s", "faster", "peak MiB", "bar", ""], [*rows, *(row(name, ours[name], theirs) for name in OURS)]))
    path.unlink()


if __name__ == "__main__":
    main()
