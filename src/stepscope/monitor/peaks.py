"""The peaks of the device that a training runs on: given, looked up by its name, or measured for a CPU.

peaks_here(torch.device("cuda"), given=None, note=print)     # ('NVIDIA H200', Peaks(bf16=989.0, …))
"""

from collections.abc import Callable
from typing import Any

from ..hardware import peaks as known


def peaks_here(device: Any, given: Any, note: Callable[[str, str], Any]) -> tuple[str, Any]:
    """The device's name, and its peaks; None where nobody knows them, which is said."""
    if device.type != "cuda":
        return _cpu(given)
    import torch

    name = torch.cuda.get_device_name(device)
    found = known.peaks_of(name, override=given)
    if found is None:
        note("peaks-unknown", f"the peaks of {name} are not known: give them, watch(…, peaks={{'bf16': 989.4}})")
    return name, found


def _cpu(given: Any) -> tuple[str, Any]:
    """Of a CPU they are measured once, in a third of a second, and kept."""
    found = known.cpu_peaks()
    return found.name, (known.peaks_of(found.name, override=given) if given else None) or found
