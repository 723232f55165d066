"""The same for a script that knows nothing of us: `stepscope run train.py`, or one line at its top.

    import stepscope
    stepscope.auto()          # from here on, whatever trains is watched

Nothing is made before the first training step is over: a script that trains nothing leaves nothing behind. One that
opens a run of its own is watched into that; one that calls `stepscope.watch` is watched by that alone.
"""

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import os
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
    if _active is not None:
        _active.stepped_aside = True
        _active.close()


class Auto:
    """Waits for torch, then for a training."""

    def __init__(self, card: bool, console: TextIO | None, settings: dict[str, Any]):
        self._card, self._console, self._settings = card, console, settings
        self._owned: TrainingRunLogger | None = None
        self._open = True
        self.scope: Scope | None = None
        self._told: Scope | None = None  # the newest that saw a step
        self.stepped_aside = self.is_forked = False
        self._finder: AfterImport | None = None
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self._at_exit)
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
        self._told = self.scope
        for run in ending.open_runs():
            if isinstance(run, TrainingRunLogger):
                run.before_close.append(self._again)
                return run
        self._owned = TrainingRunLogger(console=self._console, **self._settings)
        atexit.register(self._at_exit)  # before the run itself thinks that it was forgotten
        return self._owned

    def _again(self) -> None:
        """The program's run ends: a next training may have a run of its own."""
        if self.scope is not None:
            self.scope.close()
        if self._open:
            self._begin()

    def card(self) -> list[str]:
        """The end of the newest training in a screen of lines; empty where nothing was seen."""
        return self._told.card() if self._told is not None else []

    def failed(self, error: BaseException) -> None:
        """An error that ends the program."""
        if self.scope is not None:
            self.scope.failed(error)

    def close(self, status: str = "finished", reason: str | None = None) -> None:
        """Stop watching, and close the run if it is ours."""
        global _active
        if _active is self:
            _active = None
        if not self._open:
            return
        self._open = False
        atexit.unregister(self._at_exit)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self.scope is not None:
            self.scope.close()
        if self._owned is not None:
            self._owned.close(status, reason)

    def _at_exit(self) -> None:
        """The program ended; `stepscope run` knows how, a program that called `auto` may have failed."""
        status, reason = ending.by_error() or ("finished", None)
        self.close(status, reason)

    def _forked(self) -> None:
        """A forked child is not watched."""
        global _active
        _active, self._open, self.is_forked = None, False, True
        atexit.unregister(self._at_exit)
        if self.scope is not None:
            self.scope.forsake()


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls something once a module has been imported by whoever wants it."""

    def __init__(self, name: str, call: Callable[[], Any]):
        self._name, self._call = name, call
        self._looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, whose loader tells when it is done."""
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._imported()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _imported(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._call()
