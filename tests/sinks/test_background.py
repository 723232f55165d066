"""A backend behind a thread: training does not notice what it does, and is told what it did not do."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from stepscope.errors import StepscopeError
from stepscope.records import Eval, Record, Step
from stepscope.sinks.background import Background, close_all
from stepscope.sinks.memory import Memory

Trouble = tuple[str, str, str]


class Failing(Memory):
    """Raises at its first writes, at all of them, or at what it cannot take."""

    def __init__(self, times: float = 0, refuses: Callable[[Any], bool] = lambda _: False):
        super().__init__()
        self.left, self.refuses, self.tried = times, refuses, 0

    def write(self, record: Record) -> None:
        self.tried += 1
        self.left -= 1
        if self.left >= 0 or self.refuses(record):
            raise ConnectionError("no route to host")
        super().write(record)


class Stuck(Memory):
    """Hangs in its second write until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.let_go = threading.Event(), threading.Event()

    def write(self, record: Record) -> None:
        super().write(record)
        if len(self.records) == 2:
            self.reached.set()
            self.let_go.wait(60)


def background(sink: Any, said: list[Trouble] | None = None, **options: Any) -> Background:
    """A background without pauses."""
    options = {"backoff_s": (0.0, 0.0), "poll_s": 0.001, **options}
    note = said.append if said is not None else lambda trouble: pytest.fail(str(trouble))
    return Background(lambda: sink, "far", lambda *trouble: note(trouble), **options)


def wait_for(condition: Callable[[], Any]) -> None:
    """Until it holds; for at most ten seconds."""
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    assert condition()


def test_everything_arrives_in_order() -> None:
    """In the thread of the backend, which is closed at the end."""
    sink = Memory()
    backend = background(sink)
    for step in range(1000):
        backend.write(Step(step=step))
    assert backend.close(10) == 0
    assert [record.step for record in sink.records] == list(range(1000))
    assert sink.closed
    assert backend.state == "closed"


def test_the_backend_is_made_in_its_thread() -> None:
    """So that its import and its server keep nobody waiting."""
    threads: list[str] = []

    def make() -> Memory:
        threads.append(threading.current_thread().name)
        return Memory()

    ready: list[Any] = []
    Background(make, "far", lambda *_: None, on_ready=ready.append).close(10)
    assert threads == ["stepscope-far"]
    assert ready == [None]


def test_one_that_hangs_holds_neither_training_nor_the_end() -> None:
    """What did not arrive is counted and said, and it is told to let go."""
    sink, said, abandoned = Stuck(), [], threading.Event()
    backend = background(sink, said, abandon=abandoned.set)
    for step in range(10):
        backend.write(Step(step=step))
    assert sink.reached.wait(10)
    begin = time.monotonic()
    assert backend.close(0.05) == 9
    assert time.monotonic() - begin < 5
    assert abandoned.is_set()
    assert [rule for rule, _, _ in said] == ["far-abandoned", "far-lost"]
    assert "without 9 records" in said[1][1]
    assert "stepscope sync FILE --to far" in said[1][2]
    sink.let_go.set()


def test_writes_to_one_that_hangs_do_not_wait() -> None:
    """And the queue before it does not grow without end."""
    sink, said = Stuck(), []
    backend = background(sink, said, limit=100)
    backend.write(Step(step=0))
    backend.write(Step(step=1))
    assert sink.reached.wait(10)
    begin = time.monotonic()
    for step in range(20_000):
        backend.write(Step(step=step))
    assert time.monotonic() - begin < 5
    assert backend.lost >= 19_900
    sink.let_go.set()
    backend.close(10)


def test_one_failure_is_tried_again() -> None:
    """Without a word: the record is there."""
    sink = Failing(times=2)
    backend = background(sink)
    backend.write(Step(step=1))
    assert backend.close(10) == 0
    assert [record.step for record in sink.records] == [1]


def test_one_that_always_fails_is_given_up() -> None:
    """After two records that it did not take; said once, with where the records are."""
    said: list[Trouble] = []
    sink = Failing(times=float("inf"))
    backend = background(sink, said)
    for step in range(3):
        backend.write(Step(step=step))
    wait_for(lambda: backend.state == "parked")
    wait_for(lambda: len(said) == 2)
    assert sink.tried == 6
    backend.write(Eval(step=4))
    assert backend.close(10) == 4
    assert {rule for rule, _, _ in said} == {"far-refused", "far-parked", "far-lost"}
    assert sink.closed
    (parked,) = [trouble for trouble in said if trouble[0] == "far-parked"]
    assert "ConnectionError: no route to host" in parked[1]
    assert "stepscope sync" in parked[2]


def test_a_record_that_it_cannot_take_is_left_out() -> None:
    """The others arrive."""
    said: list[Trouble] = []
    sink = Failing(refuses=lambda record: record.step == 3)
    backend = background(sink, said)
    for step in range(6):
        backend.write(Step(step=step))
    wait_for(lambda: len(sink.records) == 5)
    assert backend.close(10) == 1
    assert [record.step for record in sink.records] == [0, 1, 2, 4, 5]
    assert {rule for rule, _, _ in said} == {"far-refused", "far-lost"}


@pytest.mark.parametrize("error", [StepscopeError("no API key"), SystemExit(3)])
def test_one_that_cannot_be_made_is_given_up(error: BaseException) -> None:
    """At once where trying again is of no use."""
    said: list[Trouble] = []
    tries: list[int] = []

    def make() -> Memory:
        tries.append(1)
        raise error

    backend = Background(make, "far", lambda *trouble: said.append(trouble), backoff_s=(0.0, 0.0), poll_s=0.001)
    wait_for(lambda: backend.state == "parked")
    assert len(tries) == (1 if isinstance(error, StepscopeError) else 3)
    backend.write(Step(step=1))
    assert backend.close(10) == 1
    assert said[0][1] == f"far is given up for this run: {'no API key' if len(tries) == 1 else 'SystemExit: 3'}"


def test_an_end_that_fails_is_said() -> None:
    """The backend may lack its last records, and nobody knows how many."""

    class Endless(Memory):
        def close(self) -> None:
            raise TimeoutError("upload")

    said: list[Trouble] = []
    backend = background(Endless(), said)
    backend.write(Step(step=1))
    assert backend.close(10) == 0
    ((rule, message, _),) = said
    assert rule == "far-unfinished"
    assert message.endswith("TimeoutError: upload")


def test_what_is_held_is_sent_when_nothing_more_comes() -> None:
    """A run that pauses is up to date."""

    class Holding(Memory):
        flushed = threading.Event()

        def flush(self) -> None:
            self.flushed.set()

    sink = Holding()
    backend = background(sink)
    backend.write(Step(step=1))
    assert sink.flushed.wait(10)
    backend.close(10)


def test_whoever_is_told_may_raise_or_wait() -> None:
    """Neither the backend nor the close is stopped by it."""
    told, gone = threading.Event(), threading.Event()

    def on_trouble(*_: str) -> None:
        told.set()
        gone.wait(10)
        raise RuntimeError("not now")

    sink = Failing(refuses=lambda record: record.step == 0)
    backend = Background(lambda: sink, "far", on_trouble, backoff_s=(), poll_s=0.001)
    backend.write(Step(step=0))
    assert told.wait(10)
    backend.write(Step(step=1))
    wait_for(lambda: len(sink.records) == 1)
    gone.set()
    assert backend.close(10) == 1


def test_nothing_is_taken_after_the_end() -> None:
    """And a second close says nothing new."""
    said: list[Trouble] = []
    sink = Memory()
    backend = background(sink, said)
    assert backend.close(10) == 0
    backend.write(Step(step=1))
    assert backend.close(10) == 0
    assert (sink.records, said) == ([], [])


def test_where_no_thread_can_start_it_says_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of the interpreter: the run goes on, and its end does not wait."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    said: list[Trouble] = []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        backend = background(Memory(), said)
    backend.write(Step(step=1))
    assert backend.close(60) == 1
    assert [rule for rule, _, _ in said] == ["far-lost"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # Python 3.12 warns of each such fork
def test_a_forked_child_leaves_it_alone() -> None:
    """It writes nothing, and does not wait at its end."""
    sink = Memory()
    backend = background(sink)
    backend.write(Step(step=1))
    child = os.fork()
    if child == 0:
        begin = time.monotonic()
        backend.write(Step(step=2))
        lost = backend.close(30)
        os._exit(0 if lost == 0 and time.monotonic() - begin < 5 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert backend.close(10) == 0
    assert [record.step for record in sink.records] == [1]


def test_several_share_one_deadline() -> None:
    """Three that hang cost no more than one."""
    sinks = [Stuck() for _ in range(3)]
    backends = [background(sink, []) for sink in sinks]
    for backend, sink in zip(backends, sinks, strict=True):
        backend.write(Step(step=0))
        backend.write(Step(step=1))
        assert sink.reached.wait(10)
    begin = time.monotonic()
    assert close_all(backends, 0.2) == 3
    assert time.monotonic() - begin < 0.5
    for sink in sinks:
        sink.let_go.set()
