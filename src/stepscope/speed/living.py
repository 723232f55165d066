"""Modules and optimizers that are known as long as they live: nothing of ours keeps one alive.

watched: dict[int, Known] = {}
Known(model, watched)          # under its id; gone with the model
list(Living(watched))          # [model]
"""

import weakref
from collections.abc import Iterator
from typing import Any


class Known(weakref.ref[Any]):
    """A module whose calls are watched, or an optimizer."""

    __slots__ = ("called", "depth")
    called: bool  # so far
    depth: int  # below the outermost

    def __new__(cls, it: Any, known: dict[int, "Known"], depth: int = 0) -> "Known":
        """Enter it."""
        key = id(it)
        self = super().__new__(cls, it, lambda _: known.pop(key, None))
        self.depth, self.called = depth, False
        known[key] = self
        return self

    def __init__(self, it: Any, *_: Any, **__: Any):
        super().__init__(it)  # type: ignore[call-arg]


class Living:
    """Those that live, whenever it is looked at."""

    def __init__(self, known: dict[int, Known]):
        self._known = known

    def __iter__(self) -> Iterator[Any]:
        return iter([it for known in list(self._known.values()) if (it := known()) is not None])

    def __len__(self) -> int:
        return len(self._known)
