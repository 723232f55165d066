"""How many floating-point operations one training step needs, by group, for one token or one sample.

    flops = Flops(unit="token", units=8192, blocks=6e8, lm_head=2e8, attention=5e7, attention_dense=1e8)
    flops.model_flop        # 9e8: dense attention, nothing twice
    flops.hardware_flop     # the same with what activation checkpointing computes again

A multiplication and an addition are two operations. All counts hold forward and backward. `attention` counts the
pairs that its mask allows, `attention_dense` all of them.
"""

from typing import Any

import msgspec

from ..errors import StepscopeError

GROUPS = ("blocks", "lm_head", "attention", "other")


class FlopsUnknown(StepscopeError, ValueError):
    """The operations of a model could not be counted; the message says what stood in the way."""


class Flops(msgspec.Struct, frozen=True, kw_only=True):
    """Operations for one token or sample, forward and backward."""

    unit: str  # token or sample
    units: int  # how many of them the forward pass had that was counted
    blocks: float = 0
    lm_head: float = 0
    attention: float | None = 0  # None where a mask's content is not known
    other: float = 0
    attention_dense: float = 0
    recompute: float | None = 0  # None where it is not known whether activations are computed again
    by_dtype: dict[str, dict[str, float]] = {}  # group → number format → operations
    source: str = "counted"

    @property
    def model_flop(self) -> float:
        """What the model needs, attention without its mask: the numerator of model FLOPs utilisation."""
        return self.blocks + self.lm_head + self.attention_dense + self.other

    @property
    def hardware_flop(self) -> float | None:
        """What the hardware computes: the model's operations, and those that checkpointing repeats."""
        return None if self.recompute is None else self.model_flop + self.recompute


def tensors_in(values: Any) -> list[Any]:
    """The tensors in a forward pass's arguments, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def units_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, int]:
    """What the input consists of: integer ids are tokens, anything else is samples, one a row."""
    named = kwargs.get("input_ids")
    found = tensors_in([named]) or tensors_in(args) or tensors_in(kwargs)
    if not found:
        raise FlopsUnknown("the forward pass got no tensor, so its operations belong to no token and no sample")
    first = found[0]
    whole = not first.is_floating_point() and not first.is_complex()
    if whole and first.dim() in (1, 2) and str(first.dtype) != "torch.bool":
        unit, units = "token", first.numel()
    else:
        unit, units = "sample", first.shape[0] if first.dim() else 1
    if not units:
        raise FlopsUnknown("the forward pass got an empty batch")
    return unit, units
