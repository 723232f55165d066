"""Which step and which epoch a moment belongs to: a training loop, told from what it does.

    loop = Loop(phases, on_step=…, on_outside=…, on_epoch=…)
    loop.fetch_begins(source); …; loop.fetch_ends(source, samples)
    loop.forward_begins(tokens=2048); …; loop.forward_ends()
    loop.backward_begins(loss); …; loop.backward_ends()
    loop.update_begins([lr]); …; loop.update_ends()

Between two fetches lies a unit of work. One with a backward pass or an update is training; one with a forward pass
alone is an evaluation. A step ends when an optimizer has stepped and the next fetch or forward pass begins, so that
accumulation is one step; `step_begins` and `step_ends` say it outright instead. An epoch begins at the first fetch
of a loader that turns out to feed training, and ends where the next one begins.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from .moments import EpochTimes, Source, StepTimes, Unit
from .phases import Phases, Taken

FETCH, EVALUATION = "data_generation", "validation_epoch"


class Loop:
    """Takes what a training does, and says when a step or an epoch is over, and what lay between."""

    def __init__(
        self,
        phases: Phases,
        on_step: Callable[[StepTimes, EpochTimes | None], Any],
        on_outside: Callable[[Taken, EpochTimes | None], Any],
        on_epoch: Callable[[EpochTimes], Any],
        clock: Callable[[], int] = perf_counter_ns,
    ):
        self._phases, self._clock = phases, clock
        self._on_step, self._on_outside, self._on_epoch = on_step, on_outside, on_epoch
        now, mark = clock(), self._mark()
        self._unit, self._step = Unit(now, mark), StepTimes(now, mark)
        self._stepped = False  # the step is over as soon as something new begins
        self.explicit = False  # whether the user brackets the steps
        self._within = False  # such a bracket
        self._evaluating = False
        self._fetching = 0  # fetches inside fetches
        self._nested: list[bool] = []
        self._epochs = 0
        self.epoch: EpochTimes | None = None  # under way
        self._held = False  # the user says where an epoch ends
        self._training: Source | None = None
        self._updating = 0  # optimizers inside optimizers
        self._heard = False  # a backward pass inside the update that is under way
        self._slot = (0, -1)  # updates in this step so far, losses since the last forward pass
        self._forward_since = True  # a forward pass or a fetch since the last backward pass

    def _mark(self) -> Any:
        return self._phases.device.mark() if self._phases.device is not None else None

    # what a loop does

    def fetch_begins(self, source: Source) -> None:
        """A batch is asked for."""
        self._fetching += 1
        if self._fetching > 1:
            return
        nested = self._phases.is_open
        self._nested.append(nested and FETCH not in self._phases.path)
        if not nested and not self._within:
            self._boundary(source)
            if source.began is None:
                source.began, source.mark = self._clock(), self._mark()
        if self._nested[-1]:
            self._phases.enter(FETCH)
        else:
            self._phases.enter_auto(FETCH)

    def fetch_ends(self, source: Source, samples: int | None) -> None:
        """It has come; `samples` is None where nothing was left."""
        self._fetching -= 1
        if self._fetching:
            return
        if self._nested.pop():
            return self._phases.leave(FETCH)
        self._phases.leave_auto()
        if samples is None or self._phases.is_open:
            return
        source.fetched += 1
        self._unit.source = source
        self._unit.fetched += 1
        self._unit.samples += samples
        self._forward_since = True

    def forward_begins(self, evaluates: bool = False, samples: int = 0, tokens: int = 0) -> None:
        """A forward pass of a root module; `evaluates` where it can be nothing else."""
        if self._within or not self._phases.is_open:
            alone = self._unit.forward and not (self._unit.trains or self._unit.backward or self._unit.fetched)
            if not self._within and (self._stepped or alone):
                self._boundary()
            self._unit.forward = True
            self._unit.trains = self._unit.trains and not evaluates
            if not (self._updating and self._heard):
                self._unit.fed += samples
                self._unit.tokens += tokens
        self._forward_since = True
        self._phases.enter_auto("forward_pass")

    def backward_begins(self, loss: Any) -> None:
        """A backward pass from `loss`; of those inside an update the first counts."""
        self._unit.backward = True
        self._feeds_training()
        if loss is not None and not (self._updating and self._heard):
            self._keep(loss)
        self._heard = self._updating > 0
        self._phases.enter_auto("backward_pass")

    def _keep(self, loss: Any) -> None:
        """Several backward passes after one forward pass are of several losses; otherwise they add up."""
        updates, losses = self._slot
        self._slot = (updates, 0 if self._forward_since else losses + 1)
        self._forward_since = False
        self._step.losses.setdefault(self._slot, []).append(loss)
        self._step.micro += self._slot == (0, 0)

    def update_begins(self, lrs: list[Any]) -> None:
        """An optimizer begins its step, or a gradient scaler that may call it."""
        self._updating += 1
        if self._updating == 1:
            self._heard = False
            self._phases.enter_auto("optimizer_step")
        self._step.lrs = self._step.lrs or lrs

    def update_ends(self, skipped: Any = None) -> None:
        """It has stepped; `skipped` says whether the scaler left it out."""
        if skipped is not None:
            self._step.skipped = skipped
        self._updating -= 1
        if self._updating:
            return
        self._phases.leave_auto()
        self._unit.update = self._stepped = True
        self._feeds_training()
        self._step.updates += 1
        self._slot, self._forward_since = (self._slot[0] + 1, -1), True

    def transfer_begins(self) -> None:
        """Data moves to the device."""
        self._phases.enter_auto("data_transfer")

    def ends(self) -> None:
        """A forward pass, a backward pass or a transfer is over."""
        self._phases.leave_auto()

    # what the user says

    def step_begins(self) -> None:
        """The user's step."""
        if not self.explicit:
            self.explicit, self._stepped = True, False
            self._step = StepTimes(self._unit.began, self._unit.mark)  # what ran before is no step
        if self._unit.fetched and not self._unit.forward:
            self._absorb()
        else:
            self._boundary()
        self._within = True
        self._feeds_training()

    def step_ends(self) -> None:
        """The user's step is over."""
        self._phases.close_open()
        self._unit.update = self._stepped = True
        self._boundary()
        self._within = False

    def epoch_begins(self) -> None:
        """The user's epoch."""
        self._boundary()
        self._switch(self._clock(), self._mark())
        self._held = True

    def epoch_ends(self) -> None:
        """The user's epoch is over."""
        self._boundary()
        self._held = False
        self._finish_epoch(self._clock(), self._mark())

    def close(self) -> None:
        """No more comes."""
        self._within = False
        self._boundary(last=True)
        self._finish_epoch(self._clock(), self._mark())

    # what follows from it

    def _absorb(self) -> None:
        self._unit.taken.add(self._phases.take())

    def _boundary(self, source: Source | None = None, last: bool = False) -> None:
        """Work ends here: of training it goes to the step, else to the epoch."""
        self._absorb()
        unit = self._unit
        trained = (unit.backward or unit.update) and (self._within or not self.explicit)
        ahead = unit.fetched and not (unit.forward or unit.backward or unit.update)
        if ahead and not last and (source is None or source is unit.source):
            if source is not None:
                source.ahead = True
            return  # what was fetched is for what comes
        now, mark = self._clock(), self._mark()
        if trained:
            self._step.add(unit)
            self._evaluating = False
        elif unit.forward and not unit.backward:
            self._evaluated(unit, now, mark)
        elif unit.taken:
            self._on_outside(unit.taken, self.epoch)
        self._unit = Unit(now, mark)
        if self._stepped and (self._within or not self.explicit):
            self._finish_step(now, mark)
        elif not trained:
            self._stepped = False
            if not self._step.has_begun:
                self._step.began, self._step.mark = now, mark

    def _feeds_training(self) -> None:
        """The loader of this unit is one that feeds training: with its first fetch an epoch has begun."""
        source = self._unit.source
        if source is None or source is self._training or (self.explicit and not self._within):
            return
        self._training = source
        if not self._held and source.began is not None:
            self._switch(source.began, source.mark)

    def _evaluated(self, unit: Unit, now: int, mark: Any) -> None:
        """All of the unit was an evaluation."""
        whole = Taken()
        whole.host[EVALUATION] = [now - unit.began, int(not self._evaluating)]  # its batches are one evaluation
        self._evaluating = True
        if unit.mark is not None:
            whole.spans.append((EVALUATION, unit.mark, mark))
        whole.add(unit.taken, f"{EVALUATION}/")
        self._on_outside(whole, self.epoch)

    def _finish_step(self, now: int, mark: Any) -> None:
        step, epoch = self._step, self.epoch
        step.duration = now - step.began
        step.interval = (step.mark, mark) if step.mark is not None else None
        if step.source is not None:
            step.worker = step.source.work()
        if epoch is not None:
            epoch.micro += step.micro
            step.epoch = epoch.progress(step.source)
        self._step, self._stepped = StepTimes(now, mark), False
        self._slot, self._forward_since = (0, -1), True
        self._on_step(step, epoch)

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
