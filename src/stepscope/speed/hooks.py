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

import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from .batches import count, fed, length_of, nothing, time_workers
from .loop import Loop
from .losses import Losses, is_loss
from .moments import Source
from .patches import Patches
from .roots import Roots
from .transfers import leads_elsewhere

GradScaler = torch.amp.grad_scaler.GradScaler
STEP = torch.optim.Optimizer.profile_hook_step(nothing).__code__  # what torch puts around every optimizer's step
UNSEEN_STEPS = 3  # without a forward pass, before that is said
DESCENTS = range(2, 5)  # the backward passes at which roots that nobody calls are looked into

OnTrouble = Callable[[str, str], Any]


class Hooks:
    """What stands between torch and a loop; once detached, nothing of it is left."""

    def __init__(
        self,
        loop: Loop,
        on_trouble: OnTrouble,
        on_forward: Callable[[Any, Any, Any], Any] | None = None,
        on_moment: Callable[..., Any] = lambda *_: None,
        on_error: Callable[[BaseException], Any] = lambda _: None,
        on_move: Callable[[], Any] = lambda: None,
    ):
        """`on_move` is called when the training turns out to run in another thread than this one."""
        self._loop, self._on_trouble, self._on_moment, self._on_error = loop, on_trouble, on_moment, on_error
        self._on_forward, self._on_move = on_forward, on_move
        self._thread, self._settled = get_ident(), False
        self._patches = Patches(self._failed)
        self._handles: list[Any] = []
        self._losses = Losses()
        self._stepped = False  # an optimizer, inside a gradient scaler's step
        self._backward_depth = 0
        self.roots = Roots(self._listens, self._told(self._forward_begins), self._told(self._forward_ends))
        self.forwards = self.backwards = self.updates = 0

    def attach(self) -> None:
        """Begin to listen."""
        self._hook(register_optimizer_step_pre_hook, self._update_begins)
        self._hook(register_optimizer_step_post_hook, self._update_ends)
        self._around(torch.Tensor, "backward", self._backward_begins, self._backward_ends, self._starts)
        self._around(DataLoader, "__iter__", self._iterator_begins, self._iterator_ends)
        self._around(_BaseDataLoaderIter, "__next__", self._fetch_begins, self._fetch_ends)
        self._around(GradScaler, "scale", lambda scaler, outputs: (scaler, outputs), self._losses.scaled)
        self._around(GradScaler, "step", self._scaler_begins, self._scaler_ends)
        if torch.backends.cuda.is_built():  # asking for a device would begin to use it
            self.watch_transfers()

    def _hook(self, register: Callable[..., Any], call: Callable[..., Any]) -> None:
        told = self._told(call)

        def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
            if self._starts():
                told(optimizer)

        hook._torchdynamo_disable = True  # type: ignore[attr-defined]  # runs between a compiled optimizer's graphs
        self._handles.append(register(hook))

    def _around(
        self,
        owner: type,
        name: str,
        begins: Callable[..., Any],
        ends: Callable[..., Any],
        listens: Callable[[], bool] | None = None,
    ) -> None:
        self._patches.around(owner, name, listens or self._listens, begins, ends)

    def watch_transfers(self) -> None:
        """Time what moves from one device to another."""
        self._around(torch.Tensor, "to", self._transfer_begins, self._transfer_ends)
        self._around(
            torch.Tensor, "cuda", lambda tensor, *_, **__: self._transfer_begins(tensor, "cuda"), self._transfer_ends
        )

    def detach(self) -> None:
        """Leave torch as it was."""
        while self._handles:
            self._handles.pop().remove()
        self._patches.undo()
        self.roots.release()

    def _listens(self) -> bool:
        """Whether this thread is the training's."""
        return get_ident() == self._thread

    def _starts(self) -> bool:
        """The same; it is the first in which something learns."""
        if not self._settled:
            self._settled = True
            if get_ident() != self._thread:
                self._thread = get_ident()
                self._on_move()
        return get_ident() == self._thread

    def _failed(self, error: BaseException) -> None:
        self._on_trouble("watching", f"a hook failed: {type(error).__name__}: {error}")

    def _told(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call` without its exceptions: None where it fails."""

        def told(*args: Any) -> Any:
            try:
                return call(*args)
            except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
                return self._failed(error)

        return told

    def _recover(self) -> None:
        """An optimizer that raised says nothing: where one is at work, notice that it is not any more."""
        if not _is_on_stack(STEP):
            self._loop.update_failed()

    # optimizers

    def _update_begins(self, optimizer: Any) -> None:
        if self._loop.updating:
            self._recover()
        self._learn(optimizer)
        self._on_moment("update")
        self._loop.update_begins(_rates(optimizer), id(optimizer))

    def _learn(self, optimizer: Any = None) -> None:
        if new := self.roots.find(optimizer):
            self._loop.expect(new)

    def _update_ends(self, optimizer: Any) -> None:
        self._stepped = True
        self._loop.update_ends()
        self.updates += 1
        if self.updates == UNSEEN_STEPS and not self.forwards:
            self._on_trouble(
                "forward-unseen",
                "the forward pass cannot be seen: no module that holds the optimizer's parameters is called "
                "(a compiled function?); its time is in `other`",
            )

    def _scaler_begins(self, scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not scaler.is_enabled():
            return None
        if self._loop.updating:
            self._recover()
        self._stepped = False
        self._loop.update_begins(_rates(optimizer), id(optimizer))
        return scaler, optimizer

    def _scaler_ends(self, token: Any, result: Any, error: BaseException | None) -> None:
        """Skipped where the optimizer was not called, or where it was told that there are infinities."""
        if token is None:
            return
        if error is not None:
            self._loop.update_failed()
            return
        scaler, optimizer = token
        skipped: Any = not self._stepped
        if self._stepped and getattr(optimizer, "_step_supports_amp_scaling", False):
            found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
            (first, *_) = found or (None,)
            skipped = None if first is None else bool(first) if first.device.type == "cpu" else first.detach()
        self._loop.update_ends(skipped)

    # backward passes

    def _backward_begins(self, loss: Any, *args: Any, **kwargs: Any) -> bool:
        self._backward_depth += 1
        if self._backward_depth > 1:
            return True  # a tensor of another kind comes back with its own method
        if self._loop.updating:
            self._recover()
        self.backwards += 1
        if self.backwards == 1:
            self._learn()
        elif self.backwards in DESCENTS:
            self.roots.descend()
        value = None
        if is_loss(loss, *args, **kwargs):
            self._on_moment("backward", loss)
            value = self._losses.value(loss)
        self._loop.backward_begins(value)
        return True

    def _backward_ends(self, token: Any, result: Any, error: BaseException | None) -> None:
        self._backward_depth -= 1
        if self._backward_depth or not token:
            return
        if error is None:
            self._loop.backward_ends()
            return
        self._on_error(error)
        self._loop.backward_failed()

    # loaders

    def _iterator_begins(self, loader: Any) -> Any:
        source = Source(length_of(loader), batched=getattr(loader, "batch_size", None) is not None)
        self._loop.fetch_begins(source)  # starting its workers takes time
        try:
            return source, time_workers(loader, source)
        except OSError as error:  # no shared memory
            self._on_trouble("workers", f"the loader's workers are not timed: {error}")
            return source, nothing

    def _iterator_ends(self, token: Any, iterator: Any, error: BaseException | None) -> None:
        if token is None:
            return
        source, undo = token
        undo()
        self._loop.fetch_ends(source, None)
        if isinstance(iterator, _BaseDataLoaderIter):
            iterator._stepscope = source

    def _fetch_begins(self, iterator: Any) -> Any:
        source = getattr(iterator, "_stepscope", None)
        if source is not None:
            if self._loop.updating:
                self._recover()
            self._loop.fetch_begins(source)
        return source

    def _fetch_ends(self, source: Any, batch: Any, error: BaseException | None) -> None:
        if source is not None:
            samples = None if error is not None else count(batch).samples if source.batched else 0
            self._loop.fetch_ends(source, samples)

    # forward passes and transfers

    def _forward_begins(self, module: Any, args: Any, kwargs: Any) -> None:
        if self._loop.updating:
            self._recover()
        self.forwards += 1
        learns = torch.is_grad_enabled()
        if self._on_forward is not None:
            self._on_forward(module, args, kwargs)
        self._loop.forward_begins(not module.training, fed(args, kwargs) if learns else None, learns)

    def _forward_ends(self, error: BaseException | None) -> None:
        if error is None:
            self._loop.ends()
            return
        self._on_error(error)
        self._loop.failed()

    def _transfer_begins(self, tensor: Any, *args: Any, **kwargs: Any) -> bool:
        moves = tensor.device.type == "cpu" and leads_elsewhere(args, kwargs)
        if moves:
            self._loop.transfer_begins()
        return moves

    def _transfer_ends(self, moves: Any, result: Any, error: BaseException | None) -> None:
        if moves:
            self._loop.ends()


def _rates(optimizer: Any) -> list[Any]:
    return [group.get("lr") for group in optimizer.param_groups]


def _is_on_stack(code: Any) -> bool:
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None
