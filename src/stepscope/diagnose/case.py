"""What is known of a run, taken in record by record: what the rules reason over.

    case = Case()                        # the whole run; Case(keep=100_000) no more than that and twice that
    for record in run.records():
        case.see(record)
    verdicts(case)

`Case(live=True)` keeps less and judges the last hundred steps and the last minute of the machine, so that a verdict
ends soon after what caused it. The first steps of a run (compilation, caches, the start of loader workers) are left
out of both.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ..records import (
    Allocator,
    Epoch,
    Eval,
    Gpu,
    GpuModel,
    Header,
    Memory,
    OutOfMemory,
    Phases,
    Profile,
    Step,
    System,
)
from .rows import Rows
from .slopes import trend

WARM_UP = 10
LIVE_STEPS, LIVE_RECENT, LIVE_SYSTEM, LIVE_GPU, LIVE_EPOCHS = 500, 100, 60, 30, 4
EVALUATION = "validation_epoch"
HOST, DEVICE = "host/", "device/"
STEP = ("duration_ms", "sol")
PHASES = ("duration_ms", "device_duration_ms", "input_wait_ms", "worker_ms")
PROFILE = ("mean_ms", "data_generation_ms", "data_transfer_ms", "input_wait_ms", "worker_ms", "device_idle")
RAM = ("ram_percent", "ram_limit", "ram_limit_percent", "ram_available")
SYSTEM = (*RAM, "cpus", "cpu_throttled", "cpu_percent", "children")
GPU = ("clock", "max_clock", "power", "power_limit", "temperature", "temp_slowdown", "gpu_util")


class Case:
    """The records of a run as the rules need them."""

    def __init__(self, live: bool = False, keep: int | None = None):
        self.live = live
        self._newest = newest = LIVE_STEPS if live else keep
        self.steps, self.phases = Rows(newest), Rows(newest)
        self.profiles = Rows(LIVE_RECENT // 10 if live else keep)
        self.epochs = Rows(LIVE_EPOCHS if live else keep)
        self.evals = Rows(newest)
        self.system = Rows(LIVE_SYSTEM if live else keep)
        self.gpus: dict[int | None, Rows] = {}
        self.reasons: dict[int | None, list[str | None]] = {}  # of each reading, why the clock was held back
        self.memory: dict[int | None, Rows] = {}
        self.models: dict[int | None, GpuModel] = {}
        self.header: Header | None = None
        self.oom: OutOfMemory | None = None
        self.segments: list[tuple[str, int]] = []  # of the newest allocator record
        self.last_step = 0
        self.attempts = [0]  # the step at which each attempt began
        self._attempt_begins = False
        self._times: list[str] = []  # the first and the last record's

    def see(self, record: Any) -> None:
        """Take a record into account; what no rule needs is ignored."""
        taker = TAKERS.get(type(record))
        if taker is None:
            return
        if record.time:
            self._times = [self._times[0] if self._times else record.time, record.time]
        if not isinstance(record, Header):
            self.last_step = max(self.last_step, record.step)
        taker(self, record)

    def _see_header(self, record: Header) -> None:
        self.header = record
        self._attempt_begins = record.attempt > 1

    def _see_step(self, record: Step) -> None:
        self._begin_attempt(record.step)
        values = {name: getattr(record, name) for name in STEP}
        self.steps.add(record.step, values | {"tokens": record.step_tokens})

    def _see_phases(self, record: Phases) -> None:
        self._begin_attempt(record.step)
        self.phases.add(record.step, self._phase_numbers(record))

    @staticmethod
    def _phase_numbers(record: Phases) -> "Iterator[tuple[str, float | None]]":
        for name in PHASES:
            yield name, getattr(record, name)
        for path, ms in (record.host_ms or {}).items():
            yield HOST + path, ms
        for path, ms in (record.device_ms or {}).items():
            yield DEVICE + path, ms

    def _begin_attempt(self, step: int) -> None:
        if self._attempt_begins:
            self.attempts.append(step)
            self._attempt_begins = False

    def _see_profile(self, record: Profile) -> None:
        values = {name: getattr(record, name) for name in PROFILE}
        values |= {"steps": record.steps, "device": float(record.clock == "device")}
        self.profiles.add(record.step, values | {f"spent/{s.name}": s.ms for s in record.phases or []})

    def _see_epoch(self, record: Epoch) -> None:
        values = {"total_ms": record.total_ms}
        self.epochs.add(record.step, values | {f"spent/{s.name}": s.ms for s in record.phases or []})

    def _see_eval(self, record: Eval) -> None:
        self.evals.add(record.step, {"duration_ms": record.duration_ms})

    def _see_system(self, record: System) -> None:
        values = {name: getattr(record, name) for name in SYSTEM}
        gpus = {f"gpu/{gpu.id}": gpu.allocated / gpu.total for gpu in record.gpus or [] if gpu.total}
        self.system.add(record.step, values | gpus)

    def _see_gpu(self, record: Gpu) -> None:
        newest = LIVE_GPU if self.live else self._newest
        rows = self.gpus.setdefault(record.id, Rows())
        reasons = self.reasons.setdefault(record.id, [])
        # a foreign tracker writes -1 for what it does not know
        numbers = {name: value for name in GPU if (value := getattr(record, name)) is not None and value >= 0}
        rows.add(record.step, numbers)
        reasons.append(record.throttle)
        if newest is not None and len(reasons) >= 2 * newest:
            rows.forget(len(reasons) - newest)
            del reasons[: len(reasons) - newest]

    def _see_memory(self, record: Memory) -> None:
        rows = self.memory.setdefault(record.id, Rows(self._newest))
        held = record.allocated if record.id is not None else record.resident
        rows.add(record.step, {"held": held, "peak": record.peak_allocated, "retries": record.retries})

    def _see_model(self, record: GpuModel) -> None:
        self.models[record.id] = record

    def _see_oom(self, record: OutOfMemory) -> None:
        self.oom = record

    def _see_allocator(self, record: Allocator) -> None:
        self.segments = [(s.name, s.device + s.managed + s.pinned + s.pageable) for s in record.stats or []]

    @property
    def timed(self) -> Rows:
        """The rows that have the steps' durations: with phases where there are as many as steps, else the steps."""
        return self.phases if len(self.phases) >= max(1, len(self.steps) // 2) else self.steps

    def begin(self, rows: Rows, recent: bool = False) -> int:
        """The first row after the warm-up; of a live case the newest hundred where the recent ones are asked for."""
        seen = len(rows) + rows.dropped
        after = max(0, min(WARM_UP, seen // 4) - rows.dropped)
        return max(after, len(rows) - LIVE_RECENT) if recent and self.live else after

    def workload_changes(self, by: float) -> bool:
        """Whether the steps' tokens grow, or shrink, by such a share over the run."""
        line = trend(self.steps.values("tokens"))
        return line is not None and abs(line.growth) >= by

    @property
    def wall_ms(self) -> float | None:
        """From the first record to the last."""
        try:
            first, last = (datetime.fromisoformat(time) for time in self._times)
        except ValueError:  # fewer than two, or another program's format
            return None
        return (last - first).total_seconds() * 1000


TAKERS: dict[type, Any] = {
    Header: Case._see_header,
    Step: Case._see_step,
    Phases: Case._see_phases,
    Profile: Case._see_profile,
    Epoch: Case._see_epoch,
    Eval: Case._see_eval,
    System: Case._see_system,
    Gpu: Case._see_gpu,
    Memory: Case._see_memory,
    GpuModel: Case._see_model,
    OutOfMemory: Case._see_oom,
    Allocator: Case._see_allocator,
}
