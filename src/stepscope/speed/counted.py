"""Counts the operations of a training step by running the model once on tensors without data.

    flops = count(model, (ids,), {})
    flops.model_flop * flops.units      # what torch's FlopCounterMode says of the real step, attention written out

The copy has the model's shapes, devices and number formats. Nothing is computed on a device, nothing of the model is
written, and random generators, autocast, grad mode and the console are as before. A model that decides by values that
it computes (which expert gets which token) cannot be counted so: `FlopsUnknown` says where.
"""

import contextlib
import random
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .fake_copy import FakeCopier, unwrapped
from .flop_groups import Flops, units_of
from .fused_attention import WrittenOut
from .known_values import Known
from .number_formats import number_format
from .tally import Tally, Work

SECONDS = 20.0  # a model that takes longer to count is not counted
NEAR = 128  # rows by which a vocabulary may be padded
Autocast = tuple[tuple[str, torch.dtype], ...]


def autocast_now() -> Autocast:
    """The autocast that is on here: pairs of device type and number format."""
    types = ("cpu", "cuda")
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in types if torch.is_autocast_enabled(kind))


def count(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], autocast: Autocast | None = None) -> Flops:
    """The operations of one forward and backward pass of `model` on this input."""
    unit, units = units_of(args, kwargs)
    model = unwrapped(model)
    tally = _tally(model, args, kwargs, autocast_now() if autocast is None else autocast)
    sharded = _sharded_format(model)
    for work in tally.works:
        if sharded is not None and work.dtype is torch.float32:
            work.dtype = sharded
    return _grouped(tally, unit, units)


def _tally(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], autocast: Autocast) -> Tally:
    mode = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
    known = Known()
    tally = Tally(known, SECONDS)
    with as_before(), torch.enable_grad():
        copier = FakeCopier(mode, known, next((p.device for p in model.parameters()), torch.device("cpu")))
        twin = copier.copy(model)
        inputs, named = copier.copy(tuple(args)), copier.copy(dict(kwargs))
        for parameter in twin.parameters():
            tally.weigh(parameter)
        with mode, tally, WrittenOut(tally):
            with _autocast(autocast):
                out = twin(*inputs, **named)
            with _autocast(()):
                tally.backward(_loss(out))
    return tally


def _loss(out: Any) -> Any:
    """A loss, where the model computes one, else all that it returns."""
    loss = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
    return loss if isinstance(loss, torch.Tensor) and loss.requires_grad else _plain(out)


def _plain(out: Any) -> Any:
    if isinstance(out, dict):
        return [_plain(value) for value in out.values()]
    if hasattr(out, "__dataclass_fields__"):
        return [_plain(value) for value in vars(out).values()]
    return out


def _grouped(tally: Tally, unit: str, units: int) -> Flops:
    head = _head(tally)
    transformer = unit == "token" or any(work.attention for work in tally.works)
    total = {"blocks": 0.0, "lm_head": 0.0, "attention": 0.0, "other": 0.0}
    formats: dict[str, dict[str, float]] = {}
    dense, masked = 0.0, True
    for work in tally.works:
        group, flop = _group(work, head, transformer), float(work.forward + work.backward)
        if group == "attention":
            dense += flop / units
            kept = work.mask.kept
            masked, flop = masked and kept is not None, flop * (kept or 0)
        if not flop:
            continue
        total[group] += flop / units
        spent = formats.setdefault(group, {})
        name = number_format(work.dtype, work.device, work.kind)
        spent[name] = spent.get(name, 0.0) + flop / units
    if not masked:
        formats.pop("attention", None)
    return Flops(
        unit=unit,
        units=units,
        blocks=total["blocks"],
        lm_head=total["lm_head"],
        attention=total["attention"] if masked else None,
        other=total["other"],
        attention_dense=dense,
        recompute=sum(work.again for work in tally.works) / units,
        by_dtype=formats,
    )


def _group(work: Work, head: int | None, transformer: bool) -> str:
    if work.attention:
        return "attention"
    if work.kind == "convolution" or not transformer:
        return "other"
    return "lm_head" if head is not None and work.weight == head else "blocks"


def _head(tally: Tally) -> int | None:
    """The weight that gives a number for each word: one of the last two used, as wide as an embedding table."""
    last: list[Work] = []
    for work in reversed(tally.works):
        if work.forward and work.weight is not None and work.weight not in [other.weight for other in last]:
            last.append(work)
    for work in last[:2]:
        rows = tally.tables.values()
        if work.weight in tally.tables or any(abs(work.width - count) <= NEAR for count in rows):
            return work.weight
    return None


def _sharded_format(model: Any) -> torch.dtype | None:
    """The number format that a sharded model gathers its weights in; the hook that does it is not in the copy."""
    state = getattr(model, "_get_fsdp_state", None)
    policy = getattr(state(), "_mp_policy", None) if callable(state) else None
    dtype = getattr(policy, "param_dtype", None)
    return dtype if isinstance(dtype, torch.dtype) else None


@contextlib.contextmanager
def _autocast(state: Autocast) -> Iterator[None]:
    """Exactly this autocast; nothing of ours stays in its cache of casts."""
    on = dict(state)
    with contextlib.ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            dtype = on.get(kind)
            stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=kind in on, cache_enabled=False))
        yield


@contextlib.contextmanager
def as_before() -> Iterator[None]:
    """Whatever runs inside leaves the process as it found it."""
    with contextlib.ExitStack() as stack:
        stack.callback(_random_state())
        stack.enter_context(contextlib.redirect_stdout(_Silent(sys.stdout)))
        stack.enter_context(contextlib.redirect_stderr(_Silent(sys.stderr)))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))  # one sequence of node numbers
        stack.enter_context(_no_global_hooks())
        if "torch._dynamo" in sys.modules:  # only then can something be compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _random_state() -> Any:
    """What puts every random generator back to where it is now."""
    cpu, plain = torch.get_rng_state(), random.getstate()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    numpy = sys.modules.get("numpy.random")
    drawn = numpy.get_state() if numpy is not None else None

    def restore() -> None:
        torch.set_rng_state(cpu)
        random.setstate(plain)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        if numpy is not None:
            numpy.set_state(drawn)

    return restore


@contextlib.contextmanager
def _no_global_hooks() -> Iterator[None]:
    """Hooks on all modules do not see the copy."""
    holder = torch.nn.modules.module
    names = [name for name in vars(holder) if name.startswith("_global_") and name.endswith("_hooks")]
    tables = [getattr(holder, name) for name in names]
    saved = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        for table, hooks in zip(tables, saved, strict=True):
            hooks.update(table)  # what another thread has registered meanwhile
            table.clear()
            table.update(hooks)


class _Silent:
    """A stream that swallows what this thread prints, and passes on what others do."""

    def __init__(self, stream: Any):
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
