"""Which values are known although a model runs on tensors without data: masks, positions, lengths, ids.

    known = Known()
    known.take(fake_ids, ids)                   # what the input holds; read when it is needed
    known.follow(func, args, kwargs, out)       # after each operation: whatever comes from known values is known
    known.value(fake_mask)                      # the mask, on the CPU; None when it depends on the weights

So a causal, windowed or packed mask can be counted, and a branch on the input can be taken, without running the model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._pytree import tree_leaves, tree_map

MOST = 1 << 24  # elements of one value
MOST_FLOATS = 1 << 20  # of an input that looks like data, not like a mask
BUDGET = 1 << 28  # elements in all
GARBAGE = frozenset({"aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided"})


class Known:
    """The values that are known, each beside the tensor without data that stands for it."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[Any, Any]] = {}  # id → (the tensor, held so that its id stays its own; value)
        self._sources: dict[int, tuple[Any, Any]] = {}
        self._left = BUDGET
        self.too_large = False  # whether something that looks like a mask was not read for its size

    def take(self, fake: Any, real: Any) -> None:
        """Remember where the data of an input or a buffer lies; it is copied when something needs it."""
        self._sources[id(fake)] = (fake, real)

    def value(self, tensor: Any) -> Any:
        """The value of a tensor, on the CPU; None when it is not known."""
        held = self._values.get(id(tensor))
        if held is not None:
            return held[1]
        source = self._sources.pop(id(tensor), None)
        real = source[1] if source is not None else None if isinstance(tensor, FakeTensor) else tensor
        if real is None or real.requires_grad:
            return None
        if real.is_meta or not _worth_reading(real):
            self.too_large |= like_a_mask(real)
            return None
        return self._keep(tensor, read(real))

    def _keep(self, tensor: Any, value: Any) -> Any:
        self._left -= value.numel()
        self._values[id(tensor)] = (tensor, value)
        return value

    def follow(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """What an operation makes of known values is known; what it writes from unknown ones no longer is."""
        values = self._evaluate(func, args, kwargs, out)
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        if values is None:
            self._forget_written(func, args, kwargs)
            return
        for tensor, value in zip(made, values, strict=False):
            if isinstance(value, torch.Tensor) and value.shape == tensor.shape:
                self._keep(tensor, value)

    def compute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operation on known values alone; None where one of them is not known."""
        if func._schema.name in GARBAGE or torch.Tag.nondeterministic_seeded in func.tags:
            return None
        if not self._all_known(args, kwargs):
            return None
        on_cpu = tree_map(self._stand_in, (args, {k: v for k, v in kwargs.items() if k != "pin_memory"}))
        if "device" in kwargs:
            on_cpu[1]["device"] = torch.device("cpu")
        with unset_fake_temporarily(), torch.no_grad():
            return func(*on_cpu[0], **on_cpu[1])

    def _evaluate(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> list[Any] | None:
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        size = sum(tensor.numel() for tensor in made)
        if not made:
            return None
        if size > MOST or size > self._left:
            self.too_large |= any(map(like_a_mask, made)) and self._all_known(args, kwargs)
            return None
        try:
            result = self.compute(func, args, kwargs)
        except Exception:  # noqa: BLE001 - what cannot be computed on the CPU is not known, and nothing worse
            return None
        return None if result is None else [v for v in tree_leaves(result) if isinstance(v, torch.Tensor)]

    def _all_known(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        return all(self.value(tensor) is not None for tensor in inputs)

    def _stand_in(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self.value(leaf)
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    def _forget_written(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            written = args[place] if place < len(args) else kwargs.get(argument.name)
            for tensor in tree_leaves(written):
                self._forget(tensor)

    def _forget(self, tensor: Any) -> None:
        """Forget a value and all that share its memory."""
        self._sources.pop(id(tensor), None)
        held = self._values.get(id(tensor))
        if held is None or held[1] is None:
            return
        memory = held[1].untyped_storage().data_ptr()
        for key, (holder, value) in self._values.items():
            if value is not None and value.untyped_storage().data_ptr() == memory:
                self._values[key] = (holder, None)


def _worth_reading(real: Any) -> bool:
    if type(real) is not torch.Tensor or real.layout != torch.strided or real.numel() > MOST:
        return False
    return not real.is_floating_point() or like_a_mask(real) or real.numel() <= MOST_FLOATS


def like_a_mask(tensor: Any) -> bool:
    """Square, and no picture of three colours."""
    shape = tuple(tensor.shape)
    return len(shape) >= 2 and shape[-1] == shape[-2] and shape[-3:-2] != (3,) and not tensor.requires_grad


def read(real: Any) -> Any:
    """A copy of a tensor on the CPU."""
    with unset_fake_temporarily(), _waiting_allowed(real), torch.no_grad():
        return real.detach().to("cpu", copy=True)


@contextmanager
def _waiting_allowed(real: Any) -> Iterator[None]:
    """One copy from the device waits for it: once a run, and where the user forbids it, this once all the same."""
    if not real.is_cuda:
        yield
        return
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("default")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)
