"""The numbers that sum a run up: what `list`, `show`, the brief and the dashboard print.

    summary = summarize(read_run("output/training.json"))
    summary.status                # 'finished'
    summary.loss.last             # 2.3456
    summary.speed.step_ms         # 156.0: the median

A pure function of what the file says and of the time now; what the file does not say is None.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import isfinite
from statistics import median

import msgspec
from msgspec.structs import replace

from ..records import Event, Header, Rewind, Step
from .alive import writer_alive
from .gpus import GpuSummary, gpus
from .run_file import Run

SEVERITIES = ("error", "warning", "info")


class Curve(msgspec.Struct, frozen=True):
    """How one number went: its ends, its extremes among finite values, and how often it was not finite."""

    count: int = 0
    first: float | None = None
    last: float | None = None
    lowest: float | None = None
    lowest_step: int | None = None
    highest: float | None = None
    highest_step: int | None = None
    non_finite: int = 0


class Speed(msgspec.Struct, frozen=True):
    """Medians over the steps."""

    step_ms: float | None = None
    tokens_per_second: float | None = None
    sol: float | None = None
    share: float | None = None


class EventGroup(msgspec.Struct, frozen=True):
    """Events of one rule: the words of the last one, and how many there were."""

    severity: str
    rule: str
    message: str
    advice: str | None
    count: int
    first_step: int
    last_step: int


class Jump(msgspec.Struct, frozen=True):
    """A rewind: the run went back from a step to an earlier one."""

    from_step: int | None
    to_step: int


class Summary(msgspec.Struct, frozen=True):
    """A run in numbers."""

    path: str
    status: str | None
    reason: str | None
    id: str | None
    name: str | None
    project: str | None
    attempts: int
    ranks: int
    started: str | None
    last_record: str | None
    idle_s: float | None
    duration_s: float | None
    steps: int
    first_step: int | None
    last_step: int | None
    total_steps: int | None
    progress: float | None
    eta_s: float | None
    epoch: float | None
    tokens: int | None
    lr: float | None
    loss: Curve
    eval: Curve
    norm: Curve
    speed: Speed
    gpus: list[GpuSummary]
    events: list[EventGroup]
    rewinds: list[Jump]
    problems: int


def summarize(run: Run, now: datetime | None = None) -> Summary:
    """The run in numbers, as seen at `now`."""
    now = now or datetime.now(UTC)
    header, steps, evals, end = run.header or Header(), run.steps, run.evals, run.end
    times = _times(run)
    last = times[-1] if times else None
    idle = _seconds(last, now.replace(tzinfo=None).isoformat())
    speed = _speed(steps)
    status = end.status if end else _status(run.header, idle, speed.step_ms, now)
    progress = _progress(header, steps)
    return Summary(
        path=str(run.path),
        status=status,
        reason=end.reason if end else None,
        id=header.id or None,
        name=header.name,
        project=header.project,
        attempts=max([h.attempt for h in run.headers], default=1),
        ranks=len(run.ranks),
        started=times[0] if times else None,
        last_record=last,
        idle_s=idle,
        duration_s=_duration([h.time for h in run.headers], times),
        steps=len(steps),
        first_step=steps[0].step if steps else None,
        last_step=steps[-1].step if steps else None,
        total_steps=header.total_steps,
        progress=progress,
        eta_s=_eta(header, steps, speed.step_ms) if status == "running" else None,
        epoch=steps[-1].epoch if steps else None,
        tokens=_tokens(steps),
        lr=steps[-1].lr if steps else None,
        loss=curve((s.step, s.loss) for s in steps),
        eval=curve((e.step, e.loss) for e in evals),
        norm=curve((s.step, s.norm) for s in steps),
        speed=speed,
        gpus=gpus(run),
        events=rank_events(run.events),
        rewinds=[Jump(r.last_step, r.step) for r in run.records("rewind", rank=run.rank) if isinstance(r, Rewind)],
        problems=len(run.problems),
    )


def curve(points: Iterable[tuple[int, float | None]]) -> Curve:
    """The curve of (step, value) pairs; a value that is None counts as not logged."""
    known = [(value, step) for step, value in points if value is not None]
    if not known:
        return Curve()
    finite = [(value, step) for value, step in known if isfinite(value)]
    ends = Curve(count=len(known), first=known[0][0], last=known[-1][0], non_finite=len(known) - len(finite))
    if not finite:
        return ends
    (low, low_step), (high, high_step) = min(finite), max(finite)
    return replace(ends, lowest=low, lowest_step=low_step, highest=high, highest_step=high_step)


def rank_events(events: Iterable[Event]) -> list[EventGroup]:
    """Events by rule, the gravest first, and of the same gravity the latest first."""
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        groups.setdefault((event.severity, event.rule or event.message), []).append(event)
    found = [
        EventGroup(last.severity, last.rule, last.message, last.advice, len(group), group[0].step, last.step)
        for group in groups.values()
        for last in group[-1:]
    ]
    return sorted(found, key=lambda group: (gravity(group.severity), -group.last_step))


def gravity(severity: str) -> int:
    """0 for the gravest; a severity that is not known counts as a warning."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else 1


def _status(header: Header | None, idle: float | None, step_ms: float | None, now: datetime) -> str | None:
    """Of a run without an `end`: running or cut off; None for a foreign file, which never has one."""
    alive = writer_alive(header, idle, step_ms, now)
    if alive is None:
        return None
    return "running" if alive else "cut off"


def _speed(steps: Sequence[Step]) -> Speed:
    return Speed(
        step_ms=_median(s.duration_ms for s in steps),
        tokens_per_second=_median(s.tokens_per_second for s in steps),
        sol=_median(s.sol for s in steps),
        share=_median(s.share for s in steps),
    )


def _median(values: Iterable[float | None]) -> float | None:
    finite = [value for value in values if value is not None and isfinite(value)]
    return float(median(finite)) if finite else None


def _done(steps: Sequence[Step]) -> int:
    """Steps that are behind the run, whether it counts from 0 or from 1."""
    return steps[-1].step + (steps[0].step == 0)


def _progress(header: Header, steps: Sequence[Step]) -> float | None:
    """How much of the run is done, 0 to 1, by steps or by epochs."""
    if steps and header.total_steps:
        return min(1.0, _done(steps) / header.total_steps)
    if steps and header.total_epochs and steps[-1].epoch is not None:
        return min(1.0, steps[-1].epoch / header.total_epochs)
    return None


def _eta(header: Header, steps: Sequence[Step], step_ms: float | None) -> float | None:
    if not steps or not header.total_steps or step_ms is None:
        return None
    return max(0, header.total_steps - _done(steps)) * step_ms / 1000


def _tokens(steps: Sequence[Step]) -> int | None:
    """Tokens of all steps; unknown where not every step was logged."""
    if not steps or len(steps) != steps[-1].step - steps[0].step + 1 or any(s.step_tokens is None for s in steps):
        return None
    return sum(s.step_tokens or 0 for s in steps)


def _times(run: Run) -> list[str]:
    """When the run gave a sign of life, in order."""
    signs = [r for kind in ("run", "step", "eval", "end") for r in run.records(kind, run.rank, superseded=True)]
    return sorted(time.replace(" ", "T") for r in signs if (time := getattr(r, "time", "")))


def _duration(starts: list[str], times: list[str]) -> float | None:
    """Seconds in which the run was at work: from each start to the last sign of life before the next."""
    if len(times) < 2:
        return None
    edges = [bisect_left(times, start) for start in starts] or [0]
    spans = [_seconds(times[a], times[b - 1]) for a, b in zip(edges, [*edges[1:], len(times)], strict=True) if b > a]
    return None if None in spans else sum(span for span in spans if span is not None)


def _seconds(begin: str | None, end: str | None) -> float | None:
    try:
        return (datetime.fromisoformat(end or "") - datetime.fromisoformat(begin or "")).total_seconds()
    except (ValueError, TypeError):  # no time, or one of a foreign format
        return None
