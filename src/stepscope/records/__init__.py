"""Every record of a run: the closed vocabulary that enters by the logger and stands in the run file.

    from stepscope.records import Step, fields
    Step(step=100, loss=2.3456, step_tokens=16384, duration_ms=156).tokens_per_second   # 105025.6…
    fields("step")["loss"].unit                                                         # 'nats'

One frozen struct a kind, tagged by `log`, its keys in the order in which they are written. A field that is
unknown is None and is left out of the line. Each field carries its unit, its meaning and how it reduces
across ranks: documentation, tags and screens are made from that. `time` and `step` are stamped by the run,
so that a measurement returns a record without knowing one.
"""

from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from msgspec import Meta, Struct

from .base import SCHEMA_VERSION, Number, Record, StepRecord, about, tokens_per_second
from .hardware import (
    Allocator,
    Gpu,
    GpuMemory,
    GpuModel,
    Memory,
    OutOfMemory,
    Segment,
    SpeedOfLight,
    System,
)
from .speed import Epoch, GpuPeak, Phases, Profile, Spent
from .training import Dataset, End, Eval, Event, Git, Header, Message, Metrics, Moe, Other, Rewind, Step

__all__ = [
    "KINDS",
    "SCHEMA_VERSION",
    "Allocator",
    "Dataset",
    "End",
    "Epoch",
    "Eval",
    "Event",
    "FieldInfo",
    "Git",
    "Gpu",
    "GpuMemory",
    "GpuModel",
    "GpuPeak",
    "Header",
    "Memory",
    "Message",
    "Metrics",
    "Moe",
    "Number",
    "Other",
    "OutOfMemory",
    "Phases",
    "Profile",
    "Record",
    "Rewind",
    "Segment",
    "SpeedOfLight",
    "Spent",
    "Step",
    "StepRecord",
    "System",
    "about",
    "describe",
    "fields",
    "tokens_per_second",
]

KINDS: dict[str, type[Record]] = {
    "run": Header,
    "step": Step,
    "eval": Eval,
    "moe": Moe,
    "gpu": Gpu,
    "sol": SpeedOfLight,
    "allocator": Allocator,
    "dataset": Dataset,
    "gpu-model": GpuModel,
    "metrics": Metrics,
    "phases": Phases,
    "profile": Profile,
    "epoch": Epoch,
    "system": System,
    "memory": Memory,
    "oom": OutOfMemory,
    "event": Event,
    "rewind": Rewind,
    "message": Message,
    "end": End,
}


class FieldInfo(NamedTuple):
    """What is known of a field."""

    meaning: str
    unit: str
    reduce: str
    free_form: bool
    type: Any


@cache
def fields(kind: str) -> dict[str, FieldInfo]:
    """The fields of a kind, in the order in which they are written."""
    return describe(KINDS[kind])


def describe(struct: type[Struct]) -> dict[str, FieldInfo]:
    """The fields of a struct, in the order in which they are written."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: _field_info(hints[name]) for name in struct.__struct_fields__}


def _field_info(hint: Any) -> FieldInfo:
    type_, *notes = get_args(hint)
    meta = next(note for note in notes if isinstance(note, Meta))
    return FieldInfo(meta.description or "", type=type_, **(meta.extra or {}))
