"""What the hardware could do for this model at best: counted once, from the first forward pass that learns.

estimate = Estimate(peaks=None, note=print)
estimate.see(module, args, kwargs)       # shapes are kept, no tensor is
estimate.make()                          # a SpeedOfLight record, once; None otherwise
estimate.of(tokens=2048, samples=8, took_ms=12.0)    # {'sol': 41.2, 'mfu': 39.0, 'hfu': 39.0}
"""

from collections.abc import Callable
from typing import Any

import torch

from ..records import SpeedOfLight
from ..speed import flops, shapes, speed_of_light

Note = Callable[[str, str], Any]


class Estimate:
    """The speed of light of one training."""

    def __init__(self, peaks: Any, note: Note, wanted: bool = True):
        self._given, self._note = peaks, note
        self._wanted, self._several = wanted, False
        self._seen: tuple[Any, Any, Any, flops.Autocast] | None = None
        self.record: SpeedOfLight | None = None
        self._factors: dict[str, float] = {}

    @property
    def is_due(self) -> bool:
        """Whether there is something to count."""
        return self._seen is not None

    def see(self, module: Any, args: Any, kwargs: Any) -> None:
        """Keep the shapes of a forward pass."""
        if not self._wanted or not torch.is_grad_enabled():
            return
        if self._seen is None:
            self._seen = (module, *shapes.keep((args, kwargs)), flops.autocast_now())
        elif self._seen[0] is not module:
            self._several = True

    def make(self) -> SpeedOfLight | None:
        """Count the operations, now that nobody waits for a result; None where it is done, or cannot be done."""
        if self._seen is None:
            return None
        (module, args, kwargs, autocast), self._seen, self._wanted = self._seen, None, False
        try:
            if self._several:
                raise flops.FlopsUnknown("a step calls several models, which are not counted together")
            self.record = self._estimated(module, flops.of_step(module, args, kwargs, autocast))
            self._factors = self._factored(self.record)
        except flops.FlopsUnknown as unknown:
            self._note("flops-unknown", f"the speed of light is not known: {unknown}")
        return self.record

    def _estimated(self, module: Any, counted: Any) -> SpeedOfLight:
        from .peaks import peaks_here

        device = next((p.device for p in module.parameters()), torch.device("cpu"))
        name, peaks = peaks_here(device, self._given, self._note)
        return speed_of_light.estimate(counted, peaks, name)  # a rank sees its own batch and its own GPU

    def of(self, tokens: int | None, samples: int | None, took_ms: float) -> dict[str, Any]:
        """What a step reached of it."""
        if self.record is None or not took_ms > 0:
            return {}
        units = tokens if self.record.per == "token" else samples
        if not units:
            return {}
        return {name: round(units * factor / took_ms, 4) for name, factor in self._factors.items()}

    def _factored(self, record: SpeedOfLight) -> dict[str, float]:
        """Each percentage of one token or sample that takes a millisecond: all of them go with units by time."""
        found = {
            "sol": speed_of_light.percent(record, 1, 1.0),
            "mfu": speed_of_light.mfu(record, 1, 1.0),
            "hfu": speed_of_light.hfu(record, 1, 1.0),
        }
        return {name: value for name, value in found.items() if value is not None}
