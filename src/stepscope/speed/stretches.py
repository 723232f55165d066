"""Puts what a loop does together: units of work make a step, an evaluation or something else, steps make an epoch.

    so_far = Stretches(phases, on_step, on_outside, on_epoch)
    so_far.unit.backward = True; so_far.updated()
    so_far.boundary()          # here a unit ends, and a step whose optimizers have stepped

Where several optimizers live, one iteration may call them one after another, each after a forward pass of its own
(a GAN). A step that lacks some of them waits until the next update: of another optimizer, then the two are one
step; of the same, then it was one. An epoch begins at the first fetch of a loader that turns out to feed training,
and ends where the next one begins.
"""

from collections.abc import Callable
from typing import Any

from .moments import EpochTimes, Source, StepTimes, Unit
from .phases import Phases, Taken

EVALUATION = "validation_epoch"
ONE_OFF_NS = 2_000_000  # what we do between two steps belongs to the next; opening a run file must not


class Stretches:
    """The unit, the step and the epoch that are under way."""

    def __init__(
        self,
        phases: Phases,
        on_step: Callable[[StepTimes, EpochTimes | None], Any],
        on_outside: Callable[[Taken, EpochTimes | None], Any],
        on_epoch: Callable[[EpochTimes], Any],
        clock: Callable[[], int],
    ):
        self._phases, self._clock = phases, clock
        self._on_step, self._on_outside, self._on_epoch = on_step, on_outside, on_epoch
        now, mark = self.now()
        self.unit, self.step = Unit(now, mark), StepTimes(now, mark)
        self.stepped = False  # the step is over as soon as something new begins
        self.explicit = False  # whether the user brackets the steps
        self.within = False  # such a bracket
        self.expected: set[int] = set()  # the optimizers that a step may use
        self._waiting: tuple[StepTimes, EpochTimes | None] | None = None
        self._evaluating = False
        self._epochs = 0
        self.epoch: EpochTimes | None = None
        self._held = False  # the user says where an epoch ends
        self._training: Source | None = None

    def now(self) -> tuple[int, Any]:
        """The moment, on both clocks."""
        return self._clock(), self._phases.device.mark() if self._phases.device is not None else None

    # what a loop does

    def updated(self) -> None:
        """An optimizer has stepped."""
        self.unit.update = self.stepped = True
        self.unit.failed = False
        self.step.updates += 1
        self.feeds_training()

    def joins(self, optimizer: int) -> None:
        """An optimizer steps: now it is known whether a step that waits was one."""
        if self._waiting is not None:
            first, epoch = self._waiting
            self._waiting = None
            if optimizer in first.optimizers:
                self.expected &= first.optimizers
                self._tell(first, epoch)
            else:
                self.step.precede(first)
        self.step.optimizers.add(optimizer)
        self.expected.add(optimizer)

    def feeds_training(self) -> None:
        """The loader of this unit is one that feeds training: with its first fetch an epoch has begun."""
        source = self.unit.source
        if source is None or source is self._training or (self.explicit and not self.within):
            return
        self._training = source
        if not self._held and source.began is not None:
            self._switch(source.began, source.mark)

    def abandon(self) -> None:
        """The step failed: its time and its losses belong to none."""
        self._absorb()
        self._settle()
        self._on_outside(self._outside(), self.epoch)
        now, mark = self.now()
        self.unit, self.step, self.stepped = Unit(now, mark), StepTimes(now, mark), False

    def _outside(self) -> Taken:
        """What unit and step hold so far."""
        taken = self.step.taken
        taken.add(self.unit.taken)
        return taken

    # boundaries

    def boundary(self, source: Source | None = None, within_iteration: bool = False, ended: int | None = None) -> bool:
        """Work ends here: of training it goes to the step, else to the epoch; whether a step has ended."""
        self._absorb()
        unit = self.unit
        if ended is None and (unit.only_fetched or unit.expects_backward) and self._goes_on(source):
            return False
        now, mark = self.now() if ended is None else (ended, None)
        self.unit = Unit(now, mark)
        trained = (unit.backward or unit.update) and not unit.failed and (self.within or not self.explicit)
        if trained:
            self.step.add(unit)
            self._evaluating = False
        else:
            self._apart(unit, now, mark)
        if self.stepped and (self.within or not self.explicit):
            self._finish_step(now, mark, within_iteration)
            return True
        if not trained:
            self.stepped = False
        return False

    def _goes_on(self, source: Source | None) -> bool:
        """Whether the unit does, with one more batch: what was fetched is for what comes."""
        if source is None:
            return self.unit.only_fetched
        if source is self.unit.source and (self.unit.only_fetched or self._training in (None, source)):
            source.ahead = True
            return True
        return False

    def _absorb(self) -> None:
        taken = self._phases.take()
        if self.unit.taken.host:
            self.unit.taken.add(taken)
        else:
            self.unit.taken = taken

    def _apart(self, unit: Unit, now: int, mark: Any) -> None:
        """A unit that is not part of the step."""
        if unit.forward and not (unit.backward or unit.failed):
            self._evaluated(unit, now, mark)
        elif unit.taken:
            self._on_outside(unit.taken, self.epoch)
        if self.step.has_begun:
            self.step.away += now - unit.began
        else:
            self.step = StepTimes(now, mark)

    def _evaluated(self, unit: Unit, now: int, mark: Any) -> None:
        """All of the unit was an evaluation."""
        whole = Taken()
        whole.host[EVALUATION] = [now - unit.began, int(not self._evaluating)]  # its batches are one evaluation
        self._evaluating = True
        if unit.mark is not None and mark is not None:
            whole.spans.append((EVALUATION, unit.mark, mark))
        whole.add(unit.taken, f"{EVALUATION}/")
        self._on_outside(whole, self.epoch)

    def _finish_step(self, now: int, mark: Any, within_iteration: bool) -> None:
        step = self.step
        step.duration = now - step.began - step.away
        step.interval = (step.mark, mark) if step.mark is not None and mark is not None and not step.away else None
        if step.source is not None and (work := step.source.work()) is not None:
            step.worker = (step.worker or 0) + work
        self.step, self.stepped = StepTimes(now, mark), False
        self._settle()
        if within_iteration and self.expected - step.optimizers:
            self._waiting = (step, self.epoch)
        else:
            self._tell(step, self.epoch)

    def _settle(self) -> None:
        """What waited is a step of its own."""
        if self._waiting is not None:
            (step, epoch), self._waiting = self._waiting, None
            self._tell(step, epoch)

    def _tell(self, step: StepTimes, epoch: EpochTimes | None) -> None:
        if epoch is not None:
            epoch.micro += step.micro
            ahead = self._training if self._training is not None and self._training.ahead else None
            step.epoch = epoch.progress(step.source or ahead)
        began = self._clock()
        self._on_step(step, epoch)
        if self._clock() - began > ONE_OFF_NS and not self.step.has_begun and not self.unit.taken:
            if ours := self._phases.take():
                self._on_outside(ours, self.epoch)
            self.unit.began, self.unit.mark = self.step.began, self.step.mark = self.now()

    # what the user says

    def step_begins(self) -> None:
        """The user's step."""
        self.explicit, self.stepped = True, False
        if self.unit.fetched and not self.unit.forward:
            self._absorb()
        else:
            self.boundary()
        self.step = StepTimes(self.unit.began, self.unit.mark)  # what ran outside of brackets is no step
        self.within = True
        self.feeds_training()

    def step_ends(self) -> None:
        """The user's step is over."""
        self.unit.update = self.stepped = True
        self.unit.failed = False
        self.boundary()
        self.within = False

    def epoch_begins(self) -> None:
        """The user's epoch."""
        self._settle()
        self._switch(*self.now())
        self._held = True

    def epoch_ends(self) -> None:
        """The user's epoch is over."""
        self._settle()
        self._held = False
        self._finish_epoch(*self.now())

    def close(self) -> None:
        """No more comes: what is under way ended with the last thing that was seen."""
        self.within = False
        self._settle()
        self.boundary(ended=max(self.unit.began, self._phases.left or self._clock()))
        self._settle()
        self._finish_epoch(*self.now())

    def _switch(self, began: int, mark: Any) -> None:
        self._finish_epoch(began, mark)
        self._epochs += 1
        self.epoch = EpochTimes(self._epochs, began, mark)

    def _finish_epoch(self, ended: int, mark: Any) -> None:
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            epoch.total = ended - epoch.began
            epoch.interval = (epoch.mark, mark) if epoch.mark is not None else None
            self._on_epoch(epoch)
