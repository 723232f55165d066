"""Which memory is what: weights, gradients, optimizer state, LoRA, quantised weights and buffers, measured.

    segments(model, optimizer)            # [Segment(name="weights", device=497759232, …), …]
    segments([actor, critic], [first, second], device=0)

Every block of memory is counted once, under the first purpose that claims it, and where it lies. On a GPU what the
allocator holds beyond that follows: `other` (tensors of nobody named here), `fragmentation` (free, but stuck between
blocks in use) and `cached` (free). So the device bytes add up to what is reserved, and without the last two to
`torch.cuda.memory_allocated()`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from ..records import Segment
from .allocator import Levels, levels
from .living import Living
from .storages import pieces, tensors

ORDER = [
    "weights",
    "gradients",
    "optimizer",
    "activations",
    "lora",
    "qlora",
    "buffers",
    "other",
    "fragmentation",
    "cached",
]
PLACES = ("device", "managed", "pinned", "pageable")

Sizes = Counter[tuple[int | None, str, str]]  # bytes by GPU (None is the host), segment and place


class Held:
    """Bytes by GPU, segment and place; each block of memory counts for the first that claims it."""

    def __init__(self) -> None:
        self.sizes: Sizes = Counter()
        self.keys: set[int] = set()

    def claim(self, name: str, found: Iterable[Any]) -> None:
        """Count the tensors under a segment, as far as nobody else has."""
        for tensor in found:
            try:
                for key, gpu, place, size in pieces(tensor):
                    if key not in self.keys:
                        self.keys.add(key)
                        self.sizes[gpu, name, place] += size
            except Exception:  # noqa: BLE001 - a kind of tensor that does not say where it lies is left out
                continue

    def on(self, gpu: int | None) -> int:
        """What was found on one GPU."""
        return sum(size for (index, _, place), size in self.sizes.items() if index == gpu and place == "device")

    def gpus(self) -> list[int]:
        """The GPUs on which something was found."""
        return sorted({index for index, _, _ in self.sizes if index is not None})


def segments(models: Any, optimizers: Any = (), device: int | None = None) -> list[Segment]:
    """The memory of each purpose at this moment, on all devices or on one GPU and the host."""
    found = held(models, optimizers)
    for gpu in found.gpus():
        if (level := levels(gpu)) is not None:
            found.sizes.update(remainder(gpu, level, found.on(gpu)))
    gpus = set(found.gpus()) if device is None else {device}
    return as_segments(found.sizes, {None, *gpus})


def held(models: Any, optimizers: Any = ()) -> Held:
    """What models and optimizers hold, by the memory it lies in."""
    with torch._C.DisableTorchFunctionSubclass():  # a subclass that counts or logs its calls sees none of these
        return _held(several(models), several(optimizers))


def _held(models: list[Any], optimizers: list[Any]) -> Held:
    found = Held()
    parameters = list(_parameters(models))
    stepped = [parameter for optimizer in optimizers for parameter in _stepped(optimizer)]
    found.claim("qlora", (part for _, weight in parameters if is_quantised(weight) for part in quantised(weight)))
    found.claim("qlora", (part for model in models for part in _quantisation_states(model)))
    found.claim("lora", (parameter for is_lora, parameter in parameters if is_lora))
    found.claim("weights", (parameter for _, parameter in parameters))
    found.claim("weights", stepped)
    found.claim("buffers", (buffer for model in models for buffer in model.buffers()))
    found.claim("gradients", _gradients([*(parameter for _, parameter in parameters), *stepped]))
    found.claim("optimizer", (part for optimizer in optimizers for part in _state(optimizer)))
    return found


def as_segments(sizes: Sizes, gpus: set[int | None]) -> list[Segment]:
    """The sizes on these GPUs (None is the host) as segments, in their usual order, without the empty ones."""
    places: dict[str, Counter[str]] = {}
    for (gpu, name, place), size in sizes.items():
        if gpu in gpus and size:
            places.setdefault(name, Counter())[place] += size
    return [Segment(name=name, **places[name]) for name in ORDER if name in places]


def remainder(gpu: int, level: Levels, known: int) -> Sizes:
    """What the allocator of a GPU holds beside the known."""
    free = max(0, level.reserved - level.allocated)
    stuck = min(free, level.split)
    return Counter(
        {
            (gpu, "other", "device"): max(0, level.allocated - known),
            (gpu, "fragmentation", "device"): stuck,
            (gpu, "cached", "device"): free - stuck,
        }
    )


def several(value: Any) -> list[Any]:
    """One thing, None or several as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, set, frozenset, Living)) else [value]


def _parameters(modules: list[Module]) -> Iterator[tuple[bool, Parameter]]:
    """Every parameter, and whether it is an adapter's."""
    for model in modules:
        adapters = {id(parameter) for module in model.modules() for parameter in _adapters(module)}
        for name, parameter in model.named_parameters():
            named = any(part.startswith("lora_") for part in name.split("."))
            yield named or id(parameter) in adapters, parameter


def _adapters(module: Module) -> Iterator[Parameter]:
    """The parameters that a layer of PEFT's, of whatever method, names as its adapter's."""
    # not those of peft.utils, which wraps whole modules that are trained and saved beside the adapters
    if any(kind.__module__.startswith("peft.tuners.") for kind in type(module).__mro__):
        for name in getattr(module, "adapter_layer_names", ()):
            adapter = getattr(module, name, None)
            if isinstance(adapter, Module):
                yield from adapter.parameters()


def is_quantised(parameter: Any) -> bool:
    """Whether this is bitsandbytes' weight of 4 or 8 bits; it becomes one on its way to a device."""
    return _of_bitsandbytes(parameter) and not parameter.is_floating_point()


def quantised(parameter: Any) -> Iterator[Tensor]:
    """A quantised weight, then what is needed to read it: scales, code book, and the scales' own."""
    yield parameter
    for name in ("CB", "SCB", "quant_state"):
        yield from _inside(getattr(parameter, name, None))


def _quantisation_states(model: Module) -> Iterator[Tensor]:
    """What bitsandbytes' 8-bit layers took over from their weights at the first forward pass."""
    for module in model.modules():
        if _of_bitsandbytes(state := getattr(module, "state", None)):
            yield from _inside(state)


def _of_bitsandbytes(value: Any) -> bool:
    return any(kind.__module__.partition(".")[0] == "bitsandbytes" for kind in type(value).__mro__)


def _inside(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """The tensors in the attributes of an object of bitsandbytes', and of those in it."""
    if isinstance(value, Tensor):
        yield value
    elif depth and _of_bitsandbytes(value):
        for inner in list(vars(value).values()):
            yield from _inside(inner, depth - 1)


def _stepped(optimizer: Any) -> Iterator[Tensor]:
    """The parameters that an optimizer steps, in a model or not."""
    for group in list(getattr(optimizer, "param_groups", None) or ()):
        if isinstance(group, dict):
            yield from tensors(group.get("params"))


def _gradients(parameters: Iterable[Any]) -> Iterator[Tensor]:
    for parameter in parameters:
        if parameter.is_leaf and parameter.grad is not None:  # of others, asking for it warns
            yield parameter.grad
        main = getattr(parameter, "main_grad", None)  # Megatron's, in fp32
        if isinstance(main, Tensor):
            yield main


def _state(optimizer: Any, depth: int = 3) -> Iterator[Tensor]:
    """Whatever tensors an optimizer keeps, in `state` or elsewhere, and those of the optimizers that it wraps."""
    for name in ("state", "param_groups"):  # a group's learning rate may be a tensor
        with suppress(Exception):  # a property of somebody's wrapper
            yield from tensors(getattr(optimizer, name, None))
    for name, value in list(getattr(optimizer, "__dict__", {}).items()):
        if name not in ("state", "param_groups"):
            yield from tensors(value)
        if depth:
            for inner in several(value):
                if isinstance(inner, Optimizer):
                    yield from _state(inner, depth - 1)
