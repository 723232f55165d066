"""A copy of a model that has its shape and its code and none of its data.

    copier = FakeCopier(fake_mode, known, device)
    twin = copier.copy(model)          # runs under `fake_mode`; holds no storage, no hook, no compiled code
    args = copier.copy(args)

`copy.deepcopy` would copy what hangs on a module as well: a trainer, its optimizer, its data. Here modules, containers
and plain objects are made anew and everything else is shared, so that a forward pass of the copy writes into the copy.
"""

import collections
import functools
import types
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .flop_groups import FlopsUnknown
from .known_values import Known

MOST_OBJECTS = 200_000
# Objects of these packages are shared: they stand for something outside (a process group, a thread, a trainer).
SHARED = frozenset(
    {"torch", "threading", "_thread", "multiprocessing", "logging", "asyncio", "weakref", "lightning"}
    | {"pytorch_lightning", "accelerate", "wandb", "stepscope", "numpy", "io", "socket", "subprocess", "concurrent"}
)
HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs"),
)
KEPT_HOOKS = ("WeightNorm", "SpectralNorm", "BasePruningMethod")  # they make the weight that the layer uses
CONTAINERS = (dict, collections.OrderedDict, collections.defaultdict)


def unwrapped(model: Any) -> Any:
    """The user's module inside what compiles or replicates it."""
    while True:
        if isinstance(model, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod") and isinstance(model._orig_mod, torch.nn.Module):
            model = model._orig_mod
        else:
            return model


class FakeCopier:
    """Copies objects; what was met before is the same copy again, so tied weights stay tied."""

    def __init__(self, mode: FakeTensorMode, known: Known, device: torch.device):
        self._mode, self._known, self._device = mode, known, device
        self._made: dict[int, Any] = {}
        self._held: list[Any] = []  # originals, so that an id stays its own

    def copy(self, value: Any) -> Any:
        """The copy of anything that a module or its arguments may hold."""
        if id(value) in self._made:
            return self._made[id(value)]
        if len(self._held) > MOST_OBJECTS:
            raise FlopsUnknown(f"more than {MOST_OBJECTS} objects hang on the model")
        return self._copied(value)

    def _remember(self, value: Any, copied: Any) -> Any:
        self._made[id(value)] = copied
        self._held.append(value)
        return copied

    def _copied(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._remember(value, self._tensor(value))
        if isinstance(value, torch.nn.Module):
            return self._module(value)
        if isinstance(value, types.MethodType) and isinstance(value.__self__, torch.nn.Module):
            return types.MethodType(value.__func__, self.copy(value.__self__))
        if type(value) is weakref.ref and isinstance(value(), torch.Tensor | torch.nn.Module):
            return weakref.ref(self.copy(value()))  # a recurrent layer knows its weights by them
        if type(value) is functools.partial:
            keywords = {key: self.copy(item) for key, item in value.keywords.items()}
            return functools.partial(self.copy(value.func), *map(self.copy, value.args), **keywords)
        if type(value) in CONTAINERS:
            return self._mapping(value)
        if type(value) in (list, set, collections.deque):
            return self._sequence(value)
        if isinstance(value, tuple):
            return self._tuple(value)
        return self._object(value)

    def _tensor(self, tensor: Any) -> Any:
        if hasattr(tensor, "full_tensor") and hasattr(tensor, "device_mesh"):
            return self._whole(tensor)
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise FlopsUnknown("a lazy layer of the model has no shape yet")
        if tensor.is_meta and self._device.type != "meta":  # an input of which only the shape was kept
            with self._mode:
                shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self._device)
                self._known.take(shape.requires_grad_(tensor.requires_grad), tensor)
                return shape
        fake = self._mode.from_tensor(tensor, static_shapes=True)
        if not tensor.requires_grad:
            self._known.take(fake, tensor)
        return fake

    def _whole(self, tensor: Any) -> Any:
        """A sharded tensor at its full size: each token meets all of it, on whichever rank."""
        with self._mode:
            fake = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
            if isinstance(tensor, torch.nn.Parameter):
                return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
            return fake.requires_grad_(tensor.requires_grad)

    def _module(self, module: Any) -> Any:
        inner = unwrapped(module)
        if inner is not module:
            return self._remember(module, self.copy(inner))
        if isinstance(module, torch.jit.ScriptModule):
            raise FlopsUnknown("a part of the model is TorchScript, whose code cannot be run on shapes alone")
        twin = self._remember(module, object.__new__(type(module)))  # a sharded class has a `__new__` of its own
        for name, value in vars(module).items():
            if name == "_compiled_call_impl":
                continue
            twin.__dict__[name] = _own_hooks(value) if name in HOOKS else self.copy(value)
        return twin

    def _mapping(self, value: Any) -> Any:
        copied = type(value)(value.default_factory) if isinstance(value, collections.defaultdict) else type(value)()
        self._remember(value, copied)
        for key, item in value.items():
            copied[key] = self.copy(item)
        return copied

    def _sequence(self, value: Any) -> Any:
        if type(value) is set:
            return self._remember(value, {self.copy(item) for item in value})
        copied = self._remember(value, type(value)() if type(value) is list else collections.deque(maxlen=value.maxlen))
        copied.extend(self.copy(item) for item in value)
        return copied

    def _tuple(self, value: Any) -> Any:
        items = [self.copy(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)

    def _object(self, value: Any) -> Any:
        """A plain object anew: the forward pass may write into it. Not one that closes something when it dies."""
        kind: Any = type(value)
        package = (kind.__module__ or "").partition(".")[0]
        if not _plain(value) or hasattr(kind, "__del__") or package in SHARED:
            return value
        try:
            twin = kind.__new__(kind)
        except Exception:  # noqa: BLE001 - a class that cannot be made anew is shared
            return value
        self._remember(value, twin)
        if isinstance(value, dict):
            dict.update(twin, {key: self.copy(item) for key, item in value.items()})
        vars(twin).update({name: self.copy(item) for name, item in vars(value).items()})
        return twin


def _plain(value: Any) -> bool:
    """Whether an object's class is written in Python and all that it holds stands in its `__dict__`."""
    kind = type(value)
    written = bool(kind.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE
    slots = any(slot not in ("__dict__", "__weakref__") for base in kind.__mro__ for slot in _slots(base))
    other = isinstance(value, type | BaseException | list | set | frozenset | str | int | float | collections.deque)
    return written and not slots and not other and isinstance(getattr(value, "__dict__", None), dict)


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _own_hooks(hooks: Any) -> Any:
    kept = [(key, hook) for key, hook in hooks.items() if type(hook).__name__ in KEPT_HOOKS]
    return type(hooks)(kept)
