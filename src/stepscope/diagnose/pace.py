"""The pace of the steps over the run: whether it drifts, and whether some steps are slow.

    list(pace_verdicts(case, Limits()))

Both compare steps with steps. Where every step says how many tokens it holds and these change, the time of a token
is compared instead, so that longer sequences are no drift.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from .advice import ADVICE
from .case import HOST, Case
from .limits import Limits
from .rows import Rows
from .slopes import block_levels, spread, trend
from .verdict import Verdict, share
from .words import milliseconds, percent

STEADY = 0.4  # Kendall's tau that a drift must have; that of 20 blocks without any is above it once in 100 runs
QUICK = 0.25  # of a block's steps, the quickest: a busy neighbour slows some, a drift slows all
AROUND = 50  # steps that a step is compared with
SIGMAS = 8.0
HEAVY = 0.3  # of the third slowest step's excess


class Pace(NamedTuple):
    """Durations of consecutive steps of one attempt, and where they stand."""

    rows: Rows
    places: list[int]  # their rows
    steps: list[int]
    durations: list[float]

    def column(self, phase: str) -> list[float]:
        """What each step spent in a phase: nothing where it did not enter it."""
        column = self.rows.column(HOST + phase)
        return [column[place] if column[place] > 0 else 0.0 for place in self.places]


def pace_verdicts(case: Case, limits: Limits) -> Iterator[Verdict]:
    """The verdicts on the pace."""
    pace = longest_attempt(case)
    if len(pace.durations) >= limits.steps:
        yield from filter(None, (drift(case, pace, limits), slow_steps(pace, limits)))


def longest_attempt(case: Case) -> Pace:
    """The attempt with most steps: two attempts may have run on two machines."""
    rows, begin = case.timed, case.begin(case.timed)
    timed = list(enumerate(zip(rows.steps[begin:], rows.column("duration_ms")[begin:], strict=True), begin))
    parts = [
        [(place, step, ms) for place, (step, ms) in timed if ms > 0 and first <= step < end]  # false for NaN
        for first, end in pairwise([*case.attempts, 1 << 62])
    ]
    places, steps, durations = zip(*max(parts, key=len), strict=True) if any(parts) else ((), (), ())
    return Pace(rows, list(places), list(steps), list(durations))


def drift(case: Case, pace: Pace, limits: Limits) -> Verdict | None:
    """Steps that take longer and longer."""
    durations, unit = _per_token(case, pace)
    if case.workload_changes(limits.drift):
        return None  # attention makes a token of a longer sequence dearer: nobody can say what is drift
    line = trend(durations, QUICK)
    if line is None or len(durations) < limits.drift_steps or line.steady < STEADY or line.growth < limits.drift:
        return None
    culprit, grown = _grown(pace)
    where = f", most of it in {culprit}" if culprit else ""
    middle = (line.start + line.end) / 2
    return Verdict(
        "drift",
        "warning",
        share(line.growth),
        f"{unit} {percent(line.growth)} longer at the end than at the start, over {len(durations)} steps{where}",
        gain=1 - line.start / middle,
        advice=ADVICE["drift"],
        evidence={"start_ms": round(line.start, 4), "end_ms": round(line.end, 4), "growth": round(line.growth, 4)}
        | {"steps": len(durations), "first_step": pace.steps[0], "last_step": pace.steps[-1]}
        | ({"phase": culprit, "phase_growth_ms": round(grown, 4)} if culprit else {}),
    )


def _per_token(case: Case, pace: Pace) -> tuple[list[float], str]:
    """The durations, per token of a typical step where the steps' tokens change."""
    tokens = dict(zip(case.steps.steps, case.steps.column("tokens"), strict=True))
    held = [tokens.get(step, 0.0) for step in pace.steps]
    if not all(number > 0 for number in held) or min(held) == max(held):
        return pace.durations, "steps take"
    usual = median(held)
    return [ms * usual / number for ms, number in zip(pace.durations, held, strict=True)], "a token's work takes"


def _grown(pace: Pace) -> tuple[str, float]:
    """The phase that grew most, if more than half of the growth is in it."""
    fifth = len(pace.durations) // 5
    whole = median(pace.durations[-fifth:]) - median(pace.durations[:fifth])
    grown = {name: _difference(pace, name, fifth) for name in _top(pace.rows)}
    name = max(grown, key=grown.__getitem__, default="")
    return (name, grown[name]) if name and grown[name] > whole / 2 else ("", 0.0)


def _difference(pace: Pace, phase: str, fifth: int) -> float:
    column = pace.column(phase)
    return median(column[-fifth:]) - median(column[:fifth])


def _top(rows: Rows) -> list[str]:
    """The phases that are no part of another."""
    return [path for path in rows.names(HOST) if "/" not in path]


def slow_steps(pace: Pace, limits: Limits) -> Verdict | None:
    """One slow step in N, in a rhythm or not."""
    excess = excesses(pace.durations, limits.slow_factor)
    slow = [at for at, ms in enumerate(excess) if ms > 0]
    if not 3 <= len(slow) <= 0.4 * len(excess):
        return None
    heavy = [at for at in slow if excess[at] >= HEAVY * sorted(excess)[-3]]  # others may be the machine's own
    rhythm = _rhythm([pace.steps[at] for at in heavy])
    slow = heavy if rhythm else slow
    wasted = sum(excess[at] for at in slow)
    cost = wasted / sum(pace.durations)
    limit = limits.slow_cost if rhythm else limits.slow_cost_irregular
    if cost < limit or wasted < limits.worth_ms * len(excess):
        return None
    culprit, part = _slow_phase(pace, slow)
    every = rhythm or round(len(excess) / len(slow))
    typical = median(pace.durations)
    slowest = fmean(pace.durations[at] for at in slow)
    often = f"every {_ordinal(every)} step takes" if rhythm else f"one step in about {every} takes"
    where = f", most of it in {culprit}" if culprit else ""
    return Verdict(
        "slow_step",
        # without a rhythm they may be long samples or a neighbour on the machine, and no fault of the loop
        "warning" if rhythm or culprit == "data_generation" else "info",
        share(cost),
        f"{often} {milliseconds(slowest)} instead of {milliseconds(typical)}{where}",
        gain=cost,
        advice=ADVICE["slow_data" if culprit == "data_generation" else "slow_step"],
        evidence={"every": every, "periodic": rhythm is not None, "slow_ms": round(slowest, 4)}
        | {"typical_ms": round(typical, 4), "slow_steps": len(slow), "steps": len(excess)}
        | {"examples": [pace.steps[at] for at in slow[:5]]}
        | ({"phase": culprit, "phase_share": round(part, 3)} if culprit else {}),
    )


def excesses(durations: Sequence[float], factor: float) -> list[float]:
    """What each slow step takes beyond the steps around it; 0 for one that is not slow."""
    blocks = max(1, round(len(durations) / AROUND))
    levels = block_levels(durations, blocks)
    around = [levels[at * blocks // len(durations)] for at in range(len(durations))]
    if not any(ms > factor * usual for ms, usual in zip(durations, around, strict=True)):
        return [0.0] * len(durations)
    noise = SIGMAS * spread([ms / usual for ms, usual in zip(durations, around, strict=True)])
    bar = max(factor, 1 + noise)
    return [ms - usual if ms > bar * usual else 0.0 for ms, usual in zip(durations, around, strict=True)]


def _rhythm(steps: Sequence[int]) -> int | None:
    """The N of one slow step in N, where most of the distances are that."""
    distances = Counter(after - before for before, after in pairwise(steps))
    usual, _ = distances.most_common(1)[0]
    near = sum(number for distance, number in distances.items() if abs(distance - usual) <= usual // 10)
    return usual if usual > 1 and near >= 0.7 * distances.total() else None


def _slow_phase(pace: Pace, slow: Sequence[int]) -> tuple[str, float]:
    """The phase that holds more than half of what the slow steps take longer, and how much of it."""
    rest = sorted(set(range(len(pace.durations))) - set(slow))

    def longer(values: Sequence[float]) -> float:
        return fmean(values[at] for at in slow) - median(values[at] for at in rest)

    whole = longer(pace.durations)
    found = {name: longer(pace.column(name)) for name in _top(pace.rows)}
    name = max(found, key=found.__getitem__, default="")
    return (name, found[name] / whole) if name and found[name] > whole / 2 else ("", 0.0)


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
