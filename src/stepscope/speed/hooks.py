"""Hooks on torch that tell a `Loop` what a training does, without a word in its code.

    hooks = Hooks(loop, on_trouble=print)
    hooks.attach()
    …                      # any training
    hooks.detach()         # torch is as it was

Optimizers by torch's global hooks; loaders by their iterators; `Tensor.backward`; a gradient scaler's `step`; and the
modules that hold the optimizers' parameters, found once, at the first backward pass. Those are timed from outside,
by their class's `__call__`: so nothing of ours lies in a model that is copied, saved or compiled, and code that
torch compiles never sees us. What a hook of ours raises is said once, and the training goes on.
"""

import functools
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from .batches import count, length_of, timed_workers
from .loop import Loop
from .moments import Source
from .roots import Roots

GradScaler = torch.amp.grad_scaler.GradScaler
OnTrouble = Callable[[str, str], Any]


def nothing(*_: Any) -> None:
    """For what nobody listens to."""


class Hooks:
    """What stands between torch and a loop; once detached, nothing of it is left."""

    def __init__(
        self,
        loop: Loop,
        on_trouble: OnTrouble,
        on_forward: Callable[[Any, Any, Any], Any] | None = None,
        on_moment: Callable[..., Any] = nothing,
        on_error: Callable[[BaseException], Any] = nothing,
    ):
        self._loop, self._on_trouble, self._on_moment, self._on_error = loop, on_trouble, on_moment, on_error
        self._thread = get_ident()
        self._undo: list[Callable[[], Any]] = []
        self._scaled: tuple[Any, Any, Any] = (None, None, None)  # what backward gets, the loss, the scale
        self._stepped = False  # an optimizer, inside a gradient scaler's step
        self.roots = Roots(self._called, on_forward)
        self.forwards = self.backwards = 0

    def attach(self) -> None:
        """Begin to listen."""
        before, after = self._guarded(self._update_begins), self._guarded(self._update_ends)
        for hook in (before, after):  # in a compiled optimizer they run between its graphs, and break none
            hook._torchdynamo_disable = True  # type: ignore[attr-defined]
        self._undo += [
            register_optimizer_step_pre_hook(before).remove,
            register_optimizer_step_post_hook(after).remove,
        ]
        self._replace(torch.Tensor, "backward", self._backward)
        self._replace(DataLoader, "__iter__", self._iterate)
        self._replace(_BaseDataLoaderIter, "__next__", self._fetch)
        self._replace(GradScaler, "scale", self._scale)
        self._replace(GradScaler, "step", self._scaler_step)
        if torch.cuda.is_available():
            self.watch_transfers()

    def watch_transfers(self) -> None:
        """Time what moves from one device to another."""
        self._replace(torch.Tensor, "to", self._moved)
        self._replace(torch.Tensor, "cuda", self._moved)

    def detach(self) -> None:
        """Leave torch as it was."""
        while self._undo:
            self._undo.pop()()
        self.roots.release()

    def _replace(self, owner: type, name: str, with_: Callable[..., Any]) -> None:
        """Put `with_(original, self, …)` in the place of a method, until `detach`."""
        original = getattr(owner, name)
        own = owner.__dict__.get(name)

        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self._thread or torch.compiler.is_compiling() or not self._undo:
                return original(*args, **kwargs)
            return with_(original, *args, **kwargs)

        def undo() -> None:
            if owner.__dict__.get(name) is method:  # else somebody has wrapped it since: ours then does nothing
                setattr(owner, name, own) if own is not None else delattr(owner, name)

        setattr(owner, name, method)
        self._undo.append(undo)

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, in this thread alone, and without its exceptions."""

        def guarded(*args: Any, **kwargs: Any) -> None:
            if get_ident() == self._thread:
                self._tell(call, *args, **kwargs)

        return guarded

    def _tell(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
            self._on_trouble("watching", f"a hook failed: {type(error).__name__}: {error}")

    # optimizers

    def _update_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.roots.find([optimizer])
        self._on_moment("update")
        self._loop.update_begins([group.get("lr") for group in optimizer.param_groups])

    def _update_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._stepped = True
        self._loop.update_ends()

    def _scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        scaled = original(scaler, outputs)
        if isinstance(outputs, torch.Tensor) and scaled is not outputs:
            self._scaled = (weakref.ref(scaled), outputs.detach(), scaler._scale)
        return scaled

    def _scaler_step(self, original: Any, scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not scaler.is_enabled():
            return original(scaler, optimizer, *args, **kwargs)
        self._stepped = False
        self._tell(self._loop.update_begins, [group.get("lr") for group in optimizer.param_groups])
        try:
            return original(scaler, optimizer, *args, **kwargs)
        finally:
            self._tell(self._scaler_stepped, scaler, optimizer)

    def _scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        """Skipped where the optimizer was not called, or where it was told that there are infinities."""
        skipped: Any = not self._stepped
        if self._stepped and getattr(optimizer, "_step_supports_amp_scaling", False):
            found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
            (first, *_) = found or (None,)
            skipped = None if first is None else bool(first) if first.device.type == "cpu" else first.detach()
        self._loop.update_ends(skipped)

    # backward passes

    def _backward(self, original: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        self._tell(self._backward_begins, loss, args, kwargs)
        try:
            return original(loss, *args, **kwargs)
        except Exception as error:
            self._tell(self._on_error, error)
            raise
        finally:
            self._tell(self._loop.ends)

    def _backward_begins(self, loss: Any, args: Any, kwargs: Any) -> None:
        if not self.roots.found:
            self.roots.find()
        elif self.backwards and not self.forwards:
            self.roots.descend()  # the modules that were found are never called: look inside them
        self.backwards += 1
        is_loss = loss.numel() == 1 and not (args and args[0] is not None) and kwargs.get("gradient") is None
        if is_loss:
            self._on_moment("backward", loss)
        self._loop.backward_begins(self._value(loss) if is_loss else None)

    def _value(self, loss: Any) -> Any:
        """The loss as the script means it: a number on the CPU, a tensor that is read late on a device."""
        scaled, plain, scale = self._scaled
        self._scaled = (None, None, None)
        if scaled is not None and scaled() is loss:
            loss, scale = plain, None
        if loss.device.type == "cpu":
            return loss.item() if scale is None else loss.item() / scale.item()
        return loss.detach().clone() if scale is None else loss.detach() / scale

    # loaders

    def _iterate(self, original: Any, loader: Any) -> Any:
        source = Source(length_of(loader))
        self._tell(self._loop.fetch_begins, source)  # starting its workers takes time
        try:
            with timed_workers(loader, source):
                iterator = original(loader)
        finally:
            self._tell(self._loop.fetch_ends, source, None)
        if isinstance(iterator, _BaseDataLoaderIter):
            iterator._stepscope = source
        return iterator

    def _fetch(self, original: Any, iterator: Any) -> Any:
        source = getattr(iterator, "_stepscope", None)
        if source is None:
            return original(iterator)
        self._tell(self._loop.fetch_begins, source)
        samples = None
        try:
            batch = original(iterator)
            samples = count(batch).samples
            return batch
        finally:
            self._tell(self._loop.fetch_ends, source, samples)

    # forward passes and transfers

    def _called(self, call: Callable[[], Any], module: Any, args: Any, kwargs: Any) -> Any:
        if get_ident() != self._thread:
            return call()
        self._tell(self._forward_begins, module, args, kwargs)
        try:
            return call()
        except Exception as error:
            self._tell(self._on_error, error)
            raise
        finally:
            self._tell(self._loop.ends)

    def _forward_begins(self, module: Any, args: Any, kwargs: Any) -> None:
        self.forwards += 1
        learns = torch.is_grad_enabled()
        fed = count((args, kwargs)) if learns else None
        self._loop.forward_begins(
            evaluates=not learns and not module.training,
            samples=fed.samples if fed else 0,
            tokens=fed.tokens if fed else 0,
        )

    def _moved(self, original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if tensor.device.type != "cpu" or not leads_elsewhere(args, kwargs, original.__name__):
            return original(tensor, *args, **kwargs)
        self._tell(self._loop.transfer_begins)
        try:
            return original(tensor, *args, **kwargs)
        finally:
            self._tell(self._loop.ends)


def leads_elsewhere(args: Any, kwargs: Any, name: str) -> bool:
    """Whether `.to` or `.cuda` with these arguments leads from the CPU to another device."""
    if name == "cuda":
        return True
    target = kwargs.get("device", args[0] if args else kwargs.get("other"))
    if isinstance(target, torch.Tensor):
        return bool(target.device.type != "cpu")
    if isinstance(target, torch.dtype) or target is None:
        return False
    return not str(target).startswith("cpu")
