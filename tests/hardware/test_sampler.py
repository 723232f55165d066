"""The background thread: when it reads, what it survives, and how it ends."""

import os
import threading
import time
from threading import Event

import pytest

from stepscope.hardware.sampler import Sampler
from stepscope.records import System

PATIENCE_S = 10.0


def until(condition):
    """Wait for what a thread does."""
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
    assert condition()


@pytest.fixture
def start():
    """Starts samplers that are closed at the end."""
    samplers = []

    def begin(*arguments, **options):
        samplers.append(Sampler(*arguments, **options))
        return samplers[-1]

    yield begin
    for sampler in samplers:
        sampler.close(0.5)


def test_it_reads_at_once_and_then_again_and_again(start):
    """The first record does not wait for the first interval."""
    found = []
    start(lambda: [System(children=len(found))], found.append, interval_s=3600)
    until(lambda: len(found) == 1)
    more = []
    start(lambda: [System()], more.append, interval_s=0.01)
    until(lambda: len(more) >= 5)


def test_it_does_not_drift():
    """However long a reading takes, the turns stay on the grid of the first; a slow one skips turns."""
    clock, reads, waits = [0.0], [], []
    durations = iter([0.3, 0.2, 2.5, 0.1])

    def read():
        reads.append(clock[0])
        clock[0] += next(durations, 0.0)
        if len(reads) == 5:
            sampler._stopping.set()
        return []

    class Stopping(Event):
        def wait(self, timeout=None):
            waits.append(timeout)
            clock[0] += timeout or 0.0
            return self.is_set()

    ready = Event()
    sampler = Sampler(lambda: ready.wait(PATIENCE_S) and [], lambda record: None, interval_s=1.0)
    ready.set()
    sampler.close()
    sampler._stopping, sampler._read, sampler._clock, sampler._done = Stopping(), read, lambda: clock[0], Event()
    sampler._work()
    assert reads[:5] == pytest.approx([0.0, 1.0, 2.0, 5.0, 6.0])


def test_whatever_a_reading_raises_it_goes_on(start):
    """A failure is counted and kept, and the next reading comes."""
    found, errors = [], iter([OSError("a"), KeyError("b"), SystemExit(3), KeyboardInterrupt()])

    def read():
        error = next(errors, None)
        if error is not None:
            raise error
        return [System()]

    sampler = start(read, found.append, interval_s=0.005)
    until(lambda: found)
    assert sampler.failures == 4
    assert isinstance(sampler.failure, KeyboardInterrupt)
    assert sampler.failure.__traceback__ is None


def test_whatever_takes_the_records_raises_it_goes_on(start):
    """A run that was closed under it does no harm."""
    taken = []

    def emit(record):
        taken.append(record)
        raise RuntimeError("closed")

    sampler = start(lambda: [System()], emit, interval_s=0.005)
    until(lambda: len(taken) >= 3)
    assert sampler.failures >= 2


def test_a_short_run_gets_a_second_reading(start):
    """Rates need two; and what happened since the first is not lost."""
    found = []
    sampler = start(lambda: [System()], found.append, interval_s=100.0)
    until(lambda: found)
    assert sampler.close()
    assert len(found) == 2
    sampler.close()
    assert len(found) == 2
    assert not sampler._thread.is_alive() or sampler._thread.join(PATIENCE_S) is None


@pytest.mark.parametrize(("since", "more"), [(0.79, 0), (0.81, 1)])
def test_closing_takes_a_last_reading_when_a_turn_is_almost_over(since, more):
    """Two records of nearly the same moment tell nothing: the last turn must be four fifths over."""
    clock, found = [0.0], []

    class Stopped(Event):
        def wait(self, timeout=None):
            clock[0] += (timeout or 0.0) if len(found) < 2 else since
            if len(found) == 2:
                self.set()
            return self.is_set()

    sampler = Sampler(list, found.append, interval_s=1.0)
    sampler.close()
    found.clear()
    sampler._stopping, sampler._clock, sampler._done = Stopped(), lambda: clock[0], Event()
    sampler._read, sampler._abandoned = lambda: [System()], Event()
    sampler._work()
    assert len(found) == 2 + more


def test_a_reading_that_hangs_holds_nobody():
    """The close comes back at its deadline, and what the reading brings later is not wanted any more."""
    hanging, free, found = Event(), Event(), []

    def read():
        hanging.set()
        free.wait(PATIENCE_S)
        return [System()]

    sampler = Sampler(read, found.append, interval_s=0.01)
    hanging.wait(PATIENCE_S)
    assert sampler.close(deadline_s=0.05) is False
    free.set()
    sampler._thread.join(PATIENCE_S)
    assert not sampler._thread.is_alive()
    assert found == []


def test_whoever_takes_the_records_may_close_it():
    """A close from inside the thread does not wait for itself."""
    closed = Event()
    sampler = Sampler(lambda: [System()], lambda record: closed.set() if sampler.close() else None, interval_s=0.01)
    assert closed.wait(PATIENCE_S)
    sampler._thread.join(PATIENCE_S)
    assert not sampler._thread.is_alive()


def test_it_is_dead_in_a_forked_child(start):
    """The child has no thread, and its close neither reads nor waits."""
    found = []
    sampler = start(lambda: [System()], found.append, interval_s=3600)
    until(lambda: found)
    child = os.fork()
    if child == 0:
        closed = sampler.close()
        os._exit(0 if closed and len(found) == 1 and threading.active_count() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not sampler._done.is_set()


def test_no_more_threads_is_a_failure_and_no_error(monkeypatch):
    """A process at its limit trains on, unsampled."""

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    sampler = Sampler(lambda: [], lambda record: None)
    assert (sampler.failures, sampler.close()) == (1, True)


def test_it_is_a_daemon(start):
    """A reading that hangs in a driver does not keep the process alive."""
    assert start(lambda: [], lambda record: None)._thread.daemon
