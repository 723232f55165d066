"""What is kept of a forward pass's input so that its operations can be counted later.

    args, kwargs = keep((args, kwargs))      # numbers of data are gone, those of ids and masks are not

No tensor of data is held in memory, nothing waits for the device, and what the caller writes into its buffers
afterwards does not matter.
"""

from collections.abc import Mapping
from typing import Any

import torch

from .known_values import MOST, MOST_FLOATS, like_a_mask


def keep(data: Any) -> Any:
    """The same structure with tensors of the same shapes."""
    if isinstance(data, torch.Tensor):
        return _kept(data)
    if isinstance(data, Mapping):
        return {key: keep(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        items = [keep(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    return data


def _kept(tensor: Any) -> Any:
    plain = type(tensor) is torch.Tensor and tensor.layout == torch.strided
    if not plain and not isinstance(tensor, torch.nn.Parameter):
        return tensor
    values = like_a_mask(tensor) if tensor.is_floating_point() else not tensor.is_complex()
    if values and not tensor.requires_grad and tensor.numel() <= (MOST_FLOATS if tensor.is_floating_point() else MOST):
        return tensor.detach().clone()
    shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    return shape.requires_grad_(tensor.requires_grad)
