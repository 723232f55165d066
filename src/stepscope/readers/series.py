"""A number of a run over its steps, as two columns.

    loss = read_run("output/training.json").series("loss")
    loss.steps, loss.values                  # array('q', [1, 2, …]), array('d', [2.3456, 2.3411, …])
    numpy.asarray(loss.values)               # the same memory

Names are a field of `step` (`loss`), of another kind (`eval/loss`, `moe/aux_loss`, `sol/tps`), of a GPU
(`gpu/0/power`), or what the program itself named in its `metrics`. A field that only the file knows works too.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from ..records import KINDS, fields
from .careful import AROUND, dicts
from .columns import COMPUTED, Columns, Source, number, rate
from .run_text import LASTING, RunText, decode

NOT_MEASURED = {"step", "id"}


@dataclass(frozen=True, slots=True)
class Series:
    """The steps at which a number was logged, and the number."""

    name: str
    steps: "array[int]"
    values: "array[float]"

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(self.steps, self.values, strict=True)


def sources(name: str) -> Iterator[Source]:
    """What a name can mean, the most likely first."""
    kind, slash, field = name.partition("/")
    id_, _, gpu_field = field.partition("/")
    if kind == "gpu" and id_.isdecimal() and gpu_field:
        yield Source("gpu", gpu_field, int(id_))
    elif slash:
        yield Source(kind, field)
    elif name not in NOT_MEASURED:
        yield Source("step", name)
    yield Source("metrics", name)
    if kind == "moe":  # what a step has inline
        yield Source("step", f"moe_{field}")


def is_field(name: str) -> bool:
    """Whether a name is one that every run may have, logged or not; which GPUs there are, only the run knows."""
    kind, field, _ = next(sources(name))
    if kind == "gpu" or kind in LASTING or kind not in KINDS or field in NOT_MEASURED:
        return False
    if (kind, field) in COMPUTED:
        return True
    return field in fields(kind) and not {int, float}.isdisjoint(get_args(fields(kind)[field].type))


def read_series(text: RunText, name: str, superseded: bool = False) -> Series:
    """The first series that has a value, of all that the name can mean; an empty one if none has."""
    for source in sources(name):
        columns = Columns(source)
        for block in text.blocks:
            limit = None if superseded or source.kind in LASTING else block.limit
            columns.add(text.text(block, source.kind), limit)
        if columns.steps:
            return Series(name, columns.steps, columns.values) if superseded else _in_order(name, columns)
    return Series(name, array("q"), array("d"))


def _in_order(name: str, columns: Columns) -> Series:
    """By step: a record with numbers from a device comes a little after those with numbers of the host."""
    steps, values = columns.steps, columns.values
    parts = (steps[place : place + 1001].tolist() for place in range(0, len(steps), 1000))
    if all(part == sorted(part) for part in parts):
        return Series(name, steps, values)
    order = sorted(range(len(steps)), key=steps.__getitem__)
    return Series(name, array("q", [steps[place] for place in order]), array("d", [values[place] for place in order]))


def names(text: RunText) -> set[str]:
    """Every name for which the file has a number."""
    found: set[str] = set()
    known: set[Any] = set()
    for block in text.blocks:
        for data in decode(text.text(block), _decode_dicts, dicts):
            kind, id_ = data.get("log"), data.get("id")
            values = data.get("values") if kind == "metrics" else data
            if kind in LASTING or not isinstance(values, dict):
                continue
            # a record with the same keys and types as an earlier one has no new names
            form = (kind, str(id_), *values, *map(type, values.values()))
            if form not in known:
                known.add(form)
                found.update(_names(str(kind), id_, values))
    return found


def _decode_dicts(text: bytes) -> list[Any]:
    return msgspec.json.decode(b"[" + text.rstrip(AROUND) + b"]", type=list[dict[str, Any]])


def _names(kind: str, id_: Any, values: dict[str, Any]) -> Iterator[str]:
    gpu = "gpu/" if id_ is None else f"gpu/{id_}/"
    prefix = {"step": "", "metrics": "", "gpu": gpu}.get(kind, f"{kind}/")
    numbers = (name for name, value in values.items() if number(value) is not None)
    yield from (prefix + name for name in numbers if kind == "metrics" or name not in NOT_MEASURED)
    if (tokens := COMPUTED.get((kind, "tokens_per_second"))) and rate(values.get(tokens), values.get("duration_ms")):
        yield f"{prefix}tokens_per_second"
