"""What a rule says of a run: how bad it is, on which evidence, what mending it would save, and how.

    verdict = Verdict("transfer", "warning", 0.24, "moving a batch …", gain=0.22, advice=("Use `pin_memory=True` …",))
    verdict.saving                 # 'fixing this would save about 22 % of a step'
    ranked([verdict, other])       # the gravest first, and of the same gravity what costs most

A verdict's rule is its name for good: events, screens and scripts know it by that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LEVELS = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One finding."""

    rule: str
    level: str
    severity: float  # 0-1
    message: str
    gain: float | None = None  # share of the time that mending it would save; None where nobody can say
    advice: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    of: str = "a step"  # whose time the gain is a share of
    how: str = "fixing this"  # what would save it

    @property
    def saving(self) -> str:
        """The gain in words; "" where it is not known."""
        if self.gain is None or self.gain < 0.005:
            return ""
        return f"{self.how} would save about {self.gain * 100:.0f} % of {self.of}"

    @property
    def text(self) -> str:
        """The finding and what mending it would save."""
        return f"{self.message}; {self.saving}" if self.saving else self.message

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what is known, the saving in words beside its number."""
        known = {
            "rule": self.rule,
            "level": self.level,
            "severity": round(self.severity, 4),
            "message": self.message,
            "gain": None if self.gain is None else round(self.gain, 4),
            "saving": self.saving or None,
            "advice": list(self.advice),
            "evidence": self.evidence,
        }
        return {name: value for name, value in known.items() if value is not None}


def ranked(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The gravest first; of the same gravity what saves most, then the most severe."""
    return sorted(verdicts, key=lambda v: (LEVELS.index(v.level), -(v.gain or 0.0), -v.severity, v.rule))


def share(value: float) -> float:
    """A number kept within 0 and 1."""
    return min(1.0, max(0.0, value))
