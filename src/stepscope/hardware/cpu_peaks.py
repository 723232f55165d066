"""The peaks of this machine's CPU: measured in the first runs, then known from a file.

cpu_peaks()      # Peaks(name="AMD EPYC, 2 threads", fp32=0.21, bf16=0.84, source="measured")

A figure belongs to a CPU and a number of threads. A machine that is busy at that moment reaches too little, so the
best of three runs counts, and one in which nothing could be measured counts for nothing. A file that cannot be read or
written costs the measurement, no more.
"""

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from .cpu import cpu_name
from .measured_peaks import measure
from .peak import FORMATS, Peaks

RUNS = 3


def cpu_peaks(cache: Path | None = None, measured: Callable[[str], Peaks] = measure) -> Peaks:
    """The peaks of the CPU with torch's present number of threads."""
    import torch

    cache = cache or cache_file()
    key = f"{cpu_name()}, {torch.get_num_threads()} threads"
    runs, best = _entry(_read(cache).get(key))
    if best is not None and runs >= RUNS:
        return best
    found = measured("cpu")
    peaks = _better(found, best)
    if found.fp32 is not None:
        with suppress(OSError):
            _write(cache, {**_read(cache), key: {"runs": runs + 1, "peaks": asdict(peaks)}})
    return peaks


def cache_file() -> Path:
    """Where what was measured is kept: the user's folder for caches, or what stands in for a home that is not there."""
    home = os.path.expanduser("~")
    own = os.environ.get("XDG_CACHE_HOME") or os.path.join(home if home != "~" else tempfile.gettempdir(), ".cache")
    return Path(own) / "stepscope" / "peaks.json"


def _better(one: Peaks, other: Peaks | None) -> Peaks:
    """The higher figure in each number format."""
    if other is None:
        return one
    numbers = {name: (getattr(one, name), getattr(other, name)) for name in FORMATS}
    best = {name: max((n for n in pair if n is not None), default=None) for name, pair in numbers.items()}
    return Peaks(**{**asdict(one), **best})


def _entry(entry: Any) -> tuple[int, Peaks | None]:
    """What the file says; nothing where it makes no sense."""
    try:
        runs, peaks = int(entry["runs"]), Peaks(**entry["peaks"])
        numbers = [n for name in FORMATS if (n := getattr(peaks, name)) is not None]
        return (runs, peaks) if numbers and all(isfinite(n) and n > 0 for n in numbers) else (0, None)
    except (TypeError, KeyError, ValueError):
        return 0, None


def _read(cache: Path) -> dict[str, Any]:
    try:
        known = json.loads(cache.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(cache: Path, known: dict[str, Any]) -> None:
    """All at once: several processes of one training may do this together."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=cache.parent, prefix=cache.name)
    with os.fdopen(handle, "w") as file:
        json.dump(known, file, indent=1)
    os.replace(name, cache)
