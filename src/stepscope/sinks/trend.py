"""Which way the loss goes, and how far an evaluation lies from the training since the last one.

trend = LossTrend()
trend.sign(2.4), trend.sign(2.3)      # ' ', '\\\\'
"""

from math import isfinite


class LossTrend:
    """A short moving average against a long one: less nervous than two neighbouring steps."""

    def __init__(self, short: float = 0.3, long: float = 0.1):
        self._short, self._long = short, long
        self._fast: float | None = None
        self._slow = 0.0

    def sign(self, loss: float | None) -> str:
        """`\\` when the loss falls, `/` when it rises, a blank when neither is known."""
        if loss is None or not isfinite(loss):
            return " "
        if self._fast is None:
            self._fast = self._slow = loss
            return " "
        self._fast += self._short * (loss - self._fast)
        self._slow += self._long * (loss - self._slow)
        return "\\" if self._fast < self._slow else "/" if self._fast > self._slow else " "


class EvalGap:
    """The mean training loss since the last evaluation; what is not finite does not enter."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def train(self, loss: float | None) -> None:
        """Take in the loss of a step."""
        if loss is not None and isfinite(loss):
            self._sum += loss
            self._count += 1

    def of(self, loss: float | None) -> float | None:
        """How far `loss` lies above the training loss; begins anew."""
        mean = self._sum / self._count if self._count else None
        self._sum, self._count = 0.0, 0
        return loss - mean if loss is not None and mean is not None else None
