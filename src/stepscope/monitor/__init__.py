"""`stepscope.watch`: looks at a training loop while it runs, and writes what it sees into the run.

    scope = stepscope.watch(model, optimizer, run)
    for batch in scope.loader(loader):
        with scope.step():
            with scope.phase("forward_pass"):
                ...
    scope.close()

Phases, loader and step may each be left out: what is not said is seen by hooks.
"""

from typing import TYPE_CHECKING, Any

from ..errors import BadType, MissingExtra, show
from ..run import TrainingRunLogger

if TYPE_CHECKING:
    from .scope import Scope


def watch(
    model: Any = None,
    optimizer: Any = None,
    run: TrainingRunLogger | None = None,
    *,
    hardware: bool = True,
    memory: bool = True,
    speed_of_light: bool = True,
    peaks: Any = None,
    steps: bool = True,
    card: bool = True,
) -> "Scope":
    """Watch a training; `model` and `optimizer` may be one, several, or left out: then they are found.

    `run` is a run of `stepscope.init` or a `TrainingRunLogger`; one is begun where it is left out, and closed with
    the scope. `hardware`, `memory` and `speed_of_light` switch those parts off. `peaks` gives the hardware's own
    figures, as {"bf16": 989.4} in TFLOP/s. `steps=False` leaves the step records to the program, which also takes
    them over by calling `log_step`. `card=False` leaves out what is printed at the end.
    """
    if run is not None and not isinstance(run, TrainingRunLogger):
        raise BadType(f"run must be what stepscope.init() returned, not {show(run)}")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtra("torch", use="to watch a training") from error
    from ..automatic import step_aside
    from .scope import Options, Scope

    step_aside()
    options = Options(hardware, memory, speed_of_light, peaks, steps, card, owns_run=run is None)
    return Scope(model, optimizer, run if run is not None else TrainingRunLogger(), options)
