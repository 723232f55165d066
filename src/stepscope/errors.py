"""The error tree: each error is a `StepscopeError` and the built-in that fits, and says what to do next.

try:
    run.log_step(-1)
except stepscope.StepscopeError as error:   # also caught by `except ValueError`
    print(error)
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class StepscopeError(Exception):
    """The root: everything that stepscope raises on purpose."""


class BadValue(StepscopeError, ValueError):
    """A value that cannot be right: a negative step, an unknown verbosity, a number too big for the file."""


class BadType(StepscopeError, TypeError):
    """A value of the wrong type: text where a number belongs, a tensor with many elements."""


class UnknownSetting(StepscopeError, ValueError):
    """A setting, backend or kind that does not exist; the message names the nearest one that does."""


class MissingExtra(StepscopeError, ImportError):
    """An optional package that is not installed; the message holds the command that installs it."""

    def __init__(self, extra: str, package: str | None = None, use: str = "to report there"):
        super().__init__(f"{package or extra} is not installed: pip install 'stepscope[{extra}]' {use}")
        self.extra = extra


class RunFileError(StepscopeError, OSError):
    """A run file that cannot be opened, made or read at all."""


def show(value: Any, limit: int = 80) -> str:
    """`value` as an error message names it: its repr, cut to one line."""
    text = repr(value).replace("\n", " ")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest known name, else the list of what is known."""
    known = sorted(known)
    close = get_close_matches(str(name), known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
