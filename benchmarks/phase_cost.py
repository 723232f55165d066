"""What a phase costs the training thread on a CPU: eight of them a step, empty, so that nothing but us is timed.

    python -m benchmarks.phase_cost
    python -m benchmarks.phase_cost --quick

Every step times its eight brackets together, the two readings of the clock included; the run is a real one, with its
file on the repository's disk and the thread that reads the machine beside it. The worst round counts.
"""

import statistics
from time import perf_counter_ns
from typing import Any

from .report import fresh_folder, options, p99_us, table, verdict

BAR_US = 2.0
PHASES = 8


def eight(scope: Any) -> int:
    """Nanoseconds of the eight phases of *MAE profiling*, with nothing in them."""
    begin = perf_counter_ns()
    with scope.phase("data_generation"):
        pass
    with scope.phase("data_transfer"):
        pass
    with scope.phase("forward_pass"):
        pass
    with scope.phase("backward_pass"):
        pass
    with scope.phase("optimizer_step"):
        pass
    with scope.phase("ema_update"):
        pass
    with scope.phase("validation_epoch"):
        pass
    with scope.phase("visualization_generation"):
        pass
    return perf_counter_ns() - begin


def one_round(number: int, steps: int) -> tuple[list[int], list[int]]:
    """Nanoseconds of a phase in each step, and of all that a step's bracket adds: its records and the sums."""
    import stepscope

    folder = fresh_folder(f"phase_cost_{number}")
    phases, brackets = [], []
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run:
        scope = stepscope.watch(run=run, card=False)
        for _ in range(steps):
            begin = perf_counter_ns()
            with scope.step():
                spent = eight(scope)
            brackets.append(perf_counter_ns() - begin - spent)
            phases.append(spent // PHASES)
        scope.close()
    return phases[steps // 10 :], brackets[steps // 10 :]


def main() -> None:
    """Print the table."""
    asked = options(__doc__)
    rounds, steps = (1, 2_000) if asked.quick else (asked.rounds, 30_000)
    rows, worst = [], 0.0
    for number in range(1, rounds + 1):
        phases, brackets = one_round(number, steps)
        median = statistics.median(phases) / 1000
        worst = max(worst, median)
        rows.append([f"{number}", f"{median:.2f}", *spread_us(phases), f"{statistics.median(brackets) / 1000:.1f}"])
    print(f"An empty `with scope.phase(…)` on a CPU, µs, mean of the {PHASES} of each of {steps:,} steps\n")
    head = ["round", "median", "5 %", "95 %", "99 %", "a step's bracket and records", "bar", ""]
    rows = [[*row, "", ""] for row in rows]
    print(table(head, [*rows, ["worst", f"{worst:.2f}", "", "", "", "", f"≤ {BAR_US:g}", verdict(worst <= BAR_US)]]))


def spread_us(nanoseconds: list[int]) -> list[str]:
    """Between which values nine in ten lie, and all but one in a hundred."""
    ordered = sorted(nanoseconds)
    low, high = ordered[len(ordered) // 20], ordered[len(ordered) * 19 // 20]
    return [f"{low / 1000:.2f}", f"{high / 1000:.2f}", f"{p99_us(nanoseconds):.2f}"]


if __name__ == "__main__":
    main()
