"""The bracket around a training loop: what `watch` returns.

    with stepscope.watch(model, optimizer, run) as scope:
        for batch in scope.loader(loader):
            with scope.step():
                with scope.phase("forward_pass"):
                    loss = model(batch)

Whatever fails in here is said once, and the training goes on unwatched.
"""

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from time import perf_counter_ns
from types import TracebackType
from typing import Any, NamedTuple

import torch

from ..diagnose.card import card
from ..records import Event
from ..run import TrainingRunLogger
from ..sinks.place import shown
from ..speed.device_clock import DeviceClock
from ..speed.hooks import Hooks
from ..speed.loader import Loader
from ..speed.loop import Loop
from ..speed.memory import FIRST, MemoryWatch
from ..speed.moments import EpochTimes, StepTimes
from ..speed.out_of_memory import is_out_of_memory, out_of_memory
from ..speed.phases import Phases, Taken
from ..speed.timeline import Timed, Timeline
from .estimate import Estimate
from .machine import Machine
from .teller import Teller

DEADLINE_S = 1.0
TELL_S = 0.25  # steps are written four times a second: several at once cost less, and a kill costs no more than that
OURS = "watching"  # what we do ourselves and takes long


class Options(NamedTuple):
    """What `watch` was told."""

    hardware: bool = True
    memory: bool = True
    speed_of_light: bool = True
    peaks: Any = None
    steps: bool = True
    card: bool = True
    owns_run: bool = False


class Scope:
    """A training that is watched."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        run: TrainingRunLogger | Callable[[], TrainingRunLogger],
        options: Options,
    ):
        """`run` may be a function that makes one: it is called when the first step is over."""
        self._options = options
        self._open = callable(run) or run.settings.mode != "disabled"
        self._run: TrainingRunLogger | None = None
        self._make_run = run if callable(run) else None
        if not self._open:
            self._run = None if callable(run) else run
            return
        self._failed = False
        self._early: list[Callable[[TrainingRunLogger], Any]] = []  # what is to be said once there is a run
        self._device = DeviceClock() if _on_gpu(model, optimizer) else None
        self._phases = Phases(self._device, on_trouble=self._trouble)
        self._memory = MemoryWatch(model, optimizer) if options.memory else None
        self._estimate = Estimate(options.peaks, self._note, options.speed_of_light)
        self._held: list[Timed] = []  # the step that is just over, and what came behind it
        self._loop = Loop(self._phases, self._on_step, self._on_outside, self._on_epoch)
        self._hooks = Hooks(self._loop, self._trouble, self._estimate.see, self._moment, self.failed, self._phases.move)
        if not callable(run):
            self._begin(run)
        self._hooks.roots.watch(_several(model))
        self._hooks.attach()

    def _begin(self, run: TrainingRunLogger) -> None:
        """From here on there is something to write into."""
        if self._device is None and _on_gpu(None, list(self._hooks.roots.optimizers)):
            self._device = self._phases.device = DeviceClock()  # a script had no model yet when it began
        self._machine = Machine(run.enter, self._memory, self._device, self._options.hardware)
        self.teller = Teller(run, self._machine, self._estimate, self._options.steps, late=self._make_run is not None)
        self.teller.phase_ns = _cost_of_a_phase()
        self._timeline = Timeline(self._device, self._guarded(self.teller.told), TELL_S)
        self._run = run
        run.complete = self.teller.complete
        run.before_other = self._guarded(self._tell_all)
        run.before_close.append(self.close)
        for say in self._early:
            say(run)

    @property
    def run(self) -> TrainingRunLogger | None:
        """The run that is written into; None where none has begun."""
        return self._run

    # what the user says

    def step(self) -> Any:
        """One training step, `with scope.step(): …`; its time begins with the fetch of its batch."""
        return Step(self) if self._open else nullcontext(self)

    def phase(self, name: str) -> Any:
        """A part of a step, or of what lies between steps: `with scope.phase("forward_pass"): …`."""
        return self._phases.phase(name) if self._open else nullcontext(self)

    def loader(self, iterable: Any) -> Any:
        """The same batches, each fetch timed."""
        return Loader(iterable, self._loop, self._tell) if self._open else iterable

    def epoch(self) -> Any:
        """An epoch, where the loader does not say it: `with scope.epoch(): …`."""
        return Epoch(self) if self._open else nullcontext(self)

    def close(self) -> None:
        """Stop watching: every hook is gone, what was measured is written, and the card is printed."""
        if not self._open:
            return
        self._open = False
        self._hooks.detach()
        run = self._run
        if run is not None and run.is_forked:
            return
        self._tell(self._loop.close)
        self._tell(self._flush)
        run = self._run  # the last step may have begun it
        if run is None:
            return
        self._tell(self._timeline.drain, DEADLINE_S)
        self._machine.close()
        self._tell(self.teller.close)
        run.complete = run.before_other = None
        if self.close in run.before_close:
            run.before_close.remove(self.close)
        if self._options.card:
            run.say(self.card())
        if self._options.owns_run:
            run.close()

    def forsake(self) -> None:
        """Leave without a word, as in a forked child, which is not the process that is watched."""
        self._open = False
        self._hooks.detach()

    def card(self) -> list[str]:
        """The end of the run in a screen of lines; empty where nothing was seen."""
        if self._run is None:
            return []
        file = shown(self._run.path) if self._run.path is not None else ""
        lines: list[str] = []
        self._tell(lambda: lines.extend(card(self.teller.whole, self.teller.limits, file)))
        return lines

    def __enter__(self) -> "Scope":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.failed(error)
        self.close()

    def failed(self, error: BaseException) -> None:
        """An error of the training: where memory ran out, what held it is written down."""
        if self._open and self._run is not None and not self._failed and is_out_of_memory(error):
            self._failed = True
            self._tell(self._out_of_memory, error)

    def _out_of_memory(self, error: BaseException) -> None:
        self._tell_all()
        held = self._memory.now() if self._memory is not None else None
        record = out_of_memory(error, held, self.teller.last_steps, phase=self._phases.path or None)
        self.teller.write_now(record)

    # what the loop says

    def _on_step(self, step: StepTimes, epoch: EpochTimes | None) -> None:
        if self._run is None and not self._begins_now():
            return
        self._flush()
        self._held = [Timed("step", step, epoch, step.taken, step.duration, step.interval)]
        if not self._loop.explicit:
            self._flush()  # else the program may log the step behind the bracket, with its number
        self._measure_memory()
        self._count_operations()

    def _begins_now(self) -> bool:
        """A training that nobody announced is there: begin its run, or leave it alone for good."""
        try:
            if self._make_run is not None:
                self._begin(self._make_run())
        except Exception as error:  # noqa: BLE001 - a folder that cannot be written, above all
            print(f"stepscope: cannot watch: {type(error).__name__}: {error}", file=sys.stderr)
            self._make_run = None
            self.forsake()
        return self._run is not None

    def _flush(self) -> None:
        held, self._held = self._held, []
        for timed in held:
            if timed.kind == "step":
                timed.number = self.teller.number()
            self._timeline.put(timed)

    def _tell_all(self) -> None:
        """What the program logs now stands behind the steps before it."""
        self._flush()
        self._timeline.settle()

    def _on_outside(self, taken: Taken, epoch: EpochTimes | None) -> None:
        if self._run is None:
            return
        timed = Timed("outside", None, epoch, taken, 0)
        self._held.append(timed) if self._held else self._timeline.put(timed)

    def _on_epoch(self, epoch: EpochTimes) -> None:
        if self._run is None:
            return
        self._flush()
        self._timeline.put(Timed("epoch", epoch, None, Taken(), epoch.total, epoch.interval))
        self._timeline.settle()
        for record in self._memory.allocator() if self._memory is not None else []:
            self.teller.write_now(record)

    def _measure_memory(self) -> None:
        memory = self._memory
        if memory is None:
            return
        if not memory.models or not memory.optimizers:
            memory.models = memory.models or self._hooks.roots.found
            memory.optimizers = memory.optimizers or self._hooks.roots.optimizers
        if memory.end_of_step() and memory.samples in (1, FIRST):
            for record in memory.allocator():
                self.teller.write_now(record)

    def _count_operations(self) -> None:
        if not self._estimate.is_due:
            return
        self._phases.enter_auto(OURS)  # half a second for a large model, once: nobody shall look for it
        try:
            if (record := self._estimate.make()) is not None:
                self.teller.write(record)
        finally:
            self._phases.leave_auto()

    def _moment(self, name: str, loss: Any = None) -> None:
        """The moments at which memory is measured."""
        if self._memory is None:
            return
        if name == "backward":
            self._memory.after_forward(loss)
        else:
            self._memory.before_optimizer()

    # so that nothing of ours ends a training

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: self._tell(call, *args)

    def _tell(self, call: Callable[..., Any], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:
            if self._run is not None and self._run.settings.strict:
                raise
            self._trouble("watching", f"watching failed: {type(error).__name__}: {error}")

    def _trouble(self, rule: str, message: str) -> None:
        """Something of ours, or of how we are used, is wrong."""
        self._say(lambda run: run.trouble(rule, message))

    def _note(self, rule: str, message: str) -> None:
        """Something cannot be known."""
        self._say(lambda run: run.enter(Event(step=self.teller.step, rule=rule, message=message)))

    def _say(self, say: Callable[[TrainingRunLogger], Any]) -> None:
        self._early.append(say) if self._run is None else say(self._run)


class Step:
    """One step as a context manager."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope):
        self._scope = scope

    def __enter__(self) -> Scope:
        scope = self._scope
        scope._tell(scope._flush)
        scope._tell(scope._loop.step_begins)
        return scope

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self._scope.failed(error)
        self._scope._tell(self._scope._loop.step_ends)


class Epoch:
    """One epoch as a context manager."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope):
        self._scope = scope

    def __enter__(self) -> Scope:
        self._scope._tell(self._scope._loop.epoch_begins)
        return self._scope

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._scope._tell(self._scope._loop.epoch_ends)


def _several(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _on_gpu(model: Any, optimizer: Any) -> bool:
    """Whether the training runs on a GPU, as far as its parameters say."""
    tensors: Iterable[Any] = [p for m in _several(model) for p in m.parameters()]
    tensors = tensors or [p for o in _several(optimizer) for group in o.param_groups for p in group["params"]]
    return any(tensor.is_cuda for tensor in tensors) if tensors else torch.cuda.is_initialized()


def _cost_of_a_phase(times: int = 200) -> int:
    """Nanoseconds that a phase takes here."""
    phase = Phases().phase("x")
    began = perf_counter_ns()
    for _ in range(times):
        with phase:
            pass
    return (perf_counter_ns() - began) // times
