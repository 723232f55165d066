"""See inside every training step: one import, one file, one screen.

    import stepscope

    with stepscope.init(project="demo", config={"lr": 2e-4}) as run:
        run.log_step(step, epoch, tokens, duration_ms, norm, loss, lr)

    stepscope.read_run("output/training.json").series("loss")

The names below are resolved when they are first used, so that the import costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .automatic import auto as auto
    from .errors import MissingExtra as MissingExtra
    from .errors import StepscopeError as StepscopeError
    from .monitor import watch as watch
    from .readers.run_file import Run as Run
    from .readers.run_file import read_run as read_run
    from .run import LogVerbosity as LogVerbosity
    from .run import TrainingRunLogger as TrainingRunLogger
    from .start import init as init

_PUBLIC = {
    "auto": "automatic",
    "LogVerbosity": "run",
    "MissingExtra": "errors",
    "Run": "readers.run_file",
    "StepscopeError": "errors",
    "TrainingRunLogger": "run",
    "init": "start",
    "read_run": "readers.run_file",
    "watch": "monitor",
}

__all__ = [
    "LogVerbosity",
    "MissingExtra",
    "Run",
    "StepscopeError",
    "TrainingRunLogger",
    "__version__",
    "auto",
    "init",
    "read_run",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'stepscope' has no attribute {name!r}")
    value = getattr(import_module(f".{_PUBLIC[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
