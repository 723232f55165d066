"""The console: one line a step, in the form that the run's documents show.

    console = Console(verbosity=0)
    console.write(Step(step=100, epoch=1.25, step_tokens=16384, duration_ms=156, norm=0.1234, loss=2.3456))
    # :: step     100 [ 25.0%]   loss 2.3456 | norm  0.1234 | 105.0k tps |   156 ms

Verbosity -2 prints nothing, -1 evaluations and errors, 0 steps and what is said once, 1 also GPU telemetry, the
files of the data set and allocations. Colour and the waiting line come on a terminal alone. A stream that cannot
be written is given up in silence: a closed terminal is no reason to stop training.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from ..records import (
    Allocator,
    Dataset,
    End,
    Epoch,
    Eval,
    Event,
    Gpu,
    GpuModel,
    Header,
    Message,
    Metrics,
    Moe,
    Other,
    Record,
    Rewind,
    SpeedOfLight,
    Step,
)
from . import text
from .place import shown
from .progress import Progress, Waiting
from .spike import NormAverage
from .trend import EvalGap, LossTrend

# what *MAE profiling* prints where its rules find something
WARNINGS = {
    "data_generation": "⚠️ Data generation may be a bottleneck! (>30% of batch time)",
    "memory": "⚠️ High memory usage detected! (>85% RAM usage)",
}
SILENT, QUIET, DEFAULT, VERBOSE = -2, -1, 0, 1
BOLD, YELLOW, RED, DIM = "1", "33", "31", "2"
NAMED = 6  # numbers of a `metrics` line
WIDE = 160  # an event that is longer stands on several lines


class Console:
    """Prints what it is given, as verbose as it is told."""

    def __init__(
        self, verbosity: int = DEFAULT, stream: TextIO | None = None, color: bool | None = None, waits: bool = True
    ):
        self.verbosity = verbosity
        self._stream = stream
        self._color = color
        self._trend, self._gap, self._norms = LossTrend(), EvalGap(), NormAverage()
        self._progress = Progress()
        self._memory: dict[int | None, int] = {}
        self._datasets = 0
        self._steps = 0
        self._last: Step | None = None
        self._waiting = Waiting(self._out, self._is_live) if waits and verbosity >= DEFAULT else None
        self._lines: dict[type, tuple[int, Callable[[Any], Iterator[str]]]] = {
            Header: (DEFAULT, self._header),
            Step: (DEFAULT, self._step),
            Eval: (QUIET, self._eval),
            Moe: (VERBOSE, self._moe),
            Gpu: (VERBOSE, self._gpu),
            SpeedOfLight: (DEFAULT, text.speed_of_light),
            Allocator: (VERBOSE, text.allocator),
            Dataset: (DEFAULT, self._dataset),
            GpuModel: (DEFAULT, self._gpu_model),
            Metrics: (DEFAULT, self._metrics),
            Epoch: (DEFAULT, text.epoch),
            Event: (QUIET, self._event),
            Rewind: (DEFAULT, self._rewind),
            Message: (DEFAULT, lambda record: iter([record.message])),
            End: (DEFAULT, self._end),
        }

    def opened(self, path: Path, wanted: Path, resumed: bool = False) -> None:
        """Say where the run goes, and why not where it was meant to go."""
        why = f" ({wanted.name} exists and is left as it is)" if path != wanted else ""
        self.note(f"run file {shown(path)}{', resumed' if resumed else why}")

    def note(self, text: str) -> None:
        """A line about the run that is no record."""
        if self.verbosity >= DEFAULT:
            self._print(self._paint(f"== {text}", DIM))

    def say(self, lines: Iterable[str]) -> None:
        """Lines that are no record, at the normal verbosity."""
        if self.verbosity >= DEFAULT:
            for line in lines:
                self._print(line)

    def write(self, record: Record | Other) -> None:
        """Print the record's lines; state is kept at every verbosity, so that changing it shows the same."""
        level, lines = self._lines.get(type(record), (VERBOSE, lambda record: iter(())))
        printed = list(lines(record))
        if self.verbosity >= level:
            for line in printed:
                self._print(line)

    def progress(self, label: str, done: int | None, total: int | None) -> None:
        """What the waiting line shows until the next step."""
        if self._waiting:
            count = f" {done}/{total}" if total is not None else f" {done}" if done is not None else ""
            self._waiting.label = label + count

    def close(self) -> None:
        """Stop the waiting line."""
        if self._waiting:
            self._waiting.close()

    def _print(self, line: str) -> None:
        if self._waiting:
            self._waiting.before_print()
        self._out(line + "\n")

    def _out(self, data: str) -> None:
        stream = self._stream or sys.stdout
        try:
            try:
                stream.write(data)
            except UnicodeEncodeError:
                encoding = stream.encoding or "ascii"
                stream.write(data.encode(encoding, "replace").decode(encoding))
            stream.flush()
        except BlockingIOError:
            return  # a terminal that is slow: this line is lost
        except Exception:  # noqa: BLE001 - closed, a pipe whose reader is gone, or something else that is no terminal
            self.verbosity = SILENT

    def _is_terminal(self) -> bool:
        try:
            return bool((self._stream or sys.stdout).isatty())
        except Exception:  # noqa: BLE001 - whatever stands there, it is no terminal
            return False

    def _is_live(self) -> bool:
        return self._is_terminal() and os.environ.get("TERM") != "dumb"

    def _paint(self, line: str, code: str) -> str:
        if self._color is None:
            self._color = self._is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return f"\x1b[{code}m{line}\x1b[0m" if self._color else line

    def _header(self, header: Header) -> Iterator[str]:
        self._progress.begin(header)
        if self._waiting:
            self._waiting.label = "setting up"
        name = f"{header.project} / {header.name}" if header.project else header.name
        attempt = f", attempt {header.attempt}" if header.attempt > 1 else ""
        if name:
            yield self._paint(f"== {name}{attempt}", DIM)

    def _step(self, step: Step) -> Iterator[str]:
        spike = step.norm is not None and self._norms.flags(step.norm)
        trend = self._trend.sign(step.loss)
        self._gap.train(step.loss)
        self._progress.step(step)
        self._steps += 1
        self._last = step
        if self._waiting:
            self._waiting.label = f"since step {step.step}"
        if self.verbosity < DEFAULT:
            return  # nobody sees the line
        line = text.step(step, trend, spike, self._progress.percent, self._progress.eta_s, self.verbosity >= VERBOSE)
        yield self._paint(line, YELLOW) if spike else line

    def _eval(self, record: Eval) -> Iterator[str]:
        self._progress.eval(record)
        yield self._paint(text.evaluation(record, self._gap.of(record.loss)), BOLD)

    def _moe(self, moe: Moe) -> Iterator[str]:
        yield text.moe(moe)

    def _gpu(self, gpu: Gpu) -> Iterator[str]:
        yield text.gpu(gpu, self._memory.get(gpu.id, self._memory.get(None)))

    def _gpu_model(self, model: GpuModel) -> Iterator[str]:
        if model.memory is not None:
            self._memory[model.id] = model.memory
        return text.gpu_model(model)

    def _dataset(self, data: Dataset) -> Iterator[str]:
        self._datasets += 1
        return text.dataset(data, first=self._datasets == 1, files=self.verbosity >= VERBOSE)

    def _metrics(self, metrics: Metrics) -> Iterator[str]:
        if self._steps and self.verbosity < VERBOSE:
            return
        yield text.metrics(metrics, NAMED)

    def _event(self, event: Event) -> Iterator[str]:
        if event.severity != "error" and self.verbosity < DEFAULT:
            return
        if event.severity != "info" and event.rule in WARNINGS:
            yield self._paint(WARNINGS[event.rule], YELLOW)
        color = {"error": RED, "warning": YELLOW}.get(event.severity, DIM)
        whole = f"!! {event.severity}: {event.message}" + (f"; {event.advice}" if event.advice else "")
        lines = [whole] if len(whole) <= WIDE else text.event(event)
        yield from (self._paint(line, color) for line in lines)

    def _rewind(self, rewind: Rewind) -> Iterator[str]:
        self._progress.rewind()
        yield self._paint(f"<< again from step {rewind.step}: the history up to {rewind.last_step} is superseded", DIM)

    def _end(self, end: End) -> Iterator[str]:
        parts = [f"== {end.status}" + (f" ({end.reason})" if end.reason else "")]
        if self._last is not None:
            parts.append(f"step {self._last.step}")
            parts.append(f"loss {text.number(self._last.loss, 6, 4).strip()}")
        if end.duration_ms is not None:
            parts.append(text.duration(end.duration_ms / 1000))
        yield self._paint(" | ".join(parts), DIM)
