"""Phases: nested, stopped for one another, never counted twice, and clear about misuse."""

from threading import Thread

import pytest

from stepscope.speed.phases import Phases, Taken


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """At zero."""
    return Clock()


@pytest.fixture
def said() -> list[str]:
    """The rules of what was complained of."""
    return []


@pytest.fixture
def phases(clock: Clock, said: list[str]) -> Phases:
    """On that clock."""
    return Phases(clock=clock, on_trouble=lambda rule, message: said.append(rule))


def test_a_phase_holds_the_time_of_its_parts(phases: Phases, clock: Clock) -> None:
    """Inner time counts in the inner path and in the outer one, whose share is the only one at the top."""
    with phases.phase("forward_pass"):
        clock.now += 3
        with phases.phase("attention"):
            clock.now += 4
        clock.now += 5
    assert phases.take().host == {"forward_pass": [12, 1], "forward_pass/attention": [4, 1]}


def test_uses_of_a_name_add_up(phases: Phases, clock: Clock) -> None:
    """Their time and how often, until somebody takes them."""
    for spent in (1, 2, 3):
        with phases.phase("forward_pass"):
            clock.now += spent
    assert phases.take().host == {"forward_pass": [6, 3]}
    assert phases.take().host == {}


def test_a_phase_that_raises_is_ended(phases: Phases, clock: Clock) -> None:
    """The exception goes its way."""

    def fails() -> None:
        with phases.phase("forward_pass"):
            clock.now += 7
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fails()
    assert phases.take().host == {"forward_pass": [7, 1]}
    assert phases.path == ""


def test_what_a_hook_sees_inside_a_phase_of_the_user_is_not_counted(phases: Phases, clock: Clock) -> None:
    """The user's name is the one that stands."""
    with phases.phase("train"):
        phases.enter_auto("forward_pass")
        clock.now += 2
        phases.leave_auto()
    assert phases.take().host == {"train": [2, 1]}


def test_a_backward_pass_inside_the_optimizer_is_taken_out_of_it(phases: Phases, clock: Clock) -> None:
    """A closure: the optimizer's clock stands still meanwhile, and each is entered once."""
    phases.enter_auto("optimizer_step")
    clock.now += 1
    phases.enter_auto("backward_pass")
    clock.now += 10
    phases.leave_auto()
    clock.now += 2
    phases.leave_auto()
    assert phases.take().host == {"optimizer_step": [3, 1], "backward_pass": [10, 1]}


def test_a_phase_of_the_user_inside_what_a_hook_sees_is_a_part_of_it(phases: Phases, clock: Clock) -> None:
    """As in a model whose forward pass names its own parts."""
    phases.enter_auto("forward_pass")
    with phases.phase("attention"):
        clock.now += 4
    phases.leave_auto()
    assert phases.take().host == {"forward_pass": [4, 1], "forward_pass/attention": [4, 1]}


def test_an_open_phase_is_split_where_it_is_taken(phases: Phases, clock: Clock) -> None:
    """Its time so far goes there, the rest to the next; it is counted once, at its end."""
    with phases.phase("checkpoint"):
        clock.now += 5
        first = phases.take().host
        clock.now += 6
    assert first == {"checkpoint": [5, 0]}
    assert phases.take().host == {"checkpoint": [6, 1]}


def test_a_phase_nested_in_itself_is_said(phases: Phases, clock: Clock, said: list[str]) -> None:
    """Once, and its time counts once at the top."""
    for _ in range(2):
        with phases.phase("a"), phases.phase("a"):
            clock.now += 1
    assert said == ["phase-nested"]
    assert phases.take().host["a"] == [2, 2]


def test_a_phase_left_open_is_said_and_ends_with_its_step(phases: Phases, clock: Clock, said: list[str]) -> None:
    """What `with` would have prevented."""
    phases.enter("a")
    clock.now += 3
    phases.close_open()
    assert said == ["phase-open"]
    assert phases.take().host == {"a": [3, 1]}


def test_an_outer_phase_ends_what_was_left_open_inside(phases: Phases, clock: Clock, said: list[str]) -> None:
    """And goes on being right."""
    phases.enter("outer")
    phases.enter("inner")
    clock.now += 2
    phases.leave("outer")
    assert said == ["phase-open"]
    assert phases.take().host == {"outer": [2, 1], "outer/inner": [2, 1]}


def test_a_phase_that_is_not_open_cannot_end(phases: Phases, said: list[str]) -> None:
    """It is said, and nothing else happens."""
    phases.leave("never")
    assert said == ["phase-closed"]
    assert not phases.take()


def test_other_threads_are_not_timed(phases: Phases, clock: Clock, said: list[str]) -> None:
    """Their phases would run beside those of the training, and shares would exceed the whole."""

    def other() -> None:
        with phases.phase("loading"):
            clock.now += 5

    with phases.phase("forward_pass"):
        thread = Thread(target=other)
        thread.start()
        thread.join()
    assert said == ["phase-thread"]
    assert phases.take().host == {"forward_pass": [5, 1]}


def test_what_was_taken_adds_up_under_a_prefix() -> None:
    """As the parts of an evaluation."""
    one, other = Taken(), Taken()
    one.host = {"forward_pass": [1, 1]}
    other.host = {"forward_pass": [2, 1], "data_generation": [3, 1]}
    one.add(other)
    one.add(other, "validation_epoch/")
    assert one.host == {
        "forward_pass": [3, 2],
        "data_generation": [3, 1],
        "validation_epoch/forward_pass": [2, 1],
        "validation_epoch/data_generation": [3, 1],
    }
