"""Numbers that come late keep their order, and nobody waits for them.

The device is scripted here: what the queue does with a real one stands in `tests/gpu`.
"""

import threading
import time
from typing import Any

import torch

from stepscope.scalars import DeviceQueue


class Event:
    """An event that passes when it is told to."""

    def __init__(self) -> None:
        self.passed = False

    def query(self) -> bool:
        return self.passed


def queue_of(count: int) -> tuple[DeviceQueue, list[Event], list[dict[str, Any]]]:
    """A queue in which `count` records wait, each with its number."""
    queue, events, done = DeviceQueue(), [Event() for _ in range(count)], []
    for number, event in enumerate(events):
        queue.waiting.append(([event], {"loss": torch.tensor(float(number))}, done.append))
    return queue, events, done


def test_records_come_in_order_although_a_later_one_is_ready() -> None:
    """The first one holds up the others."""
    queue, events, done = queue_of(3)
    events[1].passed = True
    queue.poll()
    assert done == []
    events[0].passed = True
    queue.poll()
    assert done == [{"loss": 0.0}, {"loss": 1.0}]


def test_a_record_that_logs_while_it_is_delivered_does_not_recurse() -> None:
    """A callback may poll again."""
    queue, events, done = queue_of(2)
    for event in events:
        event.passed = True
    entry = queue.waiting.popleft()
    queue.waiting.appendleft((*entry[:2], lambda values: (queue.poll(), done.append(values))))
    queue.poll()
    assert done == [{"loss": 0.0}, {"loss": 1.0}]


def test_a_thread_finishes_what_no_further_record_asks_for() -> None:
    """A moment later."""
    queue, events, done = queue_of(1)
    threading.Thread(target=queue._watch, daemon=True).start()
    queue._wake.set()
    events[0].passed = True
    deadline = time.monotonic() + 5
    while not done and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done == [{"loss": 0.0}]


def test_what_the_device_never_finishes_comes_without_its_number() -> None:
    """After the deadline, and in order."""
    queue, events, done = queue_of(3)
    events[0].passed = True
    assert queue.drain(0.05) == 2
    assert done == [{"loss": 0.0}, {}, {}]


def test_a_device_that_is_lost_takes_only_its_numbers_along() -> None:
    """After an error every call on the device raises it; the records come without their numbers."""
    queue, events, done = queue_of(2)
    events[0].query = lambda: 1 / 0  # type: ignore[method-assign, assignment]
    events[1].passed = True
    queue.poll()
    assert done == [{}, {"loss": 1.0}]


def test_the_last_look_waits_for_the_thread_that_has_a_record_in_its_hand() -> None:
    """Nothing is dropped between the queue and the file."""
    queue, events, done = queue_of(1)
    events[0].passed = True
    entry = queue.waiting.popleft()
    queue.waiting.append((*entry[:2], lambda values: (time.sleep(0.3), done.append(values))))
    thread = threading.Thread(target=queue.poll)
    thread.start()
    while queue.waiting:
        time.sleep(0.001)
    assert queue.drain(2.0) == 0
    assert done == [{"loss": 0.0}]
    thread.join()
