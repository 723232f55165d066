"""Turns the times of steps and epochs into records, and the records into verdicts that are said.

    teller = Teller(run, machine, estimate)
    teller.told(timed)         # from a Timeline: a step, what lay outside of steps, an epoch
    teller.close()

A step is written when the timeline tells it; a profile follows after ten steps and a second, and at the end of
an epoch; with it come the verdicts that begin or end.
"""

import time
from collections import deque
from time import perf_counter_ns
from typing import Any

from msgspec.structs import replace

from ..clock import utc_now
from ..diagnose.bottlenecks import verdicts
from ..diagnose.case import Case
from ..diagnose.limits import Limits
from ..diagnose.said import Said
from ..records import StepRecord
from ..run import TrainingRunLogger
from ..speed.moments import EpochTimes, StepTimes
from ..speed.profile import Sums, epoch_record, phases_record, profile_record
from ..speed.timeline import Timed
from .estimate import Estimate
from .machine import Machine
from .numbering import Numbering
from .steps import ToldStep

RING = 256
SHOWN = 64
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
        self.ring: deque[tuple[int, float, dict[str, Any]]] = deque(maxlen=RING)
        self._unseen: list[Any] = []  # by the judges
        self._told = self._numbering.number
        self.cost_ns = self.phase_ns = 0  # of the window: in here, and of a phase on the mean
        self.share: float | None = None
        self._window, self._since = Sums(), time.monotonic()
        self._first: int | None = None  # step of the window
        self._epochs: dict[int, Sums] = {}

    @property
    def step(self) -> int:
        """The number of the newest step that is written."""
        return self._told

    def number(self) -> int:
        """The number of the step that is just over: asked once, when the program had its chance to log it."""
        return self._numbering.next()

    def told(self, timed: Timed) -> None:
        """Write what is known now."""
        began = perf_counter_ns()
        {"step": self._step, "outside": self._outside, "epoch": self._epoch}[timed.kind](timed)
        self.cost_ns += perf_counter_ns() - began

    def write(self, record: StepRecord, late: Any = None, complete: Any = dict) -> None:
        """Into the run, and before the judges at their next look."""
        self._run.enter(record, late, complete)
        self._unseen.append(record)
        if len(self._unseen) >= SHOWN:
            self._show()

    def write_now(self, record: StepRecord) -> None:
        """The same for one that knows neither its step nor its time."""
        self.write(replace(record, **self._stamp()))

    # steps

    def _step(self, timed: Timed) -> None:
        step: StepTimes = timed.what
        number = self._machine.step = self._told = timed.number if timed.number is not None else self._told + 1
        self._first = number if self._first is None else self._first
        if self._writes_steps and not self._numbering.is_theirs(number):
            self._write_step(ToldStep(timed, number, self.share, self._reached(step, timed)))
        self.write(phases_record(timed, time=timed.time, step=number))
        self._window.step(timed)
        if timed.of is not None:
            self._sums(timed.of).step(timed)
        self.ring.append((number, timed.took_ms, timed.phases))
        since = time.monotonic() - self._since
        if since >= WINDOW_S and (self._window.steps >= WINDOW_STEPS or since >= LONG_S):
            self.look()

    def _reached(self, step: StepTimes, timed: Timed) -> dict[str, Any]:
        return self._estimate.of(step.tokens, step.fed, timed.took_ms)

    def _write_step(self, told: ToldStep) -> None:
        self.write(told.record, told.late, told.complete)
        if (losses := told.metrics) is not None:
            late = {name: tensor for name, tensor in told.late.items() if name.startswith("loss/")}
            self._run.enter(losses, late, told.complete_metrics)

    @property
    def last_steps(self) -> list[dict[str, Any]]:
        """The newest steps in short, for what goes wrong in the next."""
        return [{"step": n, "ms": round(ms, 3), "phases": _rounded(phases)} for n, ms, phases in self.ring]

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
        self.write(epoch_record(sums, timed, *self._machine.take_maxima(), **self._stamp()))

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
        for record in self._machine.levels():
            self.write(record)
        known = {"device_idle": self._machine.device_idle(), "share": self.share, **self._stamp()}
        self.write(profile_record(window, first, self.limits.data_generation, **known))
        self._judge()

    def _show(self) -> None:
        """Show the judges what came since the last time: many at once cost a fraction of one after another."""
        unseen, self._unseen = [*self._unseen, *self._machine.arrived()], []
        for record in unseen:
            self.case.see(record)
            self.whole.see(record)

    def _judge(self) -> None:
        """What begins and what ends."""
        self._show()
        for event in self.said.update(verdicts(self.case, self.limits), self.step):
            self._run.enter(event)

    def _stamp(self) -> dict[str, Any]:
        return {"time": utc_now(), "step": self.step}

    def close(self) -> None:
        """Say what stands at the end; of a run that was too short to see it twice, too."""
        self.look()
        if not self.said.standing:
            self._judge()


def _rounded(phases: dict[str, tuple[float, int]]) -> dict[str, float]:
    return {path: round(spent, 3) for path, (spent, _) in phases.items()}
