"""Which of NVML's devices is which of torch's: the two count differently.

    visible("2,0", count=4)                   # [2, 0]: torch's GPU 0 is NVML's 2
    visible("GPU-1b2c,GPU-77aa", count=4)     # ['GPU-1b2c', 'GPU-77aa']: to be looked up by their UUID
    visible(None, count=4)                    # [0, 1, 2, 3]
    handle_of(pynvml, "GPU-1b2c")             # NVML's handle

CUDA orders GPUs of different kinds by their speed unless CUDA_DEVICE_ORDER says PCI_BUS_ID, NVML always by their
bus: where torch knows the UUIDs, they decide (`Nvml` sees to that).
"""

import re
from typing import Any

from .nvml_fields import text


def visible(setting: str | None, count: int) -> list[int | str]:
    """What CUDA_VISIBLE_DEVICES names, in torch's order: an index, or (the beginning of) a UUID."""
    if setting is None:
        return list(range(count))
    found: list[int | str] = []
    for word in setting.split(","):
        entry = _entry(word.strip())
        if entry is None or (isinstance(entry, int) and entry >= count):
            break  # CUDA looks at nothing behind a name that it does not know
        if entry in found:
            return []  # and at nothing at all where one stands twice
        found.append(entry)
    return found


def _entry(word: str) -> int | str | None:
    if word.startswith(("GPU-", "MIG-")):
        return word
    digits = re.match(r"\+?\d+", word)  # "1gpu" is 1, as strtoul has it
    return int(digits[0]) if digits else None


def handle_of(nvml: Any, entry: int | str) -> Any:
    """NVML's handle of a device, by its index or by (the beginning of) its UUID."""
    if isinstance(entry, int):
        return nvml.nvmlDeviceGetHandleByIndex(entry)
    if entry.startswith("MIG-"):
        return nvml.nvmlDeviceGetHandleByUUID(entry)
    handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
    found = [handle for handle in handles if text(nvml.nvmlDeviceGetUUID(handle)).startswith(entry)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} GPUs have a UUID that begins with {entry}")
    return found[0]
