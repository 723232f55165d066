"""Records from times: one for each step, one for each few steps, one for each epoch.

sums = Sums()
sums.step(timed)                             # Timed of a step
profile_record(sums, first_step=31, data_limit=0.3, step=40)
epoch_record(sums, timed_epoch, 41.2, {}, step=400)
"""

from array import array
from math import sqrt
from typing import Any

from ..records import Epoch, GpuPeak, Phases, Profile, Spent
from .timeline import Timed

FETCH, TRANSFER = "data_generation", "data_transfer"
SAMPLE = 2048  # durations kept for the percentiles; of more, every second, fourth, … one


class Durations:
    """Mean, deviation and percentiles of many durations in little memory."""

    def __init__(self) -> None:
        self.count, self._mean, self._squares = 0, 0.0, 0.0
        self._kept, self._stride = array("d"), 1

    def add(self, value: float) -> None:
        """Take in one (Welford's way for mean and deviation)."""
        if self.count % self._stride == 0:
            if len(self._kept) == SAMPLE:
                self._kept, self._stride = self._kept[::2], self._stride * 2
            if self.count % self._stride == 0:
                self._kept.append(value)
        self.count += 1
        delta = value - self._mean
        self._mean += delta / self.count
        self._squares += delta * (value - self._mean)

    @property
    def total(self) -> float:
        """Their sum."""
        return self._mean * self.count

    def fields(self) -> dict[str, Any]:
        """The fields of a record."""
        if not self.count:
            return {}
        ordered = sorted(self._kept)
        at = {f"p{p}_ms": ordered[max(0, -(-p * len(ordered) // 100) - 1)] for p in (50, 95, 99)}
        return {"mean_ms": self._mean, "std_ms": sqrt(max(0.0, self._squares / self.count)), **at}


class Sums:
    """Times of several stretches, added up on both clocks."""

    def __init__(self) -> None:
        self.durations, self.host_durations = Durations(), Durations()
        self.host: dict[str, list[float]] = {}
        self.device: dict[str, list[float]] = {}
        self.on_device = True  # so far
        self.steps = 0
        self.batches: int | None = 0  # as far as all steps know
        self.samples: int | None = 0
        self.worker_ms: float | None = None

    def step(self, timed: Timed) -> None:
        """Take in a step."""
        step = timed.what
        self.steps += 1
        self.batches = None if self.batches is None or step.batches is None else self.batches + step.batches
        self.samples = None if self.samples is None or step.seen is None else self.samples + step.seen
        if step.worker is not None:
            self.worker_ms = (self.worker_ms or 0.0) + step.worker / 1e6
        self.durations.add(timed.took_ms)
        self.host_durations.add(timed.duration_ms)
        self.add(timed)

    def add(self, timed: Timed) -> None:
        """Take in the phases of a stretch."""
        _add(self.host, timed.host)
        if timed.device is None:
            self.on_device = False
        else:
            _add(self.device, timed.device)

    @property
    def clock(self) -> str:
        """Whose clock all of it is on."""
        return "device" if self.on_device and self.device else "host"

    @property
    def phases(self) -> dict[str, list[float]]:
        """Milliseconds and count by phase, on that clock."""
        return self.device if self.clock == "device" else self.host

    @property
    def spent(self) -> list[Spent]:
        """The same, longest first."""
        ordered = sorted(self.phases.items(), key=lambda item: -item[1][0])
        return [Spent(name=name, ms=round(ms, 4), count=int(count)) for name, (ms, count) in ordered]

    @property
    def input_wait_ms(self) -> float | None:
        """How long the device waited while batches were fetched: no kernel lies between a fetch's two events."""
        return self.device.get(FETCH, [0.0])[0] if self.clock == "device" else None


def _add(sums: dict[str, list[float]], times: dict[str, tuple[float, int]]) -> None:
    for path, (spent, count) in times.items():
        entry = sums.setdefault(path, [0.0, 0])
        entry[0] += spent
        entry[1] += count


def phases_record(timed: Timed, **stamped: Any) -> Phases:
    """One step."""
    step, device = timed.what, timed.device
    return Phases(
        duration_ms=round(timed.duration_ms, 4),
        host_ms={path: round(spent, 4) for path, (spent, _) in timed.host.items()},
        device_ms=None if device is None else {path: round(spent, 4) for path, (spent, _) in device.items()},
        device_duration_ms=None if timed.device_duration_ms is None else round(timed.device_duration_ms, 4),
        input_wait_ms=None if device is None else round(device.get(FETCH, (0.0, 0))[0], 4),
        worker_ms=None if step.worker is None else round(step.worker / 1e6, 4),
        batches=step.batches,
        samples=step.seen,
        **stamped,
    )


def profile_record(sums: Sums, first_step: int, data_limit: float, **more: Any) -> Profile:
    """Several steps, and what lay around them."""
    steps, host_ms, ms = sums.steps, sums.host_durations.total, sums.durations.total
    waited = sums.host.get(FETCH, [0.0])[0]
    moved = sums.phases.get(TRANSFER, [0.0])[0]
    share = waited / host_ms if host_ms > 0 else 0.0
    wait = sums.input_wait_ms
    return Profile(
        first_step=first_step,
        steps=steps,
        clock=sums.clock,
        **sums.durations.fields(),
        phases=sums.spent,
        data_generation_ms=waited / steps,
        data_transfer_ms=moved / steps,
        data_gen_percentage=min(100.0, 100 * share),
        transfer_percentage=min(100.0, 100 * moved / ms) if ms > 0 else 0.0,
        bottleneck_data_generation=share > data_limit,
        data_gen_bottleneck_severity=min(1.0, share),
        input_wait_ms=None if wait is None else wait / steps,
        worker_ms=None if sums.worker_ms is None else sums.worker_ms / max(1, sums.batches or 0),
        **more,
    )


def epoch_record(
    sums: Sums, timed: Timed, max_ram_percent: float | None, max_gpu_memory: dict[int, int], **stamped: Any
) -> Epoch:
    """An epoch: its phases and what is left of its time add up to all of it."""
    on_device = sums.clock == "device" and timed.device_duration_ms is not None
    total = timed.device_duration_ms if on_device else timed.duration_ms
    assert total is not None
    top = sum(spent for path, (spent, _) in sums.phases.items() if "/" not in path)
    return Epoch(
        epoch=timed.what.number,
        total_ms=total,
        steps=sums.steps,
        batches=sums.batches or None,
        samples=sums.samples or None,
        clock=sums.clock,
        **sums.durations.fields(),
        phases=sums.spent,
        other_ms=max(0.0, total - top),
        input_wait_ms=sums.input_wait_ms,
        worker_ms=sums.worker_ms,
        max_ram_percent=max_ram_percent,
        max_gpu_memory=[GpuPeak(id=id_, allocated=most) for id_, most in max_gpu_memory.items()] or None,
        **stamped,
    )
