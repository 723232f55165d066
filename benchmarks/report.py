"""How a benchmark is asked, and how it answers: options, a folder on the disk, a table with verdicts.

asked = options(__doc__)                                   # --rounds 3, --quick
print(table(["what", "median µs", "bar", ""], [["log_step", "9.1", "≤ 3×", verdict(True)]]))
"""

import argparse
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def options(description: str | None) -> argparse.Namespace:
    """What the command line asks for."""
    first_line = (description or "").split("\n")[0]
    parser = argparse.ArgumentParser(description=first_line)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (3)")
    parser.add_argument("--quick", action="store_true", help="a fraction of the calls: to see that it runs")
    parser.add_argument("--seed", type=int, default=None, help="of what is random; a new one where it is not given")
    return parser.parse_args()


def fresh_folder(name: str) -> Path:
    """An empty folder in the repository's build/, so on its disk."""
    folder = ROOT / "build" / "benchmarks" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on."""
    command = ["df", "--output=fstype", str(folder)]  # stat says ext2/ext3 of ext4 as well
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return shown[-1] if shown else "unknown"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, its columns aligned for a terminal."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([text[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *text[1:]])


def verdict(holds: bool) -> str:
    """Whether a bar holds."""
    return "holds" if holds else "MISSED"


def median_us(nanoseconds: Sequence[int]) -> float:
    """The median in microseconds."""
    return statistics.median(nanoseconds) / 1000


def p99_us(nanoseconds: Sequence[int]) -> float:
    """The 99th percentile in microseconds."""
    return sorted(nanoseconds)[int(len(nanoseconds) * 0.99)] / 1000


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median, from the order of the values."""
    ordered = sorted(values)
    outside = max(0, int((len(ordered) - 1.96 * len(ordered) ** 0.5) / 2))
    return ordered[outside], ordered[-1 - outside]
