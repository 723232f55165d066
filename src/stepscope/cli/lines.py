"""A summary in words, one fact a line: what `show` prints and what the brief is made of.

lines(summary, run.header)      # [("What", "python train.py"), ("Loss", "10.82 → 2.35 · lowest …"), …]
"""

import shlex

from ..readers.curve import Curve
from ..readers.gpus import GpuSummary
from ..readers.summary import EventGroup, Summary
from ..records import Header
from .numbers import ago, count, duration, milliseconds, moment, number, percent, rate, size

GPUS_SHOWN = 8


def lines(run: Summary, header: Header | None) -> list[tuple[str, str]]:
    """What there is to say about a run; what is not known at all has no line."""
    facts = [
        ("What", shlex.join(header.argv) if header and header.argv else ""),
        ("Where", _where(run, header)),
        ("When", _when(run)),
        ("Progress", _progress(run)),
        ("Loss", curve_line(run.loss)),
        ("Eval", curve_line(run.eval) + (f" · {count(run.eval.count, 'evaluation')}" if run.eval.count else "")),
        ("Gradient", _norm(run.norm)),
        ("Speed", _speed(run)),
        ("Time", _join(*(f"{name} {share:.0f} %" for name, share in run.shares.items() if share >= 0.5))),
        *((_gpu_label(gpu, run), _gpu(gpu)) for gpu in run.gpus[:GPUS_SHOWN]),
        ("GPUs", f"{len(run.gpus) - GPUS_SHOWN} more, see --json" if len(run.gpus) > GPUS_SHOWN else ""),
        ("Rewinds", ", ".join(f"from step {jump.from_step} to {jump.to_step}" for jump in run.rewinds)),
        ("Ended", _ended(run)),
    ]
    return [(label, text) for label, text in facts if text]


def event_lines(event: EventGroup) -> tuple[str, str]:
    """An event, and its advice."""
    where = f"step {event.last_step}"
    if event.count > 1:
        where = f"{event.count} times, steps {event.first_step} to {event.last_step}"
    rule = f" [{event.rule}]" if event.rule else ""
    return f"{event.message}{rule} ({where})", event.advice or ""


def curve_line(curve: Curve) -> str:
    """A loss from its first value to its last, its lowest, and how often it was no number."""
    if not curve.count:
        return "n/a"
    parts = [number(curve.last) if curve.count == 1 else f"{number(curve.first)} → {number(curve.last)}"]
    if curve.count > 1 and curve.lowest is not None:
        parts.append(f"lowest {number(curve.lowest)} at step {curve.lowest_step}")
    if curve.non_finite:
        parts.append(f"{curve.non_finite} of {curve.count} not finite")
    return " · ".join(parts)


def _join(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _where(run: Summary, header: Header | None) -> str:
    if header is None:
        return ""
    ranks = f"{header.world_size} ranks" if header.world_size and header.world_size > 1 else ""
    files = f"{run.ranks} of them with a file" if ranks and run.ranks > 1 else ""
    git = header.git
    commit = f"git {git.commit[:10]}{' with changes' if git.dirty else ''}" if git else ""
    return _join(header.host or "", ranks, files, commit)


def _when(run: Summary) -> str:
    return _join(
        f"{moment(run.started)}, at work for {duration(run.duration_s)}",
        f"attempt {run.attempts}" if run.attempts > 1 else "",
        f"last record {ago(run.idle_s)}",
    )


def _progress(run: Summary) -> str:
    if run.last_step is None:
        return "no step yet"
    of = f" of {run.total_steps}" if run.total_steps else ""
    return _join(
        f"step {run.last_step}{of}" + (f" ({percent(run.progress)})" if run.progress is not None else ""),
        f"epoch {run.epoch:.2f}" if run.epoch is not None else "",
        f"{rate(run.tokens)} tokens" if run.tokens is not None else "",
        f"about {duration(run.eta_s)} left" if run.eta_s is not None else "",
    )


def _norm(norm: Curve) -> str:
    if not norm.count:
        return ""
    highest = f"highest {number(norm.highest)} at step {norm.highest_step}" if norm.highest is not None else ""
    odd = f"{norm.non_finite} of {norm.count} not finite" if norm.non_finite else ""
    return _join(f"norm {number(norm.last)}", highest, odd)


def _speed(run: Summary) -> str:
    speed = run.speed
    if speed.step_ms is None:
        return "n/a"
    return _join(
        f"{milliseconds(speed.step_ms)} a step (median)",
        f"{rate(speed.tokens_per_second)} tokens/s",
        f"sol {speed.sol:.1f} %" if speed.sol is not None else "",
        f"watching costs {percent(speed.share, 2)}" if speed.share is not None else "",
    )


def _gpu_label(gpu: GpuSummary, run: Summary) -> str:
    place = "" if gpu.id is None else f" {gpu.id}"
    return f"GPU{place}" + (f", rank {gpu.rank}" if run.ranks > 1 else "")


def _gpu(gpu: GpuSummary) -> str:
    power = f"{gpu.power / 1000:.0f}" if gpu.power is not None else ""
    limit = f" of {gpu.power_limit / 1000:.0f}" if power and gpu.power_limit else ""
    return _join(
        gpu.name or "",
        f"{gpu.gpu_util:.0f} % busy" if gpu.gpu_util is not None else "",
        f"{power}{limit} W" if power else "",
        f"up to {gpu.temperature:.0f} °C" if gpu.temperature is not None else "",
        f"at least {size(gpu.dram_free)} free" if gpu.dram_free is not None else "",
        f"throttled: {gpu.throttle}" if gpu.throttle else "",
    )


def _ended(run: Summary) -> str:
    if run.status == "running":
        return ""
    if run.status == "cut off":
        return f"cut off: it left no word, and wrote last {ago(run.idle_s)}"
    if run.status is None:
        return "n/a"
    return f"{run.status}: {run.reason}" if run.reason else run.status
