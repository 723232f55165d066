"""The records of a step: what is known of it at once, and what still lies on a device.

    told = ToldStep(timed, number=7, share=0.002, reached={"sol": 41.2})
    run.enter(told.record, told.late, told.complete)

Losses of one kind add up over the batches of a step; of several kinds the first is the step's loss, and all of them
stand in a record of their own.
"""

import math
from typing import Any

from ..records import Metrics, Step
from ..speed.moments import StepTimes
from ..speed.timeline import Timed


class ToldStep:
    """A step as records."""

    def __init__(self, timed: Timed, number: int, share: float | None, reached: dict[str, Any]):
        step: StepTimes = timed.what
        self._losses = list(step.losses.values())
        self.late = _on_device(self._losses)  # tensors by name: loss/0/1 is the second part of the first loss
        lr, skipped = step.lrs[0] if step.lrs else None, step.skipped
        if is_on_device(lr):
            self.late["lr"], lr = lr, None
        if is_on_device(skipped):
            self.late["skipped"], skipped = skipped, None
        self.record = Step(
            time=timed.time,
            step=number,
            epoch=step.epoch,
            step_tokens=step.tokens or None,
            duration_ms=round(timed.took_ms, 4),
            loss=self._loss(0, {}),
            lr=None if lr is None else float(lr),
            share=share,
            samples=step.seen,
            skipped=True if skipped is True else None,
            **reached,
        )

    @property
    def metrics(self) -> Metrics | None:
        """All losses, where there are several; those on a device are still to come."""
        if len(self._losses) < 2:
            return None
        values = {f"loss/{n}": value for n in range(len(self._losses)) if (value := self._loss(n, {})) is not None}
        return Metrics(time=self.record.time, step=self.record.step, values=values)

    def _loss(self, at: int, found: dict[str, Any]) -> float | None:
        """The sum of a loss's parts, None where one is not known."""
        if at >= len(self._losses):
            return None
        parts = [found.get(f"loss/{at}/{n}") if is_on_device(v) else v for n, v in enumerate(self._losses[at])]
        known = [part for part in parts if part is not None]
        return math.fsum(known) if len(known) == len(parts) else None

    def complete(self, found: dict[str, Any]) -> dict[str, Any]:
        """The step's fields that the device's numbers make."""
        known: dict[str, Any] = {"loss": self._loss(0, found)}
        if "lr" in found:
            known["lr"] = found["lr"]
        return known | {"skipped": True} if found.get("skipped") else known

    def complete_metrics(self, found: dict[str, Any]) -> dict[str, Any]:
        """The same for the record of all losses."""
        losses = {f"loss/{n}": self._loss(n, found) for n in range(len(self._losses))}
        return {"values": {name: value for name, value in losses.items() if value is not None}}


def _on_device(losses: list[list[Any]]) -> dict[str, Any]:
    return {
        f"loss/{at}/{n}": value
        for at, values in enumerate(losses)
        for n, value in enumerate(values)
        if is_on_device(value)
    }


def is_on_device(value: Any) -> bool:
    """Whether a number is a tensor on a GPU."""
    return type(value) is not float and getattr(value, "is_cuda", False)
