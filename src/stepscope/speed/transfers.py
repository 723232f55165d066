"""Whether a tensor's method moves it to another device.

leads_elsewhere(("cuda",), {})     # tensor.to("cuda"): True; also what `.cuda()` was called with
"""

from typing import Any

import torch


def leads_elsewhere(args: Any, kwargs: Any) -> bool:
    """Whether `.to` with these arguments leads from the CPU to another device."""
    target = kwargs.get("device", args[0] if args else kwargs.get("other"))
    if isinstance(target, torch.Tensor):
        return bool(target.device.type != "cpu")
    if isinstance(target, torch.dtype) or target is None:
        return False
    return not str(target).startswith("cpu")
