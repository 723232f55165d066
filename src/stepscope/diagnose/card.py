"""The end of a watched run on one screen: verdicts, the step as a tree, memory, hardware.

for line in card(case, Limits(), "output/training.json"):
    print(line)
"""

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from .bottlenecks import verdicts
from .case import DEVICE, HOST, Case
from .limits import Limits
from .slopes import quantile
from .verdict import Verdict
from .words import milliseconds, percent, size

WIDTH = 78
VERDICTS, ADVICE, BRANCHES = 4, 2, 10
WORTH = 0.05  # of a step: to save that, is no perfect health
LEAST = 0.005  # of a step; what is less is in `other`


def card(case: Case, limits: Limits, file: str = "") -> list[str]:
    """Lines of at most 78 columns, two dozen of them."""
    if not len(case.phases):
        return ["== no training step was seen: nothing called an optimizer's step"]
    found = verdicts(case, limits)
    lines = [f"── what {len(case.phases) + case.phases.dropped:,} steps say ".ljust(WIDTH, "─")]
    lines += [line for verdict in found[:VERDICTS] for line in _verdict(verdict)]
    if not any(verdict.level != "info" or (verdict.gain or 0) >= WORTH for verdict in found):
        lines.append("✓ healthy: nothing costs this training time that it need not")
    lines += ["", *_tree(case), "", *_memory(case), *_hardware(case)]
    return [*lines, f"more: stepscope doctor {file}" if file else "more: stepscope doctor FILE", "─" * WIDTH]


def _verdict(verdict: Verdict) -> Iterator[str]:
    mark = {"error": "✗", "warning": "!", "info": "·"}[verdict.level]
    yield from _folded(f"{mark} {verdict.message}")
    if verdict.saving:
        yield f"  {verdict.saving}"
    for advice in verdict.advice[:ADVICE]:
        yield from _folded(f"  → {advice}", "    ")


def _folded(text: str, indent: str = "  ") -> Iterator[str]:
    yield from wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _tree(case: Case) -> Iterator[str]:
    """A step, its phases and their parts, with their shares."""
    rows, begin = case.phases, case.begin(case.phases)
    on_device = bool(rows.names(DEVICE)) and rows.mean("device_duration_ms", begin) is not None
    prefix, whole = (DEVICE, "device_duration_ms") if on_device else (HOST, "duration_ms")
    total = rows.mean(whole, begin)
    if not total:
        return
    spent = {path: rows.per_row(prefix + path, begin) for path in rows.names(prefix)}
    times = sorted(rows.values(whole, begin))
    p95 = quantile(times, 0.95)
    mean = f"{milliseconds(total)}{' of device time' if on_device else ''}"
    yield f"step  {mean}, half below {milliseconds(times[len(times) // 2])}, 95 % below {milliseconds(p95)}"
    yield from _branches(spent, "", total, total, "  ")


def _branches(spent: dict[str, float], above: str, whole: float, step: float, indent: str) -> Iterator[str]:
    parts = {path: ms for path, ms in spent.items() if path.rpartition("/")[0] == above}
    rest = whole - sum(parts.values())
    shown = sorted(parts.items(), key=lambda item: -item[1])[:BRANCHES]
    for path, ms in shown:
        if ms >= LEAST * step:
            yield _branch(indent, path.rpartition("/")[2], ms, step)
            yield from _branches(spent, path, ms, step, indent + "  ")
    if parts and rest >= LEAST * step:
        yield _branch(indent, "other", rest, step)


def _branch(indent: str, name: str, ms: float, step: float) -> str:
    bar = "█" * round(20 * ms / step)
    return f"{f'{indent}{name}':<30} {percent(ms / step):>6} {milliseconds(ms):>9}  {bar}".rstrip()


def _memory(case: Case) -> Iterator[str]:
    for id_, rows in case.memory.items():
        peaks = rows.values("peak") or rows.values("held")
        if peaks:
            yield f"memory    {'host' if id_ is None else f'GPU {id_}'}: at most {size(max(peaks))}"
    if case.segments:
        named = [f"{name} {size(held)}" for name, held in case.segments if held]
        yield from _folded("segments  " + ", ".join(named), " " * 10)


def _hardware(case: Case) -> Iterator[str]:
    for id_, rows in case.gpus.items():
        known: list[Any] = [
            case.models[id_].name if id_ in case.models else None,
            _mean(rows, "gpu_util", "{:.0f} % busy"),
            _mean(rows, "power", "{:.0f} W", 1e-3),
            _mean(rows, "temperature", "{:.0f} °C"),
        ]
        yield f"GPU {id_}     " + ", ".join(part for part in known if part)
    parts = [_mean(case.system, "cpu_percent", "CPU {:.0f} %"), _mean(case.system, "ram_percent", "RAM {:.0f} %")]
    if any(parts):
        yield "machine   " + ", ".join(part for part in parts if part)


def _mean(rows: Any, name: str, text: str, scale: float = 1.0) -> str | None:
    mean = rows.mean(name)
    return None if mean is None else text.format(mean * scale)
