"""Whether the verdicts are right: faults planted in real trainings, just under a rule's limit, just over, and gross.

    python -m benchmarks.planted_faults
    python -m benchmarks.planted_faults --quick      # one model, and three healthy runs

Under its limit nothing may be named; over it the fault, and nothing else but a speed of light that is low because of
it. The gain that is estimated is held against what taking the fault away saves: in another run it comes and goes by
blocks of steps, and the 95 % interval of their ratio must reach into the band around the estimate. A case that fails
is run twice more, and holds when two of the three do; the table says how many did. What is neither warning nor error
is no naming. Healthy runs are other models, sizes and seeds than those that the rules were tuned on.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .fault_models import JOBS
from .faults import FAULTS
from .healthy_runs import HEALTHY, healthy
from .report import fresh_folder, options, table, verdict
from .watched_run import Told, apart, removal, trained

BAND = 0.30
SIZES = ("under", "over", "gross")
TRIES = 3
FOLLOWS = {"speed_of_light"}  # becomes a warning where another rule has found a cause


class Case(NamedTuple):
    """A fault of a size in a model."""

    model: str
    kind: str
    at: int
    steps: int

    @property
    def size(self) -> float:
        """As the fault understands it."""
        return FAULTS[self.kind].sizes[self.at] or self.steps / 1000

    @property
    def wanted(self) -> str | None:
        """The rule that is to name it; None where none may."""
        return FAULTS[self.kind].rule if self.at else None


class Found(NamedTuple):
    """What came of it once."""

    named: set[str]
    estimate: float | None  # gain
    real: tuple[float, float] | None  # the same, measured: an interval
    sound: bool
    close: bool  # the estimate is within the band, or there is none to compare
    became: float | None  # the fault's size in truth


def once(case: Case, folder: Path, seed: int) -> Found:
    """Run it; where there is a gain, measure that too."""
    asked = (case.model, case.kind, case.size)
    told: Told = apart(trained, *asked, case.steps, folder / "faulty", seed)
    named = (set(told.verdicts) | told.said) - (FOLLOWS if case.wanted else set())
    sound = named == ({case.wanted} if case.wanted else set()) and told.steps == case.steps
    found = told.verdicts.get(case.wanted or "")
    estimate = found.gain if found is not None else None
    if case.wanted is None or not FAULTS[case.kind].costs:
        return Found(named, estimate, None, sound, True, told.became)
    steps = case.steps if case.at == SIZES.index("gross") else 2 * case.steps  # what is small needs a longer look
    real = apart(removal, *asked, steps, folder / "removed", seed)
    return Found(named, estimate, real, sound, estimate is not None and is_close(estimate, real), told.became)


def is_close(estimate: float, real: tuple[float, float]) -> bool:
    """Whether a gain in the measured interval is within the band of the estimate."""
    low, high = real[0] * (1 - BAND), real[1] * (1 + BAND)
    return low <= estimate <= high


def judged(case: Case, folder: Path, seed: int, tries: int) -> list[Found]:
    """Once where it holds, else as often as it takes to say what noise decides."""
    found = [once(case, folder, seed)]
    while len(found) < tries and not (found[0].sound and found[0].close):
        found.append(once(case, folder, seed + len(found)))
    return found


def row(case: Case, found: list[Found]) -> list[str]:
    """Of the table: what was named, how many of the runs hold, and the gain of the newest."""
    wanted, newest = {case.wanted} - {None}, found[-1]
    named = set().union(*(each.named for each in found))
    said = [*sorted(named & wanted), *sorted(named - wanted)]
    became = "" if newest.became is None else f"{newest.became:.3f}"
    what = [f"{SIZES[case.at]}: {shown(case)}", became, case.model, ", ".join(said) or "nothing", *runs(found, "sound")]
    if newest.real is None:
        return [*what, "", "", "", ""]
    estimate = "none" if newest.estimate is None else f"{newest.estimate:.1%}"
    return [*what, estimate, " to ".join(f"{value:.1%}" for value in newest.real), *runs(found, "close")]


def runs(found: list[Found], of: str) -> list[str]:
    """How many hold, and whether most do."""
    held = sum(getattr(each, of) for each in found)
    return [f"{held}/{len(found)}", verdict(2 * held > len(found))]


def shown(case: Case) -> str:
    """A size as a person says it."""
    unit = FAULTS[case.kind].unit
    return f"{case.size:g} × {unit}" if unit == "the limit" else f"{case.size:.3g} {unit}"


def cases(kind: str, quick: bool) -> Iterator[Case]:
    """A fault in all sizes and models, or in those of one model."""
    for at in range(len(SIZES)):
        for model in list(JOBS)[:1] if quick else JOBS:
            yield Case(model, kind, at, 240 if quick else 320)


def healthy_rows(number: int, folder: Path, seed: int) -> Iterator[list[Any]]:
    """A row for each healthy run."""
    for name in list(HEALTHY)[:number]:
        told: Told = apart(healthy, name, folder / name.replace(" ", "_"), seed)
        doctor, live = ", ".join(sorted(told.verdicts)), ", ".join(sorted(told.said))
        shown = [f"{told.median_ms:.1f}", f"{told.steps}", doctor or "nothing", live or "nothing"]
        yield [name, *shown, "nothing", verdict(not told.verdicts and not told.said)]


def main() -> None:
    """Print the tables, each as soon as it is known."""
    asked = options(__doc__)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1_000_000)
    folder = fresh_folder("planted_faults")
    print(f"Faults planted in {len(JOBS)} trainings on a CPU, seed {seed}; the gain to be within ±{BAND:.0%}")
    held = [holds for kind in FAULTS for holds in print_fault(kind, folder, seed, asked.quick)]
    print(f"\n{sum(held)} of {len(held)} cases hold\n\nHealthy runs, in which nothing may be named\n")
    head = ["run", "ms a step", "steps", "doctor", "said while it ran", "bar", ""]
    print(table(head, healthy_rows(3 if asked.quick else len(HEALTHY), folder, seed)))


def print_fault(kind: str, folder: Path, seed: int, quick: bool) -> list[bool]:
    """The table of one fault; whether each of its cases holds."""
    tries = 1 if quick else TRIES
    rows = [row(case, judged(case, folder / kind, seed, tries)) for case in cases(kind, quick)]
    print(f"\n{kind}, to be named {FAULTS[kind].rule}\n")
    head = ["size", "in truth", "model", "named", "runs", "", "estimated gain", "its removal gave", "runs", ""]
    print(table(head, rows), flush=True)
    return ["MISSED" not in cells for cells in rows]


if __name__ == "__main__":
    main()
