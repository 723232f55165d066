"""The modules that a training calls: the outermost ones that hold its optimizers' parameters.

    roots = Roots(listens, begins, ends)    # begins(module, args, kwargs) and ends(error) stand around their calls
    roots.find()                            # one sweep over the living objects
    roots.release()

A compiled wrapper, DDP or a user's own model is found whichever holds the others. Their classes' `__call__` is
replaced, for these objects alone: an instance keeps nothing of ours, and nothing of ours keeps an instance alive.
"""

import gc
from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any

import torch
from torch import nn

from .living import Known, Living

parent: Any = super  # of a class that is not known before it runs
SWEEPS = 8  # a program that makes new optimizers all the time is not searched each time
DEPTH = 3


class Roots:
    """The root modules, and what stands around their calls."""

    def __init__(
        self,
        listens: Callable[[], bool],
        begins: Callable[[Any, Any, Any], Any],
        ends: Callable[[BaseException | None], Any],
    ):
        self._listens, self._begins, self._ends = listens, begins, ends
        self._watched: dict[int, Known] = {}
        self._optimizers: dict[int, Known] = {}
        self.found, self.optimizers = Living(self._watched), Living(self._optimizers)
        self._classes: dict[type, Any] = {}
        self._parameters: set[int] = set()
        self._inside = False  # a root's call
        self._sweeps = 0

    def find(self, optimizer: Any = None) -> set[int]:
        """Look for the modules of a new optimizer, and for all that live; the optimizers that are new."""
        if id(optimizer) in self._optimizers or self._sweeps >= SWEEPS:
            return set()
        self._sweeps += 1
        objects = _living(torch.optim.Optimizer, nn.Module)
        modules = [o for o in objects if isinstance(o, nn.Module)]
        new = [o for o in objects if not isinstance(o, nn.Module) and id(o) not in self._optimizers]
        for each in new:
            Known(each, self._optimizers)
        held = {id(p) for o in new for group in getattr(o, "param_groups", ()) for p in group["params"]}
        if not held <= self._parameters:
            self._parameters |= held
            self.watch(_outermost(modules, self._parameters))
        return {id(o) for o in new}

    def watch(self, modules: Iterable[Any], depth: int = 0) -> None:
        """Stand around the calls of these modules from now on."""
        for module in modules:
            if id(module) not in self._watched and not isinstance(module, torch.jit.ScriptModule):
                Known(module, self._watched, depth)
                self._wrap(type(module))

    def descend(self) -> None:
        """Roots that are never called (a trainer's shell around the model): watch what they hold as well."""
        for root in list(self._watched.values()):
            module = root()
            if module is not None and not root.called and root.depth < DEPTH:
                root.called = True  # once is enough
                self.watch([child for child in module.children() if self._holds(child)], root.depth + 1)

    def _holds(self, module: Any) -> bool:
        return any(id(p) in self._parameters for p in module.parameters())

    def _wrap(self, kind: type) -> None:
        if kind in self._classes:
            return
        own = kind.__dict__.get("__call__")
        of_class: Any = kind
        watched, begins, ends = self._watched, self._call_begins, self._call_ends

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            # first of all: code that is being compiled must not see more of us than this
            if torch.compiler.is_compiling() or id(self) not in watched or not begins(self, args, kwargs):
                return own(self, *args, **kwargs) if own else parent(of_class, self).__call__(*args, **kwargs)
            try:
                result = own(self, *args, **kwargs) if own else parent(of_class, self).__call__(*args, **kwargs)
            except BaseException as error:
                ends(error)
                raise
            ends(None)
            return result

        self._classes[kind] = (own, __call__)
        setattr(kind, "__call__", __call__)  # noqa: B010 - what mypy knows of types forbids the plain way

    def _call_begins(self, module: Any, args: Any, kwargs: Any) -> bool:
        """Whether this call is to be told: by this thread, and not from inside another root."""
        if self._inside or not self._listens():
            return False
        self._inside = True
        if (root := self._watched.get(id(module))) is not None:
            root.called = True
        self._begins(module, args, kwargs)
        return True

    def _call_ends(self, error: BaseException | None) -> None:
        self._inside = False
        self._ends(error)

    def release(self) -> None:
        """Give the classes their own `__call__` back."""
        for kind, (own, ours) in self._classes.items():
            if kind.__dict__.get("__call__") is ours:
                setattr(kind, "__call__", own) if own is not None else delattr(kind, "__call__")
        self._classes.clear()
        self._watched.clear()
        self._optimizers.clear()


def _living(*kinds: type) -> list[Any]:
    """The living objects of these kinds and of their subclasses: one sweep that runs in C."""
    wanted = set(kinds)
    classes = list(kinds)
    while classes:
        new: set[type] = set(type.__subclasses__(classes.pop())) - wanted
        wanted |= new
        classes += new
    objects = gc.get_objects()
    return list(compress(objects, map(wanted.__contains__, map(type, objects))))


def _outermost(modules: list[Any], parameters: set[int]) -> list[Any]:
    """Those that hold some of these parameters and that no other holds."""
    inside = {id(child) for module in modules for child in _children(module)}
    tops = [module for module in modules if id(module) not in inside]
    return [module for module in tops if any(id(p) in parameters for p in module.parameters())]


def _children(module: Any) -> Iterable[Any]:
    return [child for child in module.__dict__.get("_modules", {}).values() if child is not None]
