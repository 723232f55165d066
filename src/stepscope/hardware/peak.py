"""The peaks of one device.

Peaks("H200", bf16=989.4, bandwidth=4800, source="H200 datasheet").bf16
"""

from dataclasses import dataclass

FORMATS = ("tf32", "bf16", "fp16", "fp8", "fp4", "fp32")


@dataclass(frozen=True)
class Peaks:
    """Dense TFLOP/s by number format and memory bandwidth in GB/s; None where nobody knows, or the device cannot."""

    name: str
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    fp4: float | None = None
    fp32: float | None = None
    bandwidth: float | None = None
    source: str = ""
