"""Numbers as they come from a training loop: Python's, numpy's, torch's; those on a device are read late.

    real(np.float32(2.5), "loss")            # 2.5
    real(cpu_tensor, "loss")                 # read at once
    queue = DeviceQueue()
    queue.put({"loss": cuda_tensor}, finish=lambda values: print(values["loss"]))   # never waits for the GPU

A device scalar is copied to pinned memory on the current stream, without blocking, and read when its event has
passed: when the next record comes, or by a thread a moment later. torch is only looked at once it is loaded.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

from .codec import whole
from .errors import BadType, BadValue, show

POLL_S = 0.05
BLOCK = 512


def real(value: Any, name: str) -> Any:
    """`value` as a float or an int; a tensor on a CUDA device is given back as it is, to be read later."""
    kind = type(value)
    if kind is float:
        return value
    if kind is int:
        return whole(value)
    if kind is bool or isinstance(value, (str, bytes, dict)):
        raise _not_a_number(value, name)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor(torch, value, name)
    if isinstance(value, Integral):
        return whole(int(value))
    if isinstance(value, Real):
        return float(value)
    if getattr(value, "size", None) == 1 and hasattr(value, "item"):
        return real(value.item(), name)
    raise _not_a_number(value, name)


def integer(value: Any, name: str) -> Any:
    """`value` as an int; a float must be a whole number."""
    if type(value) is int:
        return whole(value)
    number = real(value, name)
    if is_tensor(number) or isinstance(number, int):
        return number
    if not number.is_integer():
        raise BadValue(f"{name} counts something: it must be a whole number, not {show(value)}")
    return int(number)


def is_tensor(value: Any) -> bool:
    """Whether `value` is a number that still lies on a device."""
    return type(value) is not float and not isinstance(value, (float, int, str, bool, list, tuple, dict))


def _tensor(torch: Any, value: Any, name: str) -> Any:
    if value.is_cuda and type(value) is torch.Tensor and value.dim() == 0 and value.is_floating_point():
        return value.detach() if value.requires_grad else value  # a microsecond counts here
    if value.numel() != 1 or value.is_complex() or value.dtype is torch.bool:
        shape = tuple(value.shape)
        raise BadType(
            f"{name} must be one real number, not a tensor of shape {shape} and {value.dtype}: reduce it first"
        )
    if type(value) is not torch.Tensor and hasattr(value, "full_tensor"):
        raise BadType(f"{name} is a DTensor, whose local part is not the value: log {name}.full_tensor()")
    if value.is_meta:
        raise BadType(f"{name} is a meta tensor: it has no value")
    value = value.detach()
    return value.reshape(()) if value.is_cuda else real(value.item(), name)


def _not_a_number(value: Any, name: str) -> BadType:
    if isinstance(value, (str, bytes)):
        return BadType(f"{name} must be a number, not the text {show(value)}; text goes through message() or config")
    return BadType(f"{name} must be a number, not {show(value)} ({type(value).__name__})")


class DeviceQueue:
    """Records that wait for their numbers, in order."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[list[Any], dict[str, Any], Callable[[dict[str, Any]], None]]] = deque()
        self._turn = threading.Lock()  # one thread at a time delivers, so that the order holds
        self._wake = threading.Event()
        self._slots: dict[Any, list[Any]] = {}  # pinned scalars that are free, by dtype
        self._events: dict[Any, list[Any]] = {}  # events that have passed, by device
        self._thread: threading.Thread | None = None
        self.owner = 0  # the thread that is delivering now

    def put(self, tensors: dict[str, Any], finish: Callable[[dict[str, Any]], None]) -> None:
        """Copy the tensors without blocking; `finish` gets their numbers when the device has made them."""
        torch = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            raise BadType("cannot log a device number inside the capture of a CUDA graph: log it after the replay")
        slots = {name: self._slot(torch, tensor.dtype) for name, tensor in tensors.items()}
        # on the current stream: what it does to the tensors later comes after the copy
        torch._foreach_copy_([*slots.values()], [*tensors.values()], non_blocking=True)
        events = [self._record(torch, device) for device in {tensor.device for tensor in tensors.values()}]
        self.waiting.append((events, slots, finish))
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="stepscope-device", daemon=True)
            with suppress(RuntimeError):  # none can be started at the end of the interpreter: `drain` is left
                self._thread.start()
        self._wake.set()

    def _slot(self, torch: Any, dtype: Any) -> Any:
        """A pinned scalar; they are allocated by the hundred, since that may wait for the device."""
        free = self._slots.setdefault(dtype, [])
        if not free:
            with torch.inference_mode(False):  # what is made inside that mode can be written to nowhere else
                free += torch.empty(BLOCK, dtype=dtype, device="cpu", pin_memory=True).unbind()
        return free.pop()

    def _record(self, torch: Any, device: Any) -> Any:
        free = self._events.get(device)
        event = free.pop() if free else torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))
        return event

    def poll(self) -> None:
        """Finish what the device has finished, unless another thread is at it."""
        if self.waiting and self._turn.acquire(blocking=False):
            self.owner = threading.get_ident()
            try:
                self._deliver()
            finally:
                self.owner = 0
                self._turn.release()

    def _deliver(self) -> None:
        while self.waiting and (passed := _passed(self.waiting[0][0])) is not None:
            events, slots, finish = self.waiting.popleft()
            if not passed:  # the device is lost, and its numbers with it
                finish({})
                continue
            values = {name: slot.item() for name, slot in slots.items()}
            for slot in slots.values():
                self._slots.setdefault(slot.dtype, []).append(slot)
            if len(events) == 1:
                self._events.setdefault(getattr(events[0], "device", None), []).append(events[0])
            finish(values)

    def _watch(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self.waiting:
                self.poll()
                time.sleep(POLL_S)

    def drain(self, deadline: float) -> int:
        """Wait for the device within the deadline; what it did not finish is finished without its numbers."""
        end = time.monotonic() + deadline
        while self.waiting and time.monotonic() < end:
            self.poll()
            time.sleep(0.001)
        if not self._turn.acquire(timeout=deadline):  # another thread may hold the last one in its hand
            return len(self.waiting)
        try:
            self._deliver()
            late = len(self.waiting)
            while self.waiting:
                self.waiting.popleft()[2]({})
            return late
        finally:
            self._turn.release()


def _passed(events: list[Any]) -> bool | None:
    """Whether the device is behind all events: None when not yet, False when it never will be."""
    try:
        return True if all(event.query() for event in events) else None
    except Exception:  # noqa: BLE001 - after an error on the device, every call raises it
        return False
