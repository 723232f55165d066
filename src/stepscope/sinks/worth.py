"""Which records may be left out when a backend cannot take them all, and which may not.

    worth = Worth()
    worth.precious(Eval(step=5, loss=2.1))               # True
    worth.precious(Step(step=5, loss=2.1))               # False: one of many
    worth.precious(Step(step=6, loss=float("nan")))      # True: that is what people look for

Ordinary are the numbers that come with every step. A step is precious when one of its numbers is not finite, or
when its gradient norm stands out.
"""

from math import isfinite

from ..records import Metrics, Other, Record, Step
from .spike import NormAverage

KEPT = {"run", "eval", "event", "rewind", "message", "end", "dataset", "gpu-model", "allocator", "sol", "epoch", "oom"}


class Worth:
    """Tells precious records from ordinary ones; it must see every record, in order."""

    def __init__(self) -> None:
        self._norms = NormAverage()

    def precious(self, record: Record | Other) -> bool:
        """Whether `record` may not be left out."""
        if record.kind in KEPT:
            return True
        stands_out = isinstance(record, Step) and record.norm is not None and self._norms.flags(record.norm)
        return stands_out or not _is_finite(record)


def _is_finite(record: Record | Other) -> bool:
    if isinstance(record, Metrics):
        return all(isfinite(value) for value in record.values.values())
    values = [getattr(record, field) for field in record.__struct_fields__]
    return all(isfinite(value) for value in values if type(value) is float)
