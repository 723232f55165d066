"""Turns the times of steps and epochs into records, and the records into verdicts that are said.

    teller = Teller(run, memory=…, estimate=…, machine=…)
    teller.told(timed)         # from a Timeline: a step, what lay outside of steps, an epoch
    teller.close()

A step is written as soon as its times are known; a profile follows after ten steps and a second, and at the end of
an epoch; with it come the verdicts that begin or end.
"""

import math
import time
from collections import deque
from time import perf_counter_ns
from typing import Any

from ..diagnose.bottlenecks import verdicts
from ..diagnose.case import Case
from ..diagnose.limits import Limits
from ..diagnose.said import Said
from ..records import Event, Metrics, Step, StepRecord
from ..run import TrainingRunLogger
from ..speed.moments import EpochTimes, StepTimes
from ..speed.profile import Sums, epoch_record, phases_record, profile_record
from ..speed.timeline import Timed
from .estimate import Estimate
from .machine import Machine
from .numbering import Numbering

RING = 256
KEPT = 100_000  # steps that the card at the end sums up
WINDOW_STEPS, WINDOW_S, LONG_S = 10, 1.0, 10.0


class Teller:
    """What a scope writes into its run."""

    def __init__(
        self, run: TrainingRunLogger, machine: Machine, estimate: Estimate, steps: bool = True, late: bool = False
    ):
        self._run, self._machine, self._estimate, self._writes_steps = run, machine, estimate, steps
        self._numbering = Numbering(run, late)
        self.limits = Limits()
        self.case, self.whole = Case(live=True), Case(keep=KEPT)
        self.said = Said()
        self.ring: deque[dict[str, Any]] = deque(maxlen=RING)
        self.steps = 0
        self.cost_ns = self.phase_ns = 0  # of the window: in here, and of a phase on the mean
        self.share: float | None = None
        self._window, self._since = Sums(), time.monotonic()
        self._first: int | None = None  # step of the window
        self._epochs: dict[int, Sums] = {}

    @property
    def step(self) -> int:
        """The number of the newest step."""
        return self._numbering.number

    def told(self, timed: Timed) -> None:
        """Write what is known now."""
        began = perf_counter_ns()
        {"step": self._step, "outside": self._outside, "epoch": self._epoch}[timed.kind](timed)
        self.cost_ns += perf_counter_ns() - began

    def write(self, record: StepRecord, late: Any = None, complete: Any = dict, step: int | None = None) -> None:
        """Into the run, and into the cases."""
        self._run.enter(record, self.step if step is None else step, late, complete)
        self.case.see(record)
        self.whole.see(record)

    # steps

    def _step(self, timed: Timed) -> None:
        step: StepTimes = timed.what
        number = self._numbering.next()
        self.steps += 1
        self._first = number if self._first is None else self._first
        if self._writes_steps and not self._numbering.is_theirs:
            self._write_step(timed, step)
        self.write(phases_record(timed, step=number))
        self._window.step(timed)
        self._sums(timed.of).step(timed) if timed.of is not None else None
        self.ring.append({"step": number, "ms": round(timed.took_ms, 3), "phases": _rounded(timed.phases)})
        self._machine.step = number
        for record in self._machine.after_step(number):
            self.write(record)
        since = time.monotonic() - self._since
        if since >= WINDOW_S and (self._window.steps >= WINDOW_STEPS or since >= LONG_S):
            self.look()

    def _write_step(self, timed: Timed, step: StepTimes) -> None:
        losses = list(step.losses.values())
        numbers, late = _now_and_late({f"loss/{n}": values for n, values in enumerate(losses)})
        lr = step.lrs[0] if step.lrs else None
        if _on_device(lr):
            late["lr"] = lr
        if _on_device(step.skipped):
            late["skipped"] = step.skipped
        record = Step(
            epoch=step.epoch,
            step_tokens=step.tokens or None,
            duration_ms=round(timed.took_ms, 4),
            loss=numbers.get("loss/0"),
            lr=None if lr is None or "lr" in late else float(lr),
            share=self.share,
            samples=step.seen,
            skipped=True if step.skipped is True else None,
            **self._estimate.of(step.tokens, step.fed, timed.took_ms),
        )
        self.write(record, late, lambda found: _completed(found, numbers))
        if len(losses) > 1:
            rest = {name: tensor for name, tensor in late.items() if name.startswith("loss/")}
            values = {name: value for name, value in numbers.items() if value is not None}
            self._run.enter(
                Metrics(values=values),
                self.step,
                rest,
                lambda found: {"values": {f"loss/{n}": _sum(f"loss/{n}", found, numbers) for n in range(len(losses))}},
            )

    def complete(self, known: dict[str, Any]) -> None:
        """Add to a step that the program logs what is known of it beside."""
        if "share" not in known and self.share is not None:
            known["share"] = self.share
        tokens, took = known.get("step_tokens"), known.get("duration_ms")
        if "sol" not in known and isinstance(took, (int, float)) and isinstance(tokens, int):
            known.update(self._estimate.of(tokens, None, took))

    # around them

    def _sums(self, epoch: EpochTimes) -> Sums:
        return self._epochs.setdefault(epoch.number, Sums())

    def _outside(self, timed: Timed) -> None:
        self._window.add(timed)
        if timed.of is not None:
            self._sums(timed.of).add(timed)

    def _epoch(self, timed: Timed) -> None:
        sums = self._epochs.pop(timed.what.number, None)
        if sums is None or not sums.steps:
            return
        self.look()
        self.write(epoch_record(sums, timed, *self._machine.take_maxima()))

    def look(self) -> None:
        """Write the profile of the newest steps, and what it means."""
        window, first = self._window, self._first
        if not window.steps or first is None:
            return
        self._window, self._first, self._since = Sums(), None, time.monotonic()
        spent = sum(count for _, count in window.host.values()) * self.phase_ns + self.cost_ns
        self.cost_ns = 0
        total = window.host_durations.total * 1e6
        self.share = round(spent / total, 6) if total > 0 else None
        idle = self._machine.device_idle()
        self.write(profile_record(window, first, self.limits.data_generation, device_idle=idle, share=self.share))
        for record in self._machine.arrived():
            self.case.see(record)
            self.whole.see(record)
        self.say(self.said.update(verdicts(self.case, self.limits), self.step))

    def say(self, events: list[Event]) -> None:
        """Write what begins and what ends."""
        for event in events:
            self._run.enter(event, self.step)

    def close(self) -> None:
        """Say what stands at the end of a run that was too short to see it twice."""
        self.look()
        for record in self._machine.arrived():
            self.whole.see(record)
        if not self.said.standing:
            self.say(self.said.update(verdicts(self.case, self.limits), self.step))


def _rounded(phases: dict[str, tuple[float, int]]) -> dict[str, float]:
    return {path: round(spent, 3) for path, (spent, _) in phases.items()}


def _on_device(value: Any) -> bool:
    return getattr(value, "is_cuda", False)


def _now_and_late(losses: dict[str, list[Any]]) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Sums of what is known, None where a part lies on a device, and those parts by name and place."""
    numbers: dict[str, float | None] = {}
    late: dict[str, Any] = {}
    for name, values in losses.items():
        tensors = {f"{name}/{n}": value for n, value in enumerate(values) if _on_device(value)}
        late.update(tensors)
        numbers[name] = None if tensors else math.fsum(values)
    return numbers, late


def _sum(name: str, found: dict[str, Any], numbers: dict[str, float | None]) -> float | None:
    parts = [value for key, value in found.items() if key.rpartition("/")[0] == name]
    return math.fsum(parts) if parts else numbers.get(name)


def _completed(found: dict[str, Any], numbers: dict[str, float | None]) -> dict[str, Any]:
    """The fields that the device's numbers make."""
    known: dict[str, Any] = {"loss": _sum("loss/0", found, numbers)}
    if "lr" in found:
        known["lr"] = found["lr"]
    if found.get("skipped"):
        known["skipped"] = True
    return known
