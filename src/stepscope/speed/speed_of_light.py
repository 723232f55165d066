"""What the hardware could reach at best, and how near a step comes.

    estimate = estimate_for(...)            # see `estimate`: a SpeedOfLight record
    record = estimate(flops, peaks, "NVIDIA H200", gpus=8)      # a SpeedOfLight record
    percent(record, units=524288, duration_ms=1840.0)      # theoretical over actual time
    mfu(record, 524288, 1840.0), hfu(record, 524288, 1840.0)

The theoretical time is the sum over groups of operations over the peak of the number format that they run in. Model
FLOPs utilisation (MFU) takes attention without its mask, as is usual; hardware FLOPs utilisation (HFU) adds what
checkpointing computes again. Where a peak is unknown, so is everything that needs it.
"""

from math import isfinite
from typing import Protocol

from ..records import SpeedOfLight
from .flop_groups import Flops

TERA = 1e12


class Peaks(Protocol):
    """What is read of a device's peaks: dense TFLOP/s by number format, None where there is none."""

    @property
    def tf32(self) -> float | None: ...
    @property
    def bf16(self) -> float | None: ...
    @property
    def fp16(self) -> float | None: ...
    @property
    def fp8(self) -> float | None: ...
    @property
    def fp4(self) -> float | None: ...
    @property
    def fp32(self) -> float | None: ...
    @property
    def bandwidth(self) -> float | None: ...


def peak(peaks: Peaks | SpeedOfLight | None, number_format: str) -> float | None:
    """A number format's peak in TFLOP/s, of a device or of a record; a GPU without TF32 computes in FP32."""
    ending = "_peak" if isinstance(peaks, SpeedOfLight) else ""
    found = getattr(peaks, number_format + ending, None)
    if found is None and number_format == "tf32":
        found = getattr(peaks, "fp32" + ending, None)
    return float(found) if found else None


def seconds_of(flops: Flops, peaks: Peaks | None, gpus: int = 1) -> float | None:
    """The theoretical time of one token or sample on all GPUs together."""
    if flops.attention is None:
        return None
    total = 0.0
    for spent in flops.by_dtype.values():
        for number_format, flop in spent.items():
            reached = peak(peaks, number_format)
            if reached is None:
                return None
            total += flop / (reached * TERA)
    return total / gpus or None


def main_format(flops: Flops) -> str | None:
    """The number format of most operations."""
    by_format: dict[str, float] = {}
    for spent in flops.by_dtype.values():
        for name, flop in spent.items():
            by_format[name] = by_format.get(name, 0.0) + flop
    return max(by_format, key=by_format.__getitem__, default=None)


def estimate(flops: Flops, peaks: Peaks | None, device: str, gpus: int = 1, step: int = 0) -> SpeedOfLight:
    """The record of what is reachable; without a peak it holds the operations alone."""
    seconds = seconds_of(flops, peaks, gpus)
    return SpeedOfLight(
        step=step,
        blocks=_whole(flops.blocks),
        lm_head=_whole(flops.lm_head),
        attention=_whole(flops.attention),
        other=_whole(flops.other) or None,
        tps=1 / seconds if seconds and flops.unit == "token" else None,
        seconds=seconds,
        tf32_peak=getattr(peaks, "tf32", None),
        bf16_peak=getattr(peaks, "bf16", None),
        fp16_peak=getattr(peaks, "fp16", None),
        fp8_peak=getattr(peaks, "fp8", None),
        fp4_peak=getattr(peaks, "fp4", None),
        fp32_peak=getattr(peaks, "fp32", None),
        bandwidth=getattr(peaks, "bandwidth", None),
        dtype=main_format(flops),
        per=flops.unit,
        model_flop=_whole(flops.model_flop),
        hardware_flop=_whole(flops.hardware_flop),
        gpus=gpus,
        device=device,
        source=flops.source,
    )


def percent(record: SpeedOfLight, units: float, duration_ms: float | None) -> float | None:
    """How much of a step's time its tokens or samples need at the speed of light."""
    if record.seconds is None or not _positive(duration_ms):
        return None
    return 100 * 1000 * record.seconds * units / float(duration_ms or 0)


def mfu(record: SpeedOfLight, units: float, duration_ms: float | None) -> float | None:
    """Model FLOPs utilisation in percent: the model's own operations against the peak of its main number format."""
    return _utilisation(record.model_flop, record, units, duration_ms)


def hfu(record: SpeedOfLight, units: float, duration_ms: float | None) -> float | None:
    """Hardware FLOPs utilisation in percent: the same with what is computed again."""
    return _utilisation(record.hardware_flop, record, units, duration_ms)


def _utilisation(flop: float | None, record: SpeedOfLight, units: float, duration_ms: float | None) -> float | None:
    reached = peak(record, record.dtype) if record.dtype is not None else None
    if flop is None or reached is None or not _positive(duration_ms):
        return None
    return 100 * flop * units / (float(duration_ms or 0) / 1000 * reached * TERA * (record.gpus or 1))


def _positive(duration_ms: float | None) -> bool:
    return duration_ms is not None and isfinite(duration_ms) and duration_ms > 0


def _whole(flop: float | None) -> float | int | None:
    """A count without a fraction as the whole number that it is."""
    return int(flop) if flop is not None and flop == int(flop) else flop
