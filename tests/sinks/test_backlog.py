"""The queue before a backend: never full, and what is precious is the last to go."""

from stepscope.records import Eval, Event, Gpu, Record, Step
from stepscope.sinks.backlog import Backlog
from stepscope.sinks.worth import Worth


def backlog(limit: int) -> Backlog:
    return Backlog(limit, Worth().precious)


def drained(queue: Backlog) -> list[Record]:
    """Everything that waits."""
    return list(iter(queue.take, None))


def test_records_come_out_in_order() -> None:
    """The first in is the first out, and an empty queue says so."""
    queue = backlog(10)
    for step in range(5):
        queue.put(Step(step=step))
    assert [record.step for record in drained(queue)] == [0, 1, 2, 3, 4]
    assert queue.take() is None
    assert queue.dropped == 0


def test_a_full_queue_keeps_every_second_step() -> None:
    """So the course of the run stays visible from its begin to its end."""
    queue = backlog(100)
    for step in range(101):
        queue.put(Step(step=step))
    assert [record.step for record in drained(queue)] == [*range(0, 100, 2), 100]
    assert queue.dropped == 50


def test_the_records_of_a_step_go_together() -> None:
    """A GPU's numbers without those of its step would be of little use."""
    queue = backlog(100)
    for step in range(51):
        queue.put(Gpu(step=step, id=0))
        queue.put(Step(step=step))
    kept = drained(queue)
    assert [r.step for r in kept if isinstance(r, Gpu)] == [r.step for r in kept if isinstance(r, Step)]


def test_the_precious_stays() -> None:
    """Evaluations and steps that are not finite outlive a flood of ordinary ones."""
    queue = backlog(100)
    for step in range(5000):
        queue.put(Eval(step=step) if step % 500 == 0 else Step(step=step, loss=float("nan") if step == 777 else 1.0))
    kept = drained(queue)
    assert [r.step for r in kept if isinstance(r, Eval)] == list(range(0, 5000, 500))
    assert 777 in [r.step for r in kept if isinstance(r, Step)]
    assert len(kept) <= 100
    assert queue.dropped == 5000 - len(kept)


def test_a_step_that_an_event_is_about_stays() -> None:
    """The event came after it."""
    queue = backlog(100)
    for step in range(50):
        queue.put(Step(step=step))
    queue.put(Event(step=33, rule="data"))
    for step in range(50, 2000):
        queue.put(Step(step=step))
    kept = drained(queue)
    assert 33 in [r.step for r in kept if isinstance(r, Step)]
    assert len(kept) <= 100


def test_too_much_of_the_precious_loses_the_oldest() -> None:
    """The queue never grows beyond its limit."""
    queue = backlog(10)
    for step in range(25):
        queue.put(Eval(step=step))
    assert [record.step for record in drained(queue)] == list(range(15, 25))
    assert queue.dropped == 15


def test_a_shut_queue_counts_what_comes() -> None:
    """And holds nothing."""
    queue = backlog(10)
    queue.put(Step(step=1))
    queue.shut()
    queue.put(Step(step=2))
    assert queue.take() is None
    assert queue.dropped == 2
