"""Two runs side by side: what one has gained over the other, and whether that is more than chance.

    result = compare(read_run("before"), read_run("after"))
    for row in result.rows:
        print(row.name, row.a, row.b, row.low, row.high, row.verdict)
    slowdown(result)                       # [(0.96, 1.01), …]: 95 % intervals of how many times longer a step takes

A number is called better or worse when the whole 95 % interval of its ratio lies on one side of 1 and the change is
large enough to matter; else there is no difference. Losses have no verdict: one run each says nothing of luck.
"""

import msgspec

from ..errors import BadValue
from .measured import Measured, measure
from .ratios import Total, interval, median_interval
from .run_file import Run

BETTER, WORSE, SAME = "better", "worse", "no difference"
LEAST = 0.02  # two runs of the same program differ by as much
LEAST_OF_STEP = 0.01  # a phase's change that matters to the step
SHARE_OF = {"data_gen_percentage": "timing_data_generation_avg", "transfer_percentage": "timing_data_transfer_avg"}
LEAST_POINTS = {"%": 1.0, "0-1": 0.01}

HIGHER = (
    "batches_per_second",
    "tokens_per_second",
    "samples_per_second",
    "epoch_throughput_batches_per_hour",
    "sol",
    "mfu",
    "hfu",
)
MEDIAN = "batch_time_p50"
UNJUDGED = ("cpu_usage_percent",)
ORDER = (
    "batch_time_avg",
    "batch_time_std",
    "batch_time_p50",
    "batch_time_p95",
    "batch_time_p99",
    "batches_per_second",
    "tokens_per_second",
    "samples_per_second",
    "epoch_total_time",
    "epoch_throughput_batches_per_hour",
    "sol",
    "mfu",
    "hfu",
    "data_gen_percentage",
    "transfer_percentage",
)
LAST = ("loss_final", "loss_best", "eval_loss_final", "eval_loss_best")


class Row(msgspec.Struct, frozen=True):
    """One number of both runs; `low` and `high` are the 95 % interval of b / a."""

    name: str
    unit: str
    a: float | None
    b: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str | None = None


class Side(msgspec.Struct, frozen=True):
    """One of the runs, its steps, and how many of them at its start are left out."""

    path: str
    name: str | None
    steps: int
    warm_up: int


class Comparison(msgspec.Struct, frozen=True):
    """Two runs in numbers; `notes` say what stands between them."""

    a: Side
    b: Side
    rows: list[Row]
    notes: list[str]

    def row(self, name: str) -> Row | None:
        """The row of a name."""
        return next((row for row in self.rows if row.name == name), None)


def compare(before: Run, after: Run, skip: int | None = None) -> Comparison:
    """Two runs; the first `skip` steps of each are left out, or as many as a run's length suggests."""
    if skip is not None and skip < 0:
        raise BadValue(f"cannot leave out {skip} steps: give 0 or more")
    a, b = measure(before, skip), measure(after, skip)
    notes = []
    if a.clock != b.clock:
        a, b = measure(before, skip, "host"), measure(after, skip, "host")
        notes = ["one run has device times and the other has not: phases are compared on the host's clock"]
    rows = [_row(name, a, b) for name in _names(a, b)]
    return Comparison(_side(before, a), _side(after, b), rows, notes + _notes(a, b))


def _side(run: Run, found: Measured) -> Side:
    return Side(str(run.path), run.header.name if run.header else None, found.steps, found.warm_up)


def _names(a: Measured, b: Measured) -> list[str]:
    """All names that either run has: pace, shares, phases, memory, loss."""
    known = dict.fromkeys([*a.totals, *b.totals, *a.plain, *b.plain])
    first = [name for name in ORDER if name in known]
    timings = sorted(name for name in known if name.startswith("timing_"))
    rest = sorted(name for name in known if name not in (*first, *timings, *LAST))
    return [*first, *timings, *rest, *(name for name in LAST if name in known)]


def _row(name: str, a: Measured, b: Measured) -> Row:
    before, after = a.totals.get(name), b.totals.get(name)
    if name == MEDIAN:
        return _median_row(a, b)
    if before is None and after is None:
        return Row(name, unit(name), a.plain.get(name), b.plain.get(name), _ratio(a.plain.get(name), b.plain.get(name)))
    values = (before.value if before else None, after.value if after else None)
    found = interval(before, after, _fewest(name)) if before and after else None
    low, high = found or (None, None)
    verdict = None
    if name not in UNJUDGED and values[0] is not None and values[1] is not None:
        verdict = _verdict(name, (values[0], values[1]), found, _step(a))
    if name in SHARE_OF and verdict is not None and _row(SHARE_OF[name], a, b).verdict == SAME:
        verdict = SAME  # the rest of the step has changed, not the phase
    return Row(name, unit(name), *values, _ratio(*values), low, high, verdict)


def _median_row(a: Measured, b: Measured) -> Row:
    """The median step: what a busy machine's outliers leave as it is."""
    before, after = a.plain.get(MEDIAN), b.plain.get(MEDIAN)
    if before is None or after is None:
        return Row(MEDIAN, unit(MEDIAN), before, after)
    found = median_interval(a.totals["batch_time_avg"].over, b.totals["batch_time_avg"].over)
    low, high = found or (None, None)
    verdict = _verdict(MEDIAN, (before, after), found, before)
    return Row(MEDIAN, unit(MEDIAN), before, after, _ratio(before, after), low, high, verdict)


def _fewest(name: str) -> int:
    """Epochs are few and stand for themselves; four of them make an interval, if a wide one."""
    return 4 if name.startswith("epoch_") else 6


def _step(found: Measured) -> float:
    total = found.totals.get("batch_time_avg", Total((), ()))
    return total.value or 0.0


def _ratio(a: float | None, b: float | None) -> float | None:
    return b / a if a is not None and b is not None and a > 0 else None


def _verdict(name: str, values: tuple[float, float], found: tuple[float, float] | None, step: float) -> str | None:
    a, b = values
    if a == b:
        return SAME
    if found is None:
        return None
    if found[0] <= 1 <= found[1] or abs(b - a) < _least(name, a, step):
        return SAME
    return BETTER if (b > a) == (name in HIGHER) else WORSE


def _least(name: str, a: float, step: float) -> float:
    """The smallest change that matters."""
    if name.startswith("timing_"):
        return max(LEAST * a, LEAST_OF_STEP * step)
    return LEAST_POINTS.get(unit(name), LEAST * a)


def unit(name: str) -> str:
    """The unit that a name implies."""
    endings = {"_percentage": "%", "_percent": "%", "_utilization": "%", "_gb": "GB", "pressure": "0-1"}
    endings |= {"batches_per_second": "1/s", "tokens_per_second": "tokens/s", "samples_per_second": "samples/s"}
    endings |= {"_per_hour": "1/h", "sol": "%", "mfu": "%", "hfu": "%", "_final": "", "_best": ""}
    return next((unit for ending, unit in endings.items() if name.endswith(ending)), "s")


def _notes(a: Measured, b: Measured) -> list[str]:
    """What stands between the two."""
    notes = []
    for name in ("tokens", "samples"):
        one, other = getattr(a, f"{name}_a_step"), getattr(b, f"{name}_a_step")
        if one and other and abs(other / one - 1) > LEAST_OF_STEP:
            notes.append(f"a step holds {one:,.0f} {name} in A and {other:,.0f} in B: compare {name}_per_second")
    if a.last_step != b.last_step and "loss_final" in a.plain and "loss_final" in b.plain:
        notes.append(f"A ends at step {a.last_step} and B at step {b.last_step}: so do their final losses")
    return notes


def slowdown(result: Comparison) -> list[tuple[float, float]]:
    """How many times longer the same work takes in B: the 95 % intervals of mean and median, of those that are known.

    Where a step holds more or fewer tokens or samples, the interval of these is the only one.
    """
    for name in ("tokens_per_second", "samples_per_second"):
        if any(name in note for note in result.notes):
            return [(1 / row.high, 1 / row.low) for row in result.rows if row.name == name and row.low and row.high]
    rows = [row for row in result.rows if row.name in ("batch_time_avg", MEDIAN)]
    return [(row.low, row.high) for row in rows if row.low and row.high]
