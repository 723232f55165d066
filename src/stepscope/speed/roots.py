"""The modules that a training calls: the outermost ones that hold its optimizers' parameters.

    roots = Roots(called)            # called(call, module, args, kwargs) stands around each of their calls
    roots.find()                     # one sweep over the living objects
    roots.release()

A compiled wrapper, DDP or a user's own model is found whichever holds the others. Their classes' `__call__` is
replaced, for these objects alone: an instance keeps nothing of ours.
"""

import gc
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

parent: Any = super  # of a class that is not known before it runs
Called = Callable[[Callable[[], Any], Any, Any, Any], Any]


class Roots:
    """The root modules, and what stands around their calls."""

    def __init__(self, called: Called, on_forward: Callable[[Any, Any, Any], Any] | None = None):
        self._called, self._on_forward = called, on_forward
        self._watched: dict[int, Any] = {}
        self._classes: dict[type, Any] = {}
        self._parameters: set[int] = set()
        self._inside = False  # a root's call
        self.found: list[Any] = []
        self.optimizers: list[Any] = []

    def find(self, optimizers: Iterable[Any] | None = None) -> None:
        """Look for the modules of these optimizers; of all that live, where none are given."""
        if optimizers is None:
            optimizers = [o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer)]
        new = [o for o in optimizers if not any(o is known for known in self.optimizers)]
        if not new:
            return
        self.optimizers += new
        held = {id(p) for o in new for group in o.param_groups for p in group["params"]}
        if held <= self._parameters:
            return
        self._parameters |= held
        self.watch(_outermost(self._parameters))

    def watch(self, modules: Iterable[Any]) -> None:
        """Stand around the calls of these modules from now on."""
        for module in modules:
            if id(module) not in self._watched and not isinstance(module, torch.jit.ScriptModule):
                self._watched[id(module)] = module
                self.found.append(module)
                self._wrap(type(module))

    def descend(self) -> None:
        """The roots are never called (a trainer's shell around the model): watch what they hold as well."""
        self.watch([child for module in list(self.found) for child in module.children() if self._holds(child)])

    def _holds(self, module: Any) -> bool:
        return any(id(p) in self._parameters for p in module.parameters())

    def _wrap(self, kind: type) -> None:
        if kind in self._classes:
            return
        own = kind.__dict__.get("__call__")
        watched, around = self._watched, self._around
        of_class: Any = kind

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            # first of all: code that is being compiled must not see more of us than this
            if torch.compiler.is_compiling() or id(self) not in watched:
                return own(self, *args, **kwargs) if own else parent(of_class, self).__call__(*args, **kwargs)
            return around(own, of_class, self, args, kwargs)

        self._classes[kind] = (own, __call__)
        setattr(kind, "__call__", __call__)  # noqa: B010 - what mypy knows of types forbids the plain way

    def _around(self, own: Any, kind: Any, module: Any, args: Any, kwargs: Any) -> Any:
        def call() -> Any:
            return own(module, *args, **kwargs) if own else parent(kind, module).__call__(*args, **kwargs)

        if self._inside:
            return call()
        self._inside = True
        try:
            if self._on_forward is not None:
                self._on_forward(module, args, kwargs)
            return self._called(call, module, args, kwargs)
        finally:
            self._inside = False

    def release(self) -> None:
        """Give the classes their own `__call__` back."""
        for kind, (own, ours) in self._classes.items():
            if kind.__dict__.get("__call__") is ours:
                setattr(kind, "__call__", own) if own is not None else delattr(kind, "__call__")
        self._classes.clear()
        self._watched.clear()
        self.found.clear()
        self.optimizers.clear()


def _outermost(parameters: set[int]) -> list[Any]:
    """The living modules that hold some of these parameters and that no other module holds."""
    modules = [o for o in gc.get_objects() if issubclass(type(o), nn.Module)]
    inside = {id(child) for module in modules for child in _children(module)}
    tops = [module for module in modules if id(module) not in inside]
    return [module for module in tops if any(id(p) in parameters for p in module.parameters())]


def _children(module: Any) -> Iterable[Any]:
    return [child for child in module.__dict__.get("_modules", {}).values() if child is not None]
