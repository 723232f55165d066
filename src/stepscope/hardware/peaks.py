"""What a GPU or CPU could reach at best: from datasheets by its name, from a measurement, or as the user gives it.

peaks_of("NVIDIA H100 80GB HBM3").bf16                       # 989.4, dense
peaks_of("h100-sxm5") == peaks_of("NVIDIA H100 80GB HBM3")   # True
peaks_of("NVIDIA L4") == peaks_of("NVIDIA L40")              # False
peaks_of("Tesla K80")                                        # None: unknown is unknown
peaks_of("Tesla K80", override={"fp32": 8.7})                # Peaks(name="Tesla K80", fp32=8.7, source="given")
measure("cuda")                                              # by matrix products, in a second
cpu_peaks(Path("peaks.json"))                                # by 0.3 s of them, once for a CPU
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from math import isfinite
from typing import Any

from ..errors import BadType, BadValue, UnknownSetting, nearest, show
from .cpu_peaks import cpu_peaks
from .measured_peaks import measure
from .peak import FORMATS, Peaks
from .peak_table import TABLE, Row

__all__ = ["FORMATS", "TABLE", "Peaks", "cpu_peaks", "measure", "peaks_of"]

NUMBERS = (*FORMATS, "bandwidth")
NOISE = {"nvidia", "tesla", "geforce", "graphics", "gpu", "generation", "edition", "rtx"}


def peaks_of(name: str, override: Mapping[str, Any] | None = None) -> Peaks | None:
    """The peaks of the device with this name; `override` gives some, or gives some by device name."""
    given = _given(name, override or {})
    known = _looked_up(name)
    if not given:
        return known
    source = f"given; else {known.source}" if known else "given"
    return Peaks(**{**asdict(known or Peaks(name)), **given, "source": source})


def _looked_up(name: str) -> Peaks | None:
    """The row that fits the name, the most particular one."""
    words = _words(name)
    fitting = [(len(needs), row.peaks) for row in TABLE for needs in _needed(row) if needs <= words <= needs | row.may]
    return max(fitting, key=lambda found: found[0])[1] if fitting else None


def _needed(row: Row) -> list[set[str]]:
    return [needs - NOISE for needs in row.needs]


def _words(name: str) -> set[str]:
    """The words of a name that tell GPUs apart, however they are joined: rtx4070ti, H100-SXM5, A100_80G."""
    text = name.lower().replace("max-q", "maxq")
    text = re.sub(r"\bsxm\d\b", "sxm", re.sub(r"[^a-z0-9]+", " ", text))
    text = re.sub(r"\brtx(?=[a-z0-9])", "rtx ", text)
    text = re.sub(r"\b(\d{4})(ti|super)\b", r"\1 \2", re.sub(r"\b(\d{4}) ?tisuper\b", r"\1 ti super", text))
    text = re.sub(r"\b(\d+) ?gb?\b", r"\1gb", text)
    return set(text.split()) - NOISE


def _given(name: str, override: Mapping[str, Any]) -> dict[str, float]:
    """What the user gives for this device; by name, the name must fit as a whole."""
    if override and all(isinstance(value, Mapping) for value in override.values()):
        own = [value for key, value in override.items() if _words(key) == _words(name)]
        return _given(name, own[0]) if own else {}
    return {key: _checked(key, value) for key, value in override.items()}


def _checked(key: str, value: Any) -> float:
    if key not in NUMBERS:
        raise UnknownSetting(f"peaks have no {show(key)}{nearest(key, NUMBERS)}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadType(f"the peak {key} is {show(value)}: give a number of TFLOP/s, or GB/s for the bandwidth")
    if not (isfinite(value) and value > 0):
        raise BadValue(f"the peak {key} is {value}: give a positive number of TFLOP/s, or GB/s for the bandwidth")
    return float(value)


assert {field.name for field in fields(Peaks)} == {"name", *NUMBERS, "source"}
