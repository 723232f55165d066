"""The numbers that sum a run up: what `list`, `show`, the brief and the dashboard print.

    summary = summarize(read_run("output/training.json"))
    summary.status                # 'finished'
    summary.loss.last             # 2.3456
    summary.speed.step_ms         # 156.0: the median

A pure function of what the file says and of the time now; what the file does not say is None.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ..profiling_tags import shares
from ..records import Epoch, Event, Header, Rewind, Step
from .alive import writer_alive
from .curve import Column, Curve, columns, curve, typical
from .gpus import GpuSummary, gpus
from .run_file import Run
from .times import at_work, seconds, signs_of_life

SEVERITIES = ("error", "warning", "info")


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
    shares: dict[str, float]
    gpus: list[GpuSummary]
    events: list[EventGroup]
    rewinds: list[Jump]
    problems: int


COLUMNS = ["step", "step_tokens", "loss", "norm", "duration_ms", "tokens_per_second", "sol", "share"]


def summarize(run: Run, now: datetime | None = None) -> Summary:
    """The run in numbers, as seen at `now`."""
    header, end, times = run.header or Header(), run.end, signs_of_life(run)
    first, last = next(iter(run.steps), Step()), run.steps[-1] if run.steps else Step()
    found = columns(run.steps, COLUMNS)
    count = len(found["step"].steps)
    speed = Speed(*(typical(found[name]) for name in ("duration_ms", "tokens_per_second", "sol", "share")))
    idle = seconds(times[-1], (now or datetime.now(UTC)).replace(tzinfo=None).isoformat()) if times else None
    status = end.status if end else _status(run.header, idle, speed.step_ms)
    done = last.step + (first.step == 0) if count else 0  # whether the run counts from 0 or from 1
    tokens = _tokens(found["step_tokens"], last.step - first.step + 1)
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
        last_record=times[-1] if times else None,
        idle_s=idle,
        duration_s=at_work(run.headers, times),
        steps=count,
        first_step=first.step if count else None,
        last_step=last.step if count else None,
        total_steps=header.total_steps,
        progress=_progress(header, done, tokens, last.epoch),
        eta_s=_eta(header, done, speed.step_ms) if status == "running" else None,
        epoch=last.epoch,
        tokens=tokens,
        lr=last.lr,
        loss=curve(found["loss"]),
        eval=curve(columns(run.evals, ["loss"])["loss"]),
        norm=curve(found["norm"]),
        speed=speed,
        shares=_shares(run),
        gpus=gpus(run),
        events=rank_events(run.events),
        rewinds=[Jump(r.last_step, r.step) for r in run.records("rewind", rank=run.rank) if isinstance(r, Rewind)],
        problems=len(run.problems),
    )


def _shares(run: Run) -> dict[str, float]:
    """Where the time of the newest epoch went, in percent."""
    epochs = [record for record in run.records("epoch", rank=run.rank) if isinstance(record, Epoch)]
    return {name: percent for name, _, percent in shares(epochs[-1])} if epochs else {}


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


def _status(header: Header | None, idle: float | None, step_ms: float | None) -> str | None:
    """Of a run without an `end`: running or cut off; None for a foreign file, which never has one."""
    alive = writer_alive(header, idle, step_ms)
    if alive is None:
        return None
    return "running" if alive else "cut off"


def _progress(header: Header, done: int, tokens: int | None, epoch: float | None) -> float | None:
    """How much of the run is done, 0 to 1, by steps, tokens or epochs."""
    if done and header.total_steps:
        return min(1.0, done / header.total_steps)
    if tokens and header.total_tokens:
        return min(1.0, tokens / header.total_tokens)
    if epoch is not None and header.total_epochs:
        return min(1.0, epoch / header.total_epochs)
    return None


def _eta(header: Header, done: int, step_ms: float | None) -> float | None:
    if not done or not header.total_steps or step_ms is None:
        return None
    return max(0, header.total_steps - done) * step_ms / 1000


def _tokens(tokens: Column, steps: int) -> int | None:
    """Tokens of all steps; unknown where not every step was logged with its own."""
    return int(sum(tokens.values)) if tokens.values and len(tokens.values) == steps else None
