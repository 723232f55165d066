"""Stands around methods of classes, until it is taken away.

    patches = Patches(on_failure=print)
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
OnFailure = Callable[[BaseException], Any]


class Patches:
    """The methods that are replaced, each with what it was."""

    def __init__(self, on_failure: OnFailure):
        """`on_failure` is told what `begins` or `ends` raise; the method goes on."""
        self._on_failure = on_failure
        self._undo: list[Callable[[], None]] = []

    def around(self, owner: type, name: str, listens: Callable[[], bool], begins: Begins, ends: Ends) -> None:
        """Call `begins` before the method and `ends` behind it, where `listens` says so."""
        original, own = getattr(owner, name), owner.__dict__.get(name)
        undone, on_failure, is_compiling = self._undo, self._on_failure, torch.compiler.is_compiling

        def ended(token: Any, result: Any, error: BaseException | None) -> None:
            try:
                ends(token, result, error)
            except Exception as failure:  # noqa: BLE001 - whatever it is, the training goes on
                on_failure(failure)

        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not undone or not listens():
                return original(*args, **kwargs)
            try:
                token = begins(*args, **kwargs)
            except Exception as failure:  # noqa: BLE001 - as above
                token = None
                on_failure(failure)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                ended(token, None, error)
                raise
            ended(token, result, None)
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
