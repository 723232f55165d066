"""What the hardware could do for this model at best: counted once, from the first forward pass that learns.

estimate = Estimate(peaks=None, on_trouble=run.trouble)
estimate.see(module, args, kwargs)       # shapes are kept, no tensor is
estimate.make()                          # a SpeedOfLight record, once; None otherwise
estimate.of(units=2048, took_ms=12.0)    # {'sol': 41.2, 'mfu': 39.0}
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..records import SpeedOfLight
from ..speed import flops, speed_of_light

OnTrouble = Callable[..., Any]


class Estimate:
    """The speed of light of one training."""

    def __init__(self, peaks: Any, on_trouble: OnTrouble, wanted: bool = True):
        self._given, self._on_trouble = peaks, on_trouble
        self.wants = wanted
        self._seen: tuple[Any, Any, Any, flops.Autocast] | None = None
        self.record: SpeedOfLight | None = None

    def see(self, module: Any, args: Any, kwargs: Any) -> None:
        """Keep the shapes of a forward pass."""
        if self.wants and torch.is_grad_enabled():
            self.wants = False
            self._seen = (module, *_shapes((args, kwargs)), flops.autocast_now())

    def make(self) -> SpeedOfLight | None:
        """Count the operations, now that nobody waits for a result; None where it is done, or cannot be done."""
        if self._seen is None:
            return None
        (module, args, kwargs, autocast), self._seen = self._seen, None
        try:
            counted = flops.of_step(module, args, kwargs, autocast)
        except flops.FlopsUnknown as unknown:
            self._on_trouble("flops-unknown", f"the speed of light is not known: {unknown}")
            return None
        self.record = self._estimated(module, counted)
        return self.record

    def _estimated(self, module: Any, counted: Any) -> SpeedOfLight:
        from .peaks import peaks_here

        device = next((p.device for p in module.parameters()), torch.device("cpu"))
        name, peaks = peaks_here(device, self._given, self._on_trouble)
        return speed_of_light.estimate(counted, peaks, name, _gpus())

    def of(self, units: int | None, took_ms: float) -> dict[str, Any]:
        """What a step reached of it."""
        record = self.record
        if record is None or not units or not took_ms > 0:
            return {}
        found = {
            "sol": speed_of_light.percent(record, units, took_ms),
            "mfu": speed_of_light.mfu(record, units, took_ms),
            "hfu": speed_of_light.hfu(record, units, took_ms),
        }
        return {name: round(value, 4) for name, value in found.items() if value is not None}


def _shapes(data: Any) -> Any:
    """The same with tensors that have no storage."""
    if isinstance(data, torch.Tensor):
        return torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device="meta")
    if isinstance(data, Mapping):
        return {key: _shapes(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        items = [_shapes(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    return data


def _gpus() -> int:
    """How many ranks share the work of a step that this rank sees: each has its own batch, so one."""
    return 1
