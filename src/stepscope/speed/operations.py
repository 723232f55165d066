"""The rules by which an operation of torch is worth so many floating-point operations.

    rule = rule_for(torch.ops.aten.mm.default)
    rule((a, b), {}, out)      # 2 · m · n · k

Those of torch's own counter, and ours where it has none or counts groups of a convolution that are not there.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from .flop_groups import FlopsUnknown

Rule = Callable[[tuple[Any, ...], dict[str, Any], Any], int]

# The work of several matmuls behind one name that no rule knows: better no number than a small one.
BLIND = frozenset(
    f"aten::{name}"
    for name in (
        "_native_multi_head_attention",
        "_transformer_encoder_layer_fwd",
        "_scaled_dot_product_attention_math_for_mps",
        "_scaled_dot_product_fused_attention_overrideable",
        "_weight_int4pack_mm",
        "_weight_int8pack_mm",
        "miopen_rnn",
    )
)
OURS = frozenset({"aten", "prim", "prims", "stepscope", "c10d", "_c10d_functional", "c10d_functional", "fsdp"})
CONVOLUTIONS = frozenset(
    f"aten::{name}"
    for name in (
        "convolution",
        "_convolution",
        "cudnn_convolution",
        "convolution_overrideable",
        "_slow_conv2d_forward",
        "convolution_backward",
    )
)


def _convolution_backward(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    """As many as the forward pass for each gradient; torch's own rule takes a grouped convolution for a full one."""
    grad, x, weight = args[:3]
    transposed, mask = args[7], args[10]
    places = prod((x if transposed else grad).shape[2:]) * x.shape[0]
    return int(2 * places * weight.numel() * sum(bool(needed) for needed in mask[:2]))


def _grouped_matmul(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    """Each row meets the weights of its own group alone."""
    a, b = args[:2]
    groups = a.shape[0] if a.dim() == b.dim() == 3 else 1
    return int(2 * groups * a.shape[-2] * a.shape[-1] * b.shape[-1])


def _recurrent(x: Any, weights: list[Any]) -> int:
    return int(2 * prod(x.shape[:-1]) * sum(weight.numel() for weight in weights if weight.dim() >= 2))


def _mkldnn_rnn(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    return _recurrent(args[0], list(args[1:3]))


def _cudnn_rnn(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    return _recurrent(args[0], list(args[1]))


def _attention(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    query, key, value = args[:3]
    return int(2 * prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


def _attention_backward(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    return 2 * _attention(args[1:4], {}, out)


def _twice(rule: Rule) -> Rule:
    return lambda args, kwargs, out: 2 * rule(args, kwargs, out)


RULES: dict[str, Rule] = {
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten::_grouped_mm": _grouped_matmul,
    "aten::_scaled_grouped_mm": _grouped_matmul,
    "aten::mkldnn_rnn_layer": _mkldnn_rnn,
    "aten::mkldnn_rnn_layer_backward": _twice(_mkldnn_rnn),
    "aten::_cudnn_rnn": _cudnn_rnn,
    "aten::_cudnn_rnn_backward": _twice(_cudnn_rnn),
}


def rule_for(func: Any) -> Rule | None:
    """The rule of an operation; None where it has no matmul in it."""
    name = func._schema.name
    if name in RULES:
        return RULES[name]
    if name in BLIND:
        raise FlopsUnknown(f"{name} hides its matmuls")
    formula = flop_registry.get(func._overloadpacket)
    if formula is None:
        return None
    return lambda args, kwargs, out: int(formula(*args, **kwargs, out_val=out))


def unknown_operation(func: Any, tensors: list[Any], out: Any) -> bool:
    """Whether an operation of another library computes something whose cost nobody here knows."""
    if func.namespace in OURS or func._overloadpacket in flop_registry:
        return False
    heavy = [made for made in out if isinstance(made, torch.Tensor) and made.is_floating_point() and made.dim() > 1]
    return bool(heavy) and sum(tensor.is_floating_point() and tensor.dim() > 1 for tensor in tensors) > 1
