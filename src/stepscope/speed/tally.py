"""Counts every matmul and convolution of a forward and backward pass, and knows what each belongs to.

    tally = Tally(known)
    with fake_mode, tally:
        tally.backward(model(ids))
    tally.works        # one Work for each, with its operations forward, backward and computed again

A backward operation belongs to the forward one with the same number in autograd's sequence. Attention is found by the
flow of data, whoever wrote it: two activations are multiplied (scores), and the result with a third (values).
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .flop_groups import FlopsUnknown
from .known_values import Known
from .masks import Mask, added_mask, allowed_after
from .operations import CONVOLUTIONS, Rule, rule_for, unknown_operation

LOOKUPS = frozenset(
    f"aten::{name}" for name in ("embedding", "_embedding_bag", "index", "index_select", "gather", "_unsafe_index")
)
FUSED_ATTENTION = frozenset(
    f"aten::{name}"
    for name in (
        *("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"),
        *("_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu"),
        *("_flash_attention_forward", "_efficient_attention_forward"),
    )
)
DATA_DEPENDENT = ("DataDependentOutputException", "DynamicOutputShapeException", "UnsupportedOperatorException")


class Work:
    """One matmul or convolution: what it costs, and what it is part of."""

    __slots__ = ("again", "attention", "backward", "device", "dtype", "forward", "kind", "mask", "weight", "width")

    def __init__(self, kind: str, dtype: Any, device: str):
        self.kind, self.dtype, self.device = kind, dtype, device
        self.forward = self.backward = 0
        self.again = 0  # operations of a forward pass that checkpointing ran a second time
        self.attention = False
        self.mask = Mask()
        self.weight: int | None = None  # the parameter that it multiplies with
        self.width = 0


class Tally(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
    """Sees each operation below autograd; `works` holds those that count."""

    supports_higher_order_operators = False

    def __init__(self, known: Known, seconds: float):
        super().__init__()
        self.works: list[Work] = []
        self.tables: dict[int, int] = {}  # embedding tables: the parameter, and its number of rows
        self.known = known
        self._end = time.monotonic() + seconds
        self._rules: dict[Any, Rule | None] = {}
        self._by_sequence: dict[int, Work] = {}
        self._scores: dict[int, tuple[Any, Work]] = {}  # tensors that are scores, whatever was added to them
        self._weights: dict[int, tuple[Any, int]] = {}  # tensors that are a parameter, cast or transposed
        self._backward = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return func(*args, **(kwargs or {}))
        kwargs = kwargs or {}
        if func not in self._rules:
            self._rules[func] = rule_for(func)
        if time.monotonic() > self._end:
            raise FlopsUnknown("the model has too many operations to count them in time")
        if func.namespace == "c10d":
            raise FlopsUnknown("the model exchanges data with other processes in its forward pass")
        if (parts := self._in_parts(func, args, kwargs)) is not NotImplemented:
            return parts
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        _only_copies(tensors)
        out = self._run(func, args, kwargs)
        rule = self._rules[func]
        if rule is not None:
            self._count(func, tensors, out, rule(args, kwargs, out))
        elif unknown_operation(func, tensors, tree_leaves(out)):
            raise FlopsUnknown(f"{func._schema.name} is an operation whose cost is not known")
        if not self._in_gradient():
            self._flow(func, args, tensors, out)
        return out

    def _in_parts(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Under inference mode, a composite operation arrives whole."""
        if self._rules[func] is not None or torch.is_grad_enabled() or not torch.is_inference_mode_enabled():
            return NotImplemented
        with self:
            return func.decompose(*args, **kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            out = func(*args, **kwargs)
        except Exception as error:
            if type(error).__name__ not in DATA_DEPENDENT:
                raise
            return self._from_values(func, args, kwargs, error)
        self.known.follow(func, args, kwargs, out)
        return out

    def _from_values(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """A result whose shape or value depends on data: known where the data is."""
        result = self.known.compute(func, args, kwargs)
        if result is None:
            raise FlopsUnknown(f"the model decides by values that it computes ({func._schema.name})") from error
        if not isinstance(result, torch.Tensor):
            return result
        device = next(leaf.device for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))
        out = torch.empty(result.shape, dtype=result.dtype, device=device)
        self.known.take(out, result)
        return out

    def _in_gradient(self) -> bool:
        return self._backward and not torch.is_grad_enabled()

    def _count(self, func: Any, tensors: list[Any], out: Any, flop: int) -> None:
        if self._in_gradient():
            node = torch._C._current_autograd_node()
            work = self._by_sequence.get(node._sequence_nr()) if node is not None else None
            if work is None:
                work = self._new(func, tensors)
            work.backward += flop
            return
        work = self._new(func, tensors)
        # the node of an operation is made just before the operation runs; without gradient, the number is another's
        self._by_sequence.setdefault(torch.autograd._get_sequence_nr() - 1, work)
        if self._backward:
            work.again = flop
        else:
            work.forward = flop
        self._describe(work, func, tensors, out)

    def _new(self, func: Any, tensors: list[Any]) -> Work:
        convolution = func._schema.name in CONVOLUTIONS
        dtype, device = (tensors[0].dtype, tensors[0].device.type) if tensors else (None, "")
        work = Work("convolution" if convolution else "matmul", dtype, device)
        self.works.append(work)
        return work

    def _describe(self, work: Work, func: Any, tensors: list[Any], out: Any) -> None:
        made = next((leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)), None)
        if func._schema.name in FUSED_ATTENTION:
            work.attention, work.mask = True, Mask(known=False)  # reached only where it cannot be written out
            return
        if work.kind == "convolution" or made is None:
            return
        weights = [self._weights[id(tensor)][1] for tensor in tensors if id(tensor) in self._weights]
        scores = [held[1] for tensor in tensors if (held := self._scores.get(id(tensor))) is not None]
        if weights:
            work.weight = weights[-1]
        elif scores:  # the second half of attention: its weights times the values
            work.attention = scores[0].attention = True
            work.mask = scores[0].mask
        work.width = made.shape[-1]
        if work.weight is None and not work.attention and made.dim() >= 2:
            if func._schema.name == "aten::baddbmm":
                work.mask = added_mask(work.mask, tensors[0], self.known)
            self._scores[id(made)] = (made, work)

    def weigh(self, parameter: Any) -> None:
        """Make a parameter known, so that a matmul with it is told from one of two activations."""
        self._weights[id(parameter)] = (parameter, id(parameter))

    def scores_of(self, tensor: Any) -> Work | None:
        """The matmul whose scores a tensor holds."""
        held = self._scores.get(id(tensor))
        return held[1] if held is not None else None

    def value(self, tensor: Any) -> Any:
        """The known value of a tensor, or None."""
        return self.known.value(tensor)

    def _flow(self, func: Any, args: Any, tensors: list[Any], out: Any) -> None:
        """Pass on what a tensor is: scores that are scaled and masked are scores, what weights alone make a weight."""
        name = func._schema.name
        if name == "aten::embedding" and id(tensors[0]) in self._weights:
            self.tables[self._weights[id(tensors[0])][1]] = tensors[0].shape[0]
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
        floats = [tensor for tensor in tensors if tensor.is_floating_point() and tensor.numel() > 1]
        weights = [tensor for tensor in floats if id(tensor) in self._weights]
        if weights and len(weights) == len(floats) and name not in LOOKUPS:
            self._pass_on(self._weights, max(weights, key=torch.numel), made)
        if self._rules[func] is None:
            for scores in [tensor for tensor in floats if id(tensor) in self._scores]:
                work = self._scores[id(scores)][1]
                work.mask = allowed_after(name, args, scores, work.mask, self.known)
                self._pass_on(self._scores, scores, [tensor for tensor in made if _same_thing(scores, tensor)])

    def _pass_on(self, table: dict[int, tuple[Any, Any]], tensor: Any, made: list[Any]) -> None:
        for result in made:
            table.setdefault(id(result), (result, table[id(tensor)][1]))

    def backward(self, out: Any, run: Callable[[list[Any], list[Any]], None] = torch.autograd.backward) -> None:
        """Go back through everything that the forward pass gave, or its loss where it gave one."""
        ends = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not ends:
            return
        self._backward = True
        run(ends, [torch.ones_like(end) for end in ends])


def _same_thing(before: Any, after: Any) -> bool:
    """Whether a tensor can be another one scaled, viewed or cast, or with a column more for a sink."""
    return bool(
        after.numel() == before.numel() or (after.dim() == before.dim() and after.shape[:-1] == before.shape[:-1])
    )


def _only_copies(tensors: list[Any]) -> None:
    for tensor in tensors:
        if tensor.requires_grad and tensor.is_leaf and not isinstance(tensor, FakeTensor):
            raise FlopsUnknown("a part of the model is called through a closure, out of reach of its copy")
