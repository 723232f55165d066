"""Stands around methods of classes, until it is taken away.

    patches = Patches()
    patches.around(torch.Tensor, "backward", listens, begins, ends)   # ends(begins(self, …), result, error)
    patches.undo()

One frame of ours lies on the stack while the method runs, and code that is being compiled sees none of it.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

Begins = Callable[..., Any]
Ends = Callable[[Any, Any, BaseException | None], Any]


class Patches:
    """The methods that are replaced, each with what it was."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def around(self, owner: type, name: str, listens: Callable[[], bool], begins: Begins, ends: Ends) -> None:
        """Call `begins` before the method and `ends` behind it, where `listens` says so; none of them may raise."""
        original, own = getattr(owner, name), owner.__dict__.get(name)
        undone = self._undo

        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not undone or not listens():
                return original(*args, **kwargs)
            token = begins(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                ends(token, None, error)
                raise
            ends(token, result, None)
            return result

        def undo() -> None:
            if owner.__dict__.get(name) is method:  # else somebody has wrapped it since: ours then does nothing
                setattr(owner, name, own) if own is not None else delattr(owner, name)

        setattr(owner, name, method)
        self._undo.append(undo)

    def undo(self) -> None:
        """Leave every method as it was."""
        while self._undo:
            self._undo.pop()()
