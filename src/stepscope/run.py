"""The one door by which records enter: it checks and stamps them, and hands them to the route.

    with TrainingRunLogger("out/training.json", total_steps=1000) as run:
        run.log_step(step, epoch, tokens, duration_ms, norm, loss, lr)
        run.log_eval(step, epoch, tokens, duration_ms, loss)
        run.log({"accuracy": 0.93}, step=step)

A call raises on misuse alone. A number may be Python's, numpy's or torch's; one on a CUDA device is never waited
for. Any thread may log, but steps belong to one; a forked child does nothing; after `close()` nothing is written.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace

from . import ending
from .clock import utc_now
from .config import settings
from .errors import BadType, BadValue, UnknownSetting, nearest, show
from .fields import checked, flat, step_number
from .records import (
    Allocator,
    Dataset,
    End,
    Eval,
    Event,
    Gpu,
    GpuModel,
    Message,
    Metrics,
    Moe,
    Rewind,
    SpeedOfLight,
    Step,
    StepRecord,
)
from .route import Route
from .scalars import DeviceQueue, is_tensor
from .sinks.sink import Sink

SEVERITIES = ("info", "warning", "error")
DEVICE_DEADLINE_S = 1.0
LARGEST = 2**63


class LogVerbosity(IntEnum):
    """How much the console shows."""

    SILENT = -2
    QUIET = -1
    DEFAULT = 0
    VERBOSE = 1


class TrainingRunLogger:
    """A run: records go in; a run file, a console and backends come out."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        callback: Callable[[str], Any] | None = None,
        verbosity: int | None = None,
        *,
        config: Any = None,
        settings_file: str | os.PathLike[str] | None = None,
        sinks: Iterable[Sink] = (),
        console: TextIO | None = None,
        **options: Any,
    ):
        """Open the run; `options` are the fields of `stepscope.config.Settings`, `console` is where its lines go."""
        if callback is not None and not callable(callback):
            raise BadType(f"callback must be callable, not {show(callback)}")
        code = {**options, "log_file": path if path is not None else options.get("log_file"), "verbosity": verbosity}
        self.settings = settings(code, settings_file)
        self._device = DeviceQueue()
        self._began = time.monotonic()
        self._route: Route | None = None
        self._door: Route | None = None  # the same while the run is open
        self._closing = 0  # the thread that is closing the run
        self._closed = False
        self._step = -1  # the newest step of this attempt
        self._past: int | None = None  # the last step of the attempts before it
        self._count: int | None = 0  # the step of the next `log` without one; None once steps are logged
        self._watched = 0  # the newest step that a monitor counted
        self.before_close: list[Callable[[], Any]] = []  # a monitor writes what it still has,
        self.before_other: Callable[[], Any] | None = None  # the step that is over before what follows it,
        self.complete: Callable[[dict[str, Any]], Any] | None = None  # and adds what it knows of a step
        if self.settings.mode != "disabled":
            self._route = self._door = Route(self.settings, config, callback, sinks, console)
            self._past = self._route.past.last_step
            if self._past is not None:
                self._count = self._past + 1 if self._route.past.counted else None
            ending.register(self)

    @property
    def path(self) -> Path | None:
        """The run file; None while there is none."""
        return self._route.file.path if self._route and self._route.file else None

    @property
    def id(self) -> str | None:
        """The run's id, the same for all attempts and ranks."""
        return self._route.header.id if self._route and self._route.header else None

    @property
    def name(self) -> str | None:
        """The run's name."""
        return self._route.header.name if self._route and self._route.header else self.settings.name

    def log_step(
        self,
        step: int,
        epoch: Any = None,
        tokens: Any = None,
        duration_ms: Any = None,
        norm: Any = None,
        loss: Any = None,
        lr: Any = None,
        **more: Any,
    ) -> None:
        """One training step; further fields of the record (`moe_aux_loss`, `sol`, …) go by keyword."""
        if self._door is None:
            return
        known = {
            "epoch": epoch,
            "step_tokens": tokens,
            "duration_ms": duration_ms,
            "norm": norm,
            "loss": loss,
            "lr": lr,
        }
        late = None
        if (
            more
            or not type(loss) is type(norm) is type(lr) is float
            or type(epoch) is not float
            or not (type(duration_ms) is float or type(duration_ms) is int)
            or type(tokens) is not int
            or not -LARGEST <= tokens < LARGEST
            or not -LARGEST <= duration_ms < LARGEST
        ):  # else each number is known and Python's own, and needs no further look
            if more.keys() & known.keys():
                raise BadType(f"given twice: {', '.join(sorted(more.keys() & known.keys()))}")
            known, late = checked(Step, {**known, **more})
        if self.complete is not None:
            self.complete(known)
        number = step if type(step) is int and 0 <= step < LARGEST else step_number(step)
        if number < self._step or (self._past is not None and number <= self._past):
            self._step_back(number)
        self._step = number
        self._count = self._past = None
        self._enter(Step, number, known, late)

    def _step_back(self, step: int) -> None:
        """A lower step is a mistake, unless a resumed run starts again from a checkpoint."""
        if step < self._step:
            raise BadValue(
                f"step {step} is below step {self._step}, which is logged already: steps must not go back; "
                "a run that starts again from a checkpoint opens its file with resume=True"
            )
        assert self._door is not None
        assert self._door.header is not None
        self._enter(Rewind, step, {"last_step": self._past, "attempt": self._door.header.attempt})

    def log_eval(
        self, step: int, epoch: Any = None, tokens: Any = None, duration_ms: Any = None, loss: Any = None
    ) -> None:
        """One evaluation."""
        values = {"epoch": epoch, "eval_tokens": tokens, "duration_ms": duration_ms, "loss": loss}
        self._log(Eval, step, values)

    def log_moe_stats(
        self, step: int, aux_loss: Any = None, z_loss: Any = None, utilization: Any = None, imbalance: Any = None
    ) -> None:
        """Router health of a mixture-of-experts model."""
        values = {
            "aux_loss": aux_loss,
            "z_loss": z_loss,
            "expert_utilization": utilization,
            "load_imbalance": imbalance,
        }
        self._log(Moe, step, values)

    def log_gpu_state(self, step: int, record: Gpu | None = None, **fields: Any) -> None:
        """State of one GPU: its fields by keyword, or a `Gpu` record."""
        self._log(Gpu, step, fields, record)

    def log_sol_estimate(self, step: int, record: SpeedOfLight | None = None, **fields: Any) -> None:
        """What the hardware could reach: its fields by keyword, or a `SpeedOfLight` record."""
        self._log(SpeedOfLight, step, fields, record)

    def log_allocator(self, step: int, stats: Any = None, id: int | None = None) -> None:
        """Memory by segment: a list of {name, device, managed, pinned, pageable} in bytes, or a record."""
        if isinstance(stats, Allocator) and id is None:
            return self._log(Allocator, step, {}, stats)
        self._log(Allocator, step, {"stats": stats, "id": id})

    def log_dataset(self, step: int = 0, record: Dataset | None = None, **fields: Any) -> None:
        """One split of the data; `file_tokens=[(name, tokens)]` are the console's rows."""
        self._log(Dataset, step, fields, record)

    def log_gpu_model(self, step: int = 0, record: GpuModel | None = None, **fields: Any) -> None:
        """What a GPU is."""
        self._log(GpuModel, step, fields, record)

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Any named numbers of a step; nested names are joined by `/`.

        Without `step` they belong to the newest logged step; where steps are not logged at all, each call
        counts as one, from 0.
        """
        if self._door is None:
            return
        if not isinstance(values, Mapping):
            raise BadType(f"log takes a dict of numbers, not {show(values)}: log({{'accuracy': 0.9}}, step=…)")
        numbers = flat(values)
        number = step_number(step) if step is not None else self._now if self._count is None else self._count
        if self._count is not None:
            if self._past is not None and number <= self._past:
                self._step_back(number)
            self._count, self._past = max(self._count if self._past is None else 0, number + 1), None
        late = {name: value for name, value in numbers.items() if type(value) is not float and is_tensor(value)}
        self._enter(Metrics, number, {"values": numbers}, late)

    def message(self, text: str, step: int | None = None) -> None:
        """A line of text, on the console and in the file."""
        self._log(Message, self._now if step is None else step, {"message": text})

    def event(
        self,
        message: str,
        severity: str = "info",
        rule: str = "user",
        advice: str | None = None,
        evidence: Any = None,
        step: int | None = None,
    ) -> None:
        """Something that a person should know; `severity` is info, warning or error."""
        if severity not in SEVERITIES:
            raise UnknownSetting(f"unknown severity {severity!r}{nearest(severity, SEVERITIES)}")
        values = {"severity": severity, "rule": rule, "message": message, "advice": advice, "evidence": evidence}
        self._log(Event, self._now if step is None else step, values)

    def progress(self, label: str, done: int | None = None, total: int | None = None) -> None:
        """Show on a terminal what a long phase without steps is at; nothing is written to the file."""
        if self._door is not None:
            self._door.progress(label, done, total)

    @property
    def _now(self) -> int:
        """The newest step."""
        return max(self._step, (self._count or 0) - 1, self._past or 0, self._watched)

    @property
    def is_forked(self) -> bool:
        """Whether the run belongs to the process that this one was forked from."""
        return self._route is not None and self._door is None and not self._closed

    @property
    def newest_step(self) -> int | None:
        """The newest step that the program logged; None where it logs none."""
        return None if self._step < 0 else self._step

    @property
    def past_step(self) -> int:
        """The last step of the attempts before this one, 0 where there are none."""
        return self._past or 0

    def _log(self, kind: type[StepRecord], step: int, values: Mapping[str, Any], record: Any = None) -> None:
        if self._door is None:
            return
        number = step_number(step)
        if self.before_other is not None:
            self.before_other()
        if record is not None:
            if not isinstance(record, kind) or values:
                raise BadType(f"give a {kind.__name__} record or its fields by keyword, not {show(record)}")
            values = {k: v for k, v in msgspec.structs.asdict(record).items() if k not in ("time", "step")}
        self._enter(kind, number, *checked(kind, values))

    def enter(
        self,
        record: StepRecord,
        late: Mapping[str, Any] | None = None,
        complete: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        """A measured record is sent on. `complete` makes fields of its `late` numbers, once they are here."""
        route = self._door
        if route is None:
            return
        route.step = record.step
        self._watched = max(record.step, self._watched)
        if type(record) is Step:
            self._count = None
        if not record.time:
            record = replace(record, time=utc_now())
        if late:
            self._device.put(dict(late), lambda numbers: route.emit(replace(record, **complete(numbers))))
        else:
            route.emit(record)
        if self._device.waiting:
            self._device.poll()

    def say(self, lines: Iterable[str]) -> None:
        """Lines for the console alone."""
        if self._door is not None and self._door.console is not None:
            self._door.console.say(lines)

    def trouble(self, rule: str, message: str, advice: str = "") -> None:
        """Something beside the training went wrong: said once, counted, written down; the training goes on."""
        if self._door is not None:
            self._door.trouble(rule, message, advice)

    def _enter(
        self, kind: type[StepRecord], step: int, known: dict[str, Any], late: dict[str, Any] | None = None
    ) -> None:
        """Stamp a record and send it on; one with device numbers when they are there."""
        route = self._door
        assert route is not None
        time_ = utc_now()
        route.step = step
        if self._device.waiting:
            self._device.poll()
            if ending.deferred:
                ending.settle()
        if late:
            self._device.put(late, lambda numbers: route.emit(_complete(kind, time_, step, known, late, numbers)))
        else:
            route.emit(kind(time=time_, step=step, **known))

    def close(self, status: str = "finished", reason: str | None = None) -> None:
        """Write how the run ended, drain the backends within seconds, and close the file; again is nothing."""
        if self._route is None or self._door is None:
            return
        if self.busy():  # a callback, a sink or a signal's handler, inside a record: close behind it
            return ending.defer(partial(self.close, status, reason))
        for last_words in list(self.before_close):
            last_words()
        self._closing = get_ident()
        try:
            late = self._device.drain(DEVICE_DEADLINE_S)
            if late:
                self._route.trouble("device-late", f"the device did not finish: {late} records lack its numbers")
        finally:
            took = round((time.monotonic() - self._began) * 1000)
            end = End(time=utc_now(), step=self._now, status=status, reason=reason, duration_ms=took)
            try:
                if self._route.close(end):
                    self._door = None
                    self._closed = True
                    ending.release(self)
            finally:
                self._closing = 0
                ending.settle()

    finish = close  # what people who come from W&B look for

    def __enter__(self) -> "TrainingRunLogger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
        elif isinstance(error, KeyboardInterrupt):
            self.close("stopped", "KeyboardInterrupt")
        else:
            self.close("failed", ending.describe(error))

    def busy(self) -> bool:
        """Whether the calling thread is in the middle of a record, or of closing."""
        me = get_ident()
        return self._route is not None and (self._route.busy() or me in (self._device.owner, self._closing))

    def forked(self) -> None:
        """In a forked child: the run belongs to the parent."""
        if self._route is not None:
            self._route.forked()
            self._door = None


def _complete(
    kind: type[StepRecord],
    time_: str,
    step: int,
    known: dict[str, Any],
    late: dict[str, Any],
    numbers: dict[str, float],
) -> StepRecord:
    """The record with its device numbers; those that never came are left out."""
    if kind is Metrics:
        given = known["values"]
        values = {
            name: numbers.get(name, value) for name, value in given.items() if name in numbers or name not in late
        }
        return Metrics(time=time_, step=step, values=values)
    numbers, _ = checked(kind, numbers)
    return kind(time=time_, step=step, **known, **numbers)
