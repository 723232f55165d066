"""What `import stepscope` costs after the interpreter's start.

    python -m benchmarks.import_time

Each round starts a bare interpreter and one that imports, one right after the other, so that a busy machine
slows both; the figure is the median of the differences.
"""

import statistics
import subprocess
import sys
import time

ROUNDS, BAR_MS = 11, 60.0
HEAD = "| what | median | range | bar |  |\n|---|---|---|---|---|"


def milliseconds(program: str) -> float:
    """Wall time of a new interpreter that runs `program`."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return (time.perf_counter() - began) * 1000


def differences(program: str, rounds: int = ROUNDS) -> list[float]:
    """How much longer than a bare interpreter it takes, round by round; a first one warms the disk's cache."""
    return [milliseconds(program) - milliseconds("pass") for _ in range(rounds + 1)][1:]


def row(what: str, program: str, bar: float | None = None) -> str:
    """A line of the table."""
    found = differences(program)
    median = statistics.median(found)
    held = "" if bar is None else "holds" if median <= bar else "MISSED"
    limit = "" if bar is None else f"≤ {bar:.0f} ms"
    return f"| {what} | {median:.1f} ms | {min(found):.1f} to {max(found):.1f} ms | {limit} | {held} |"


def main() -> None:
    """Print the table."""
    print(HEAD)
    print(row("`import stepscope`", "import stepscope", BAR_MS))
    print(row("… and its logger", "import stepscope; stepscope.TrainingRunLogger"))
    print(row("… and its reader", "import stepscope; stepscope.read_run"))


if __name__ == "__main__":
    main()
