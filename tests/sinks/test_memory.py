"""Records in a list."""

from stepscope.records import Eval, Step
from stepscope.sinks.memory import Memory


def test_records_are_kept_in_order_and_found_by_kind() -> None:
    """Also after the end."""
    memory = Memory()
    for record in (Step(step=1), Eval(step=1), Step(step=2)):
        memory.write(record)
    memory.close()
    assert [record.kind for record in memory.records] == ["step", "eval", "step"]
    assert [record.step for record in memory.of("step")] == [1, 2]
    assert memory.closed
