"""Which number a step has: the program's own where it logs its steps, else one more than the last.

numbering = Numbering(run)
numbering.next()       # asked once for each step, after the program had its chance to log it
"""

from ..run import TrainingRunLogger


class Numbering:
    """Counts steps along with the program."""

    def __init__(self, run: TrainingRunLogger, late: bool = False):
        """`late` where the first step is over already, and its number may be the newest."""
        self._run = run
        self._seen: int | None = None if late else run.newest_step
        self.number = self._seen if self._seen is not None else run.past_step
        self._theirs_from = self._seen

    def is_theirs(self, number: int) -> bool:
        """Whether the program logs this step itself, as it does from its first one on."""
        return self._theirs_from is not None and number >= self._theirs_from

    def next(self) -> int:
        """The number of the step that is just over."""
        newest = self._run.newest_step
        if newest is not None and newest != self._seen:
            self._seen = self.number = newest
            self._theirs_from = newest if self._theirs_from is None else self._theirs_from
        else:
            self.number += 1
        return self.number
