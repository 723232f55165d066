"""Which step and which epoch a moment belongs to: a training loop, told from what it does.

    loop = Loop(phases, on_step=…, on_outside=…, on_epoch=…)
    loop.fetch_begins(source); …; loop.fetch_ends(source, samples)
    loop.forward_begins(fed=(8, 2048)); …; loop.ends()
    loop.backward_begins(loss); …; loop.ends()
    loop.update_begins([lr], optimizer=1); …; loop.update_ends()

Between two fetches lies a unit of work. One with a backward pass or an update is training; one with a forward pass
alone is an evaluation. A step ends when the optimizers have stepped and the next fetch or forward pass begins, so
that accumulation is one step; `step_begins` and `step_ends` say it outright instead.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from .moments import EpochTimes, Source, StepTimes
from .phases import Phases, Taken
from .stretches import Stretches

FETCH = "data_generation"

OnStep = Callable[[StepTimes, EpochTimes | None], Any]
OnOutside = Callable[[Taken, EpochTimes | None], Any]


class Loop:
    """Takes what a training does, and says when a step or an epoch is over, and what lay between."""

    def __init__(
        self,
        phases: Phases,
        on_step: OnStep,
        on_outside: OnOutside,
        on_epoch: Callable[[EpochTimes], Any],
        clock: Callable[[], int] = perf_counter_ns,
    ):
        self._phases, self._clock = phases, clock
        self._so_far = Stretches(phases, on_step, on_outside, on_epoch, clock)
        self._fetching = 0  # fetches inside fetches
        self._nested: list[bool] = []
        self.updating = 0  # optimizers inside optimizers
        self._joining: tuple[int, list[Any]] | None = None  # the optimizer that begins its step, and its rates
        self._heard = False  # a backward pass inside the update that is under way
        self._slot = (0, -1)  # updates in this step so far, losses since the last forward pass
        self._new_batch = True  # a forward pass or a fetch since the last backward pass
        self._fed: list[tuple[int, int] | None] = []  # by the forward passes since then

    @property
    def explicit(self) -> bool:
        """Whether the user brackets the steps."""
        return self._so_far.explicit

    @property
    def epoch(self) -> EpochTimes | None:
        """The epoch that is under way."""
        return self._so_far.epoch

    def expect(self, optimizers: set[int]) -> None:
        """These optimizers live: a step may use any of them."""
        self._so_far.expected |= optimizers

    # fetches

    def fetch_begins(self, source: Source) -> None:
        """A batch is asked for."""
        self._fetching += 1
        if self._fetching > 1:
            return
        nested = self._phases.is_open
        self._nested = [nested and FETCH not in self._phases.path]
        if not nested and not self._so_far.within:
            self._boundary(source)
            if source.began is None:
                source.began, source.mark = self._so_far.now()
        if self._nested[-1]:
            self._phases.enter(FETCH)
        else:
            self._phases.enter_auto(FETCH)

    def fetch_ends(self, source: Source, samples: int | None) -> None:
        """It has come; `samples` is None where nothing was left."""
        self._fetching = max(0, self._fetching - 1)
        if self._fetching or not self._nested:
            return
        if self._nested.pop():
            return self._phases.leave(FETCH)
        self._phases.leave_auto()
        if samples is None or self._phases.is_open:
            return
        unit = self._so_far.unit
        source.fetched += 1
        unit.source = source
        unit.fetched += 1
        unit.samples += samples
        self._new_batch = True

    # forward and backward passes

    def forward_begins(self, evaluates: bool = False, fed: tuple[int, int] | None = None, learns: bool = True) -> None:
        """A forward pass of a root module; `evaluates` where its module does not train, `fed` in samples, tokens."""
        so_far, is_open = self._so_far, self._phases.is_open
        alone = so_far.unit.forward and not (so_far.unit.trains or so_far.unit.backward or so_far.unit.fetched)
        if not so_far.within and (so_far.stepped or (alone and not is_open)):
            self._boundary(within_iteration=not evaluates)
        self._join()
        if so_far.within or not is_open:
            so_far.unit.forward = so_far.step.forward = True
            so_far.unit.trains = so_far.unit.trains and not evaluates
        if learns:
            self._fed.append(fed)
            self._new_batch = True
        self._phases.enter_auto("forward_pass")

    def backward_begins(self, loss: Any) -> None:
        """A backward pass from `loss`; of those inside an update the first counts."""
        so_far = self._so_far
        if so_far.stepped and not (so_far.step.forward or self.updating or so_far.within):
            self._boundary(within_iteration=True)  # the forward pass before it could not be seen
        self._join()
        so_far.unit.backward = True
        so_far.feeds_training()
        if not (self.updating and self._heard):
            self._keep(loss)
        self._fed.clear()
        self._heard = self.updating > 0
        self._phases.enter_auto("backward_pass")

    def _keep(self, loss: Any) -> None:
        """Several backward passes after one forward pass are of several losses; otherwise they add up."""
        step, (updates, losses) = self._so_far.step, self._slot
        self._slot = (updates, 0 if self._new_batch else losses + 1)
        if self._slot == (0, 0):
            step.micro += 1
            step.feed(self._fed[0] if len(self._fed) == 1 else None)
        self._new_batch = False
        if loss is not None:
            step.losses.setdefault(self._slot, []).append(loss)

    def failed(self) -> None:
        """A forward pass, or one without a loss of its own, raised."""
        self._phases.leave_auto()
        self._so_far.unit.failed = True
        self._fed.clear()

    def backward_failed(self) -> None:
        """A backward pass raised: what it was to bring is not part of the step."""
        self.failed()
        so_far = self._so_far
        if self.updating:
            return
        losses = so_far.step.losses.get(self._slot)
        if losses:
            losses.pop()
        if not losses:
            so_far.step.losses.pop(self._slot, None)
        so_far.step.micro -= self._slot == (0, 0)
        so_far.step.feed(None)
        so_far.unit.backward, self._new_batch = False, True

    def ends(self) -> None:
        """A forward pass or a transfer is over."""
        self._phases.leave_auto()

    def backward_ends(self) -> None:
        """A backward pass is over, and with it what may have failed before."""
        self._phases.leave_auto()
        self._so_far.unit.failed = False

    def transfer_begins(self) -> None:
        """Data moves to the device."""
        self._phases.enter_auto("data_transfer")

    # updates

    def update_begins(self, lrs: list[Any], optimizer: int = 0) -> None:
        """An optimizer begins its step, or a gradient scaler that may call it."""
        self.updating += 1
        so_far = self._so_far
        if self.updating == 1:
            repeats = optimizer in so_far.step.optimizers and not so_far.step.forward
            if so_far.stepped and repeats and not so_far.within:
                self._boundary(within_iteration=True)  # nothing but updates can be seen
            self._joining = (optimizer, lrs)
            self._heard = False
            self._phases.enter_auto("optimizer_step")

    def _join(self) -> None:
        """The update is part of this step: where its closure begins a forward pass, the step before has ended."""
        if self._joining is not None:
            (optimizer, lrs), self._joining = self._joining, None
            step = self._so_far.step
            self._so_far.joins(optimizer)
            step.lrs = step.lrs or lrs
            self._slot = (step.updates, self._slot[1])

    def update_ends(self, skipped: Any = None) -> None:
        """It has stepped; `skipped` says whether the scaler left it out."""
        self._join()
        step = self._so_far.step
        if skipped is not None and step.skipped is not True:
            step.skipped = skipped
        self.updating = max(0, self.updating - 1)
        if self.updating:
            return
        self._phases.leave_auto()
        self._so_far.updated()
        self._slot, self._new_batch = (step.updates, -1), True

    def update_failed(self) -> None:
        """An optimizer raised, and the program went on: that step is none."""
        self.updating, self._joining = 0, None
        self._phases.leave_auto()
        self._so_far.abandon()
        self._restart()

    # what the user says

    def step_begins(self) -> None:
        """The user's step."""
        self._so_far.step_begins()
        self._restart()

    def step_ends(self) -> None:
        """The user's step is over."""
        self._phases.close_open()
        self._so_far.step_ends()
        self._restart()

    def epoch_begins(self) -> None:
        """The user's epoch."""
        self._boundary()
        self._so_far.epoch_begins()

    def epoch_ends(self) -> None:
        """The user's epoch is over."""
        self._boundary()
        self._so_far.epoch_ends()

    def close(self) -> None:
        """No more comes."""
        self._so_far.close()

    def _boundary(self, source: Source | None = None, within_iteration: bool = False) -> None:
        unit = self._so_far.unit
        if self._so_far.boundary(source, within_iteration):
            self._restart()
        elif unit is not self._so_far.unit:
            self._fed.clear()  # what an evaluation was given

    def _restart(self) -> None:
        """A new step."""
        self._slot, self._new_batch = (0, -1), True
        self._fed.clear()
