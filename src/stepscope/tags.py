"""What a record is called in each backend: the one table of names.

    tags(Step(step=7, loss=2.3), "wandb")                    # [('train/loss', 2.3)]
    tags(Gpu(step=7, id=0, dram_free=2**30), "aim")          # [('gpu/0/dram_free', 1024.0)]
    Names("wandb").tags(Gpu(step=7, id=0, clock=1800))       # [('gpu/clock', 1800)]: the only GPU so far

A later kind needs one row in `TABLE`. Units follow from the record's fields: bytes become MiB, bytes/s MiB/s.
A number that is not finite stays one; one that is unknown is left out.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from .errors import UnknownSetting, nearest
from .profiling_tags import profiling
from .records import (
    Allocator,
    Dataset,
    End,
    Epoch,
    Event,
    Gpu,
    GpuModel,
    Header,
    Metrics,
    Other,
    Profile,
    Record,
    System,
    fields,
)

Tag = tuple[str, "float | str"]


class Row(NamedTuple):
    """How the numbers of a kind are named: `prefix/field`, with the GPU's index between where that is needed."""

    prefix: str
    computed: tuple[str, ...] = ()
    unknown_below: float | None = None  # foreign trackers write -1 for a number that they do not have


TABLE = {
    "step": Row("train", computed=("tokens_per_second",)),
    "eval": Row("eval", computed=("tokens_per_second",)),
    "moe": Row("moe"),
    "gpu": Row("gpu", unknown_below=0),
    "sol": Row("sol", unknown_below=0),
}
NAMED = {
    *TABLE,
    "metrics",
    "allocator",
    "event",
    "profile",
    "epoch",
    "system",
}  # the kinds that `tags` has anything for
MOVED = {"moe_": "moe/"}  # numbers inside a step that belong to another group
FACTORS = {"bytes": 1 / 2**20, "bytes/s": 1 / 2**20}
NOT_A_NUMBER_OF_THE_STEP = {"time", "step", "id"}
NOT_THROTTLED = {"", "none", "no cap", "idle"}
UNKNOWN_THROTTLE = "not supported"

TAKES_TEXT = {"wandb"}  # among the numbers of a step
ALWAYS_BY_GPU = {"wandb": False, "aim": True, "tensorboard": True}  # gpu/{id}/clock, also where there is one GPU


def tags(record: Record | Other, scheme: str, several_gpus: bool = False) -> list[Tag]:
    """The names and values of a record in a backend; an empty list for what is no number of a step."""
    if scheme not in ALWAYS_BY_GPU:
        raise UnknownSetting(f"no names for {scheme!r}{nearest(scheme, ALWAYS_BY_GPU)}")
    if isinstance(record, Metrics):
        return [(_utf8(name), _plain(value)) for name, value in record.values.items() if value is not None]
    if isinstance(record, Allocator):
        return list(_segments(record, several_gpus))
    if isinstance(record, (Profile, Epoch, System)):
        return [(_utf8(f"profiling/{name}"), value) for name, value in profiling(record) if value is not None]
    if isinstance(record, Event):
        return [(_utf8(f"event/{record.rule or record.severity}"), event_text(record))]
    if record.kind not in TABLE:
        return []
    by_gpu = several_gpus or (ALWAYS_BY_GPU[scheme] and isinstance(record, Gpu))
    found = list(_numbers(record, _between(record, by_gpu)))
    if isinstance(record, Gpu):
        found += _throttle(record, f"gpu{_between(record, by_gpu)}", scheme in TAKES_TEXT)
    return found


def _throttle(record: Gpu, group: str, with_reason: bool) -> list[Tag]:
    """Whether the GPU throttles as 0 or 1, which can be drawn; and the reason where there is one."""
    reason = record.throttle
    if reason is None or reason == UNKNOWN_THROTTLE:
        return []
    throttled: list[Tag] = [(f"{group}/throttled", int(reason not in NOT_THROTTLED))]
    return [*throttled, (f"{group}/throttle", reason)] if with_reason and reason not in NOT_THROTTLED else throttled


def _between(record: Any, by_gpu: bool) -> str:
    """`/{id}` where the name says which GPU it is of."""
    id_ = getattr(record, "id", None)
    return f"/{id_}" if by_gpu and id_ is not None else ""


def _numbers(record: Record | Other, between: str) -> Iterator[Tag]:
    row = TABLE[record.kind]
    for field, name, factor in _named(record.kind):
        value = getattr(record, field, None)
        if isinstance(value, (int, float)) and not (row.unknown_below is not None and value < row.unknown_below):
            group, _, rest = name.partition("/")
            yield f"{group}{between}/{rest}", value if factor is None else value * factor


@cache
def _named(kind: str) -> list[tuple[str, str, float | None]]:
    """The fields of a kind with their names and the factors to the units that people read."""
    row = TABLE[kind]
    known = [(name, FACTORS.get(info.unit)) for name, info in fields(kind).items()]
    plain = [(name, factor) for name, factor in known if name not in NOT_A_NUMBER_OF_THE_STEP]
    return [(name, _name(row.prefix, name), factor) for name, factor in [*plain, *((c, None) for c in row.computed)]]


def _name(prefix: str, field: str) -> str:
    for start, group in MOVED.items():
        if field.startswith(start):
            return group + field.removeprefix(start)
    return f"{prefix}/{field}"


def _segments(record: Allocator, several_gpus: bool) -> Iterator[Tag]:
    group = f"allocator{_between(record, several_gpus)}"
    for segment in record.stats or []:
        name = f"{group}/{_utf8(segment.name)}"
        yield f"{name}_mib", segment.device / 2**20
        for place in ("managed", "pinned", "pageable"):
            if size := getattr(segment, place):
                yield f"{name}_{place}_mib", size / 2**20


def _plain(value: "bool | float") -> float:
    return int(value) if isinstance(value, bool) else value


def event_text(event: Event) -> str:
    """An event in one line."""
    return _utf8(f"{event.message}: {event.advice}" if event.advice else event.message)


def _utf8(text: str) -> str:
    """Text that every backend can hold: a lone surrogate, which no file of theirs can, becomes \\ud800."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def config(record: Record | Other) -> dict[str, Any]:
    """What a record says about the run as a whole, as entries of the backend's configuration."""
    if isinstance(record, Header):
        given = _plain_data(record.config)
        own = given if isinstance(given, dict) else {} if given is None else {"config": given}
        return {**own, "stepscope": _known(record, leave_out=("config", "time"))}
    if isinstance(record, Dataset):
        return {f"dataset/{_utf8(record.split or 'train')}": _known(record, leave_out=("split", "time", "step"))}
    if isinstance(record, GpuModel):
        return {f"gpu/{record.id or 0}": _known(record, leave_out=("id", "time", "step"))}
    if isinstance(record, End):
        return {"end": _known(record, leave_out=("time",))}
    return {}


def _known(record: Record, leave_out: tuple[str, ...]) -> dict[str, Any]:
    data = msgspec.to_builtins(record)
    return {k: _plain_data(v) for k, v in data.items() if k != "log" and k not in leave_out}


def _plain_data(value: Any) -> Any:
    """Free-form data with the numbers that are not finite as text: configurations have no other way to keep them."""
    if isinstance(value, dict):
        return {_utf8(str(key)): _plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_data(item) for item in value]
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, float) and value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


class Names:
    """The names for a stream of records: knows how many GPUs there are, and what a step has had already."""

    REMEMBERED = 1000  # steps for which a moe number may still come a second time

    def __init__(self, scheme: str):
        self._scheme = scheme
        self._gpus: set[int] = set()
        self._moe: dict[int, set[str]] = {}

    def see(self, record: Record | Other) -> None:
        """Learn which GPUs there are; call it as early as the record is known."""
        if isinstance(record, (Gpu, GpuModel, Allocator)) and record.id is not None:
            self._gpus.add(record.id)

    @property
    def several_gpus(self) -> bool:
        """Whether more than one GPU was seen."""
        return len(self._gpus) > 1

    def tags(self, record: Record | Other) -> list[Tag]:
        """The names and values of a record, each `moe/…` once a step: from its own record or from the step's."""
        self.see(record)
        found = tags(record, self._scheme, self.several_gpus)
        if record.kind not in ("step", "moe"):
            return found
        return [tag for tag in found if not tag[0].startswith("moe/") or self._is_first(record, tag[0])]

    def _is_first(self, record: Record | Other, name: str) -> bool:
        had = self._moe.setdefault(getattr(record, "step", 0), set())
        if name in had:
            return False
        had.add(name)
        while len(self._moe) > self.REMEMBERED:
            del self._moe[next(iter(self._moe))]
        return True
