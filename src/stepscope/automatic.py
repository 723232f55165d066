"""The same for a script that knows nothing of us: `stepscope run train.py`, or one line at its top.

    import stepscope
    stepscope.auto()          # from here on, whatever trains is watched

Nothing is made before the first training step is over: a script that trains nothing leaves nothing behind. One that
opens a run of its own is watched into that; one that calls `stepscope.watch` is watched by that alone.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from . import ending
from .run import TrainingRunLogger

if TYPE_CHECKING:
    from .monitor.scope import Scope

_active: "Auto | None" = None


def auto(*, card: bool = True, console: TextIO | None = None, **settings: Any) -> "Auto":
    """Watch whatever trains in this process from now on; `settings` are those of `stepscope.init`."""
    global _active
    if _active is None:
        _active = Auto(card, console, settings)
    return _active


def step_aside() -> None:
    """The program watches itself."""
    global _active
    if _active is not None:
        was, _active = _active, None
        was.close()


class Auto:
    """Waits for torch, then for a training."""

    def __init__(self, card: bool, console: TextIO | None, settings: dict[str, Any]):
        self._card, self._console, self._settings = card, console, settings
        self._owned: TrainingRunLogger | None = None
        self.scope: Scope | None = None
        self._finder: AfterImport | None = None
        if "torch" in sys.modules:
            self._begin()
        else:
            self._finder = AfterImport("torch", self._begin)
            sys.meta_path.insert(0, self._finder)

    def _begin(self) -> None:
        try:
            from .monitor.scope import Options, Scope

            self.scope = Scope(None, None, self._run, Options(card=self._card))
        except Exception as error:  # noqa: BLE001 - a torch that is too old, or only half there: the script goes on
            print(f"stepscope: cannot watch: {type(error).__name__}: {error}", file=sys.stderr)

    def _run(self) -> TrainingRunLogger:
        """The program's own run, or one of ours."""
        for run in ending.open_runs():
            if isinstance(run, TrainingRunLogger):
                return run
        self._owned = TrainingRunLogger(console=self._console, **self._settings)
        return self._owned

    def close(self, status: str = "finished", reason: str | None = None) -> None:
        """Stop watching, and close the run if it is ours."""
        global _active
        if _active is self:
            _active = None
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self.scope is not None:
            self.scope.close()
        if self._owned is not None:
            self._owned.close(status, reason)


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls something once a module has been imported by whoever wants it."""

    def __init__(self, name: str, call: Callable[[], Any]):
        self._name, self._call = name, call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, whose loader tells when it is done."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute, call = spec.loader.exec_module, self._call

            def exec_module(module: ModuleType) -> None:
                execute(module)
                call()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
