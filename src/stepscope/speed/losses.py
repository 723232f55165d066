"""The loss as the script means it: what `.backward()` is called on, without a gradient scaler's factor.

losses = Losses()
losses.scaled((scaler, loss), scaled, None)   # behind `scaler.scale(loss)`
losses.value(scaled)                          # a number on the CPU, a tensor that is read late on a device
"""

import weakref
from typing import Any

import torch


def is_loss(loss: Any, gradient: Any = None, *_: Any, **__: Any) -> bool:
    """Whether a backward pass is from a scalar, by itself."""
    return loss.numel() == 1 and gradient is None


class Losses:
    """Knows what was scaled last."""

    def __init__(self) -> None:
        self._scaled: tuple[Any, Any, Any] = (None, None, None)  # what backward gets, the loss, the scale

    def scaled(self, given: Any, scaled: Any, error: BaseException | None) -> None:
        """A gradient scaler has multiplied a loss."""
        scaler, outputs = given
        if isinstance(outputs, torch.Tensor) and scaled is not outputs and scaled is not None:
            self._scaled = (weakref.ref(scaled), outputs.detach(), scaler._scale)

    def value(self, loss: Any) -> Any:
        """The loss of a backward pass."""
        scaled, plain, scale = self._scaled
        self._scaled = (None, None, None)
        if scaled is not None and scaled() is loss:
            loss, scale = plain, None
        if loss.device.type == "cpu":
            return loss.item() if scale is None else loss.item() / scale.item()
        return loss.detach().clone() if scale is None else loss.detach() / scale
