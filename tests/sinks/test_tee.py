"""Several sinks as one."""

import pytest

from stepscope.records import Record, Step
from stepscope.sinks.memory import Memory
from stepscope.sinks.tee import Tee


class Broken(Memory):
    """Raises at everything."""

    def write(self, record: Record) -> None:
        raise OSError("broken")

    def close(self) -> None:
        raise OSError("broken")


def test_each_sink_gets_every_record() -> None:
    """And is closed."""
    first, second = Memory(), Memory()
    tee = Tee(first, second)
    tee.write(Step(step=1))
    tee.close()
    assert first.records == second.records == [Step(step=1)]
    assert (first.closed, second.closed) == (True, True)


def test_one_that_raises_does_not_stop_the_others() -> None:
    """What it raised is raised when they have had theirs."""
    last = Memory()
    tee = Tee(Broken(), last)
    with pytest.raises(OSError, match="broken"):
        tee.write(Step(step=1))
    with pytest.raises(OSError, match="broken"):
        tee.close()
    assert last.records == [Step(step=1)]
    assert last.closed


def test_several_that_raise_are_all_told() -> None:
    """As a group."""
    with pytest.raises(ExceptionGroup) as raised:
        Tee(Broken(), Broken()).write(Step(step=1))
    assert len(raised.value.exceptions) == 2
