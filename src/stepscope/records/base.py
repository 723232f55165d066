"""What all records share: the time, the step, and how a field says what it is."""

from typing import Annotated

from msgspec import Meta, Struct, field

SCHEMA_VERSION = 1

Number = int | float


def about(meaning: str, unit: str = "", reduce: str = "", free_form: bool = False) -> Meta:
    """A field's meaning, its unit, how it reduces across ranks, and whether it holds free-form JSON."""
    return Meta(description=meaning, extra={"unit": unit, "reduce": reduce, "free_form": free_form})


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="log"):
    """What all records share: the time at which they were logged."""

    # msgspec leaves out what equals its default, but never what a plain default_factory gives: None is left
    # out, 0 and "" are written.
    time: Annotated[str, about("when it was logged: UTC, as 2026-01-15T10:30:00.123456")] = field(default_factory=str)

    @property
    def kind(self) -> str:
        """The record's kind, the value of `log` in its line."""
        return str(self.__struct_config__.tag)


class StepRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag_field="log"):
    """A record that belongs to a training step."""

    step: Annotated[int, about("training step", reduce="same")] = field(default_factory=int)


def tokens_per_second(tokens: int | None, duration_ms: Number | None) -> float | None:
    """Throughput as the run's documents define it; None when a part is unknown or the duration is not positive."""
    if tokens is None or not duration_ms or not duration_ms > 0:
        return None
    return tokens / duration_ms * 1000
