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
        self.theirs_from = self._seen  # from that step on the program logs its steps itself

    def next(self) -> int:
        """The number of the step that is just over."""
        newest = self._run.newest_step
        if newest is not None and newest != self._seen:
            self._seen = self.number = newest
            self.theirs_from = newest if self.theirs_from is None else self.theirs_from
        else:
            self.number += 1
        return self.number
