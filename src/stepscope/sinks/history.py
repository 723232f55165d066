"""What a run file says about the attempts before this one, as a resumed run needs it.

history("out/training.json")      # History(id='9f2c…', name='brisk-otter', attempts=1, last_step=1200, …)
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, TypeVar

from ..codec import decode
from ..records import Header, Metrics, Record, Step

R = TypeVar("R", bound=Record)


class History(NamedTuple):
    """The run's identity, how often it was started, and the last step that was logged."""

    id: str | None
    name: str | None
    attempts: int
    last_step: int | None
    counted: bool  # nothing but `metrics` records carry its steps


def history(path: str | os.PathLike[str]) -> History:
    """The history in a whole run file; foreign files have no header and count as one attempt."""
    with open(path, "rb") as file:
        data = file.read()
    newest = next(_records(data, Header), None)
    steps = next(_records(data, Step), None)
    last = steps or next(_records(data, Metrics), None)
    return History(
        id=newest.id if newest else None,
        name=newest.name if newest else None,
        attempts=newest.attempt if newest else int(last is not None),
        last_step=last.step if last else None,
        counted=isinstance(last, Metrics),
    )


def _records(data: bytes, struct: type[R]) -> Iterator[R]:
    """The records of a kind, the newest first: those that begin a line, in our spelling or with spaces."""
    kind = str(struct.__struct_config__.tag)
    marks = [f'\n{indent}{{"log":{space}"{kind}"'.encode() for indent, space in (("", ""), ("", " "), ("  ", " "))]
    end = len(data)
    while (begin := max(data.rfind(mark, 0, end) for mark in marks)) >= 0:
        stop = data.find(b"\n", begin + 1)
        line = data[begin + 1 : stop if stop >= 0 else len(data)].strip(b", \r")
        with suppress(ValueError):  # a line that is torn, in the middle of the file
            record = decode(line, kind)
            if isinstance(record, struct):
                yield record
        end = begin + 1
