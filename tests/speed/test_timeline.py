"""The device's clock, told late and in order, without a wait; on a scripted device whose times are known."""

from typing import Any

import pytest

from stepscope.speed.moments import StepTimes
from stepscope.speed.phases import Phases
from stepscope.speed.timeline import MOST, Timed, Timeline

from .scripted import Gpu


@pytest.fixture
def gpu() -> Gpu:
    """An idle one."""
    return Gpu()


def step(gpu: Gpu, phases: Phases, **work: tuple[float, float]) -> Timed:
    """A step whose phases keep the host busy and launch work: name → (host ms, device ms)."""
    began, first = gpu.host(), gpu.clock.mark()
    for name, (host, device) in work.items():
        with phases.phase(name):
            gpu.works(host)
            if device:
                gpu.launches(device, launch_ms=0)
    times = StepTimes(began, first)
    return Timed("step", times, None, phases.take(), gpu.host() - began, (first, gpu.clock.mark()))


def run(gpu: Gpu, steps: int, **work: tuple[float, float]) -> list[Timed]:
    """Some such steps, told as soon as they are known."""
    told: list[Timed] = []
    phases, timeline = Phases(gpu.clock, gpu.host), Timeline(gpu.clock, told.append)
    for _ in range(steps):
        timeline.put(step(gpu, phases, **work))
    gpu.works(10_000)
    timeline.drain()
    return told


def test_a_device_that_is_busy_sets_the_time_of_its_phases(gpu: Gpu) -> None:
    """The host runs ahead: its times say how long it launched, the device's how long the work took."""
    told = run(gpu, 5, data_generation=(0.2, 0), forward_pass=(1, 10), backward_pass=(1, 20))
    last = told[-1]
    assert last.host["forward_pass"][0] == pytest.approx(1)
    assert last.device is not None
    assert last.device["forward_pass"][0] == pytest.approx(10)
    assert last.device["backward_pass"][0] == pytest.approx(20)
    assert last.device_duration_ms == pytest.approx(30)
    assert last.device["data_generation"][0] == pytest.approx(0)  # the device did not wait for it


def test_a_slow_loader_shows_as_the_devices_wait(gpu: Gpu) -> None:
    """40 ms of fetching, of which the device was still busy for none: it waits for all of them."""
    last = run(gpu, 5, data_generation=(40, 0), forward_pass=(1, 10))[-1]
    assert last.device is not None
    # it works while the host fetches: of the 40 ms it is idle for 40 - 10 + the launch that hides behind it
    assert last.device["data_generation"][0] == pytest.approx(30)
    assert last.device_duration_ms == pytest.approx(41)


def test_a_slow_launch_shows_as_a_device_that_is_idle_at_the_ends(gpu: Gpu) -> None:
    """At the end of each phase the device has begun it long since; a busy one has not."""
    run(gpu, 20, forward_pass=(5, 0.1), backward_pass=(5, 0.1))
    assert gpu.clock.take_idle() == pytest.approx(1)
    run(gpu, 20, forward_pass=(0.1, 30), backward_pass=(0.1, 30))
    assert gpu.clock.take_idle() < 0.2  # type: ignore[operator]
    assert gpu.clock.take_idle() is None


def test_steps_are_told_in_order_and_only_when_the_device_is_done(gpu: Gpu) -> None:
    """Nobody waits: what is not done is told later."""
    told: list[Any] = []
    phases, timeline = Phases(gpu.clock, gpu.host), Timeline(gpu.clock, told.append)
    items = [step(gpu, phases, forward_pass=(1, 50)) for _ in range(3)]
    for item in items:
        timeline.put(item)
    assert told == []
    gpu.works(60)
    timeline.settle()
    assert told == items[:1]
    gpu.works(100)
    timeline.settle()
    assert told == items


def test_events_are_used_again(gpu: Gpu) -> None:
    """Those of phases come back; the two at a step's ends, which its neighbours share, are made anew."""
    told: list[Any] = []
    phases, timeline = Phases(gpu.clock, gpu.host), Timeline(gpu.clock, told.append)
    for _ in range(1000):
        timeline.put(step(gpu, phases, forward_pass=(1, 1), backward_pass=(1, 1)))
    assert len(told) > 990
    assert gpu.made - 2 * 1000 < 40


def test_a_device_that_hangs_costs_the_times_and_nothing_else(gpu: Gpu) -> None:
    """Too many steps wait: the oldest are told with the host's times alone, and the drain has an end."""
    told: list[Timed] = []
    phases, timeline = Phases(gpu.clock, gpu.host), Timeline(gpu.clock, told.append)
    gpu.launches(1e9)
    for _ in range(MOST + 10):
        timeline.put(step(gpu, phases, forward_pass=(1, 1)))
    assert len(told) == 10
    timeline.drain(deadline_s=0)
    assert len(told) == MOST + 10
    assert all(timed.device is None and timed.clock == "host" for timed in told)


def test_a_lost_device_ends_its_clock(gpu: Gpu) -> None:
    """The host's times go on."""
    told: list[Timed] = []
    phases, timeline = Phases(gpu.clock, gpu.host), Timeline(gpu.clock, told.append)
    timeline.put(step(gpu, phases, forward_pass=(1, 1)))
    gpu.lost = True
    timeline.put(step(gpu, phases, forward_pass=(2, 1)))
    assert [timed.host["forward_pass"][0] for timed in told] == [1, 2]
    assert all(timed.device is None for timed in told)


def test_nothing_is_recorded_inside_a_capture(gpu: Gpu) -> None:
    """An event of ours in a CUDA graph would be replayed with it."""
    phases = Phases(gpu.clock, gpu.host)
    gpu.capturing = True
    with phases.phase("forward_pass"):
        gpu.works(3)
    taken = phases.take()
    assert gpu.made == 0
    assert taken.host == {"forward_pass": [3_000_000, 1]}
