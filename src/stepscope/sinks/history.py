"""What a run file says about the attempts before this one, as a resumed run needs it.

history("out/training.json")      # History(id='9f2c…', name='brisk-otter', attempts=1, last_step=1200, …)
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from ..codec import decode
from ..records import Header, Metrics, Step


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
    headers = [record for line in _lines(data, "run") if isinstance(record := decode(line, "run"), Header)]
    steps = (record for line in _lines(data, "step") if isinstance(record := decode(line, "step"), Step))
    last: Step | Metrics | None = next(steps, None)
    if last is None:
        numbers = (record for line in _lines(data, "metrics") if isinstance(record := decode(line), Metrics))
        last = next(numbers, None)
    newest = headers[0] if headers else None
    return History(
        id=newest.id if newest else None,
        name=newest.name if newest else None,
        attempts=newest.attempt if newest else int(last is not None),
        last_step=last.step if last else None,
        counted=isinstance(last, Metrics),
    )


def _lines(data: bytes, kind: str) -> Iterator[bytes]:
    """The lines of a kind, the newest first; ours, and those that were written with spaces."""
    marks = [f'{{"log":"{kind}"'.encode(), f'{{"log": "{kind}"'.encode()]
    end = len(data)
    while (begin := max(data.rfind(mark, 0, end) for mark in marks)) >= 0:
        stop = data.find(b"\n", begin)
        yield data[begin : stop if stop >= 0 else len(data)].rstrip(b", \r")
        end = begin
