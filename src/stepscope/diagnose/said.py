"""Says a verdict once when it begins and once when it ends, as events.

    said = Said()
    for event in said.update(verdicts(case)):
        run.write(event)

A verdict begins when two looks in a row find it and ends when three in a row do not, so that one at its limit does
not flicker. `close()` says nothing more: what stands at the end is the doctor's.
"""

from collections.abc import Sequence
from typing import Any

from ..records import Event
from .verdict import LEVELS, Verdict

BEGIN, END = 2, 3


class _State:
    """One rule's past."""

    __slots__ = ("absent", "present", "said", "verdict")

    def __init__(self, verdict: Verdict):
        self.verdict = verdict
        self.present = self.absent = 0
        self.said = False


class Said:
    """What has been said of a run."""

    def __init__(self, begin: int = BEGIN, end: int = END):
        self._begin, self._end = begin, end
        self._states: dict[str, _State] = {}

    @property
    def standing(self) -> list[Verdict]:
        """The verdicts that were said and have not ended."""
        return [state.verdict for state in self._states.values() if state.said]

    def update(self, verdicts: Sequence[Verdict], step: int = 0) -> list[Event]:
        """The events of a look: of what begins now, and of what has ended."""
        now = {verdict.rule: verdict for verdict in reversed(verdicts)}  # of one rule the gravest, which comes first
        begun = [event for verdict in reversed(now.values()) if (event := self._present(verdict, step))]
        ended = [event for rule in list(self._states) if rule not in now and (event := self._absent(rule, step))]
        return begun + ended

    def _present(self, verdict: Verdict, step: int) -> Event | None:
        state = self._states.setdefault(verdict.rule, _State(verdict))
        if LEVELS.index(verdict.level) < LEVELS.index(state.verdict.level):
            state.present = 0  # graver than before: that too must be seen twice
        state.verdict = verdict
        state.present, state.absent = state.present + 1, 0
        if state.said or state.present < self._begin:
            return None
        state.said = True
        return began(verdict, step)

    def _absent(self, rule: str, step: int) -> Event | None:
        state = self._states[rule]
        state.present, state.absent = 0, state.absent + 1
        if state.said and state.absent < self._end:
            return None
        del self._states[rule]
        return ended(state.verdict, step) if state.said else None


def began(verdict: Verdict, step: int = 0) -> Event:
    """The event of a verdict that begins."""
    return Event(
        step=step,
        severity=verdict.level,
        rule=verdict.rule,
        message=verdict.text,
        advice="; ".join(verdict.advice) or None,
        evidence=_evidence(verdict) | {"state": "began"},
    )


def ended(verdict: Verdict, step: int = 0) -> Event:
    """The event of one that ends."""
    return Event(
        step=step,
        severity="info",
        rule=verdict.rule,
        message=f"over: {verdict.message}",
        evidence=_evidence(verdict) | {"state": "ended"},
    )


def _evidence(verdict: Verdict) -> dict[str, Any]:
    gain = {} if verdict.gain is None else {"gain": round(verdict.gain, 4)}
    return {"severity": round(verdict.severity, 4), **gain, **verdict.evidence}
