"""Run the benchmarks and print their tables one after another.

    python -m benchmarks                         # all of them: half an hour
    python -m benchmarks log_call kills --quick  # two of them, with a fraction of the calls
    python -m benchmarks --strict                # exit 1 where a bar is missed

Each runs in a process of its own, so that none finds the threads and the memory of another.
"""

import argparse
import subprocess
import sys

from .report import ROOT

NAMES = (
    *("import_time", "log_call", "read_million", "backend_hangs", "kills"),
    *("phase_cost", "watch_overhead", "run_overhead", "planted_sleeps", "planted_faults"),
    *("gpu_log_call", "gpu_watch", "gpu_device_time", "gpu_memory"),
)


def main() -> int:
    """Run what was named; the exit status is 1 where one failed, or missed a bar and `--strict` was given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure costs beside their bars.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all where none is given")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a bar is missed")
    asked, rest = parser.parse_known_args()
    unknown = sorted(set(asked.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; known are {', '.join(NAMES)}")
    outcomes = [printed(name, rest) for name in asked.names or NAMES]
    failed = any(status != 0 for status, _ in outcomes)
    missed = any("MISSED" in text for _, text in outcomes)
    return int(failed or (asked.strict and missed))


def printed(name: str, rest: list[str]) -> tuple[int, str]:
    """The exit status and the output of one, which is shown line by line."""
    print(f"\n## {name}\n", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", *rest]
    text = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            text += line
    return process.returncode, text


if __name__ == "__main__":
    sys.exit(main())
