"""The wait for data and the transfer, in closed form."""

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.diagnose.limits import Limits
from stepscope.records import Phases, Profile, Spent, System


def case_of(steps=40, cpus=None, busy=None, **known):
    """A run of equal steps."""
    case = Case()
    for step in range(steps):
        case.see(Phases(step=step, **known))
    if cpus:
        case.see(System(step=1, cpus=cpus, cpu_percent=busy))
    return case


def rules(case, limits=None):
    """The verdicts by rule."""
    return {verdict.rule: verdict for verdict in verdicts(case, limits or Limits())}


def test_the_wait_is_told_with_its_numbers():
    """8 of 20 ms: 40 % of a step, of which handing a batch over, 0.1 ms, cannot be saved."""
    verdict = rules(case_of(duration_ms=20.0, host_ms={"data_generation": 8.0, "forward_pass": 12.0}))[
        "data_generation"
    ]
    assert (verdict.level, verdict.severity, verdict.gain) == ("warning", 0.4, pytest.approx(0.395))
    assert "8 ms of its 20 ms for data (40 %)" in verdict.message
    assert verdict.saving == "fixing this would save about 40 % of a step"
    assert verdict.evidence == {"data_gen_percentage": 40.0, "wait_ms": 8.0, "step_ms": 20.0, "steps": 30}


def test_the_limit_itself_is_silent():
    """The document's rule is “> 30 %”."""
    assert "data_generation" not in rules(case_of(duration_ms=10.0, host_ms={"data_generation": 3.0}))
    assert "data_generation" in rules(case_of(duration_ms=10.0, host_ms={"data_generation": 3.01}))


def test_workers_that_cannot_keep_up_are_counted():
    """80 ms of work a batch beside 20 ms of a step's own need four workers; two were busy."""
    known = {"duration_ms": 40.0, "host_ms": {"data_generation": 20.0}, "worker_ms": 80.0}
    verdict = rules(case_of(**known, cpus=8.0))["data_generation"]
    assert "80 ms on a batch and 2.0 of them are busy: not enough workers" in verdict.message
    assert verdict.advice[0].startswith("Use at least 4 workers")
    assert "but the 2 CPUs are busy" in rules(case_of(**known, cpus=2.0, busy=95.0))["data_generation"].message
    assert "not enough workers" in rules(case_of(**known, cpus=2.0, busy=30.0))["data_generation"].message


def test_workers_with_little_to_do_point_to_the_hand_over():
    """1 ms of work a batch cannot be why the loop waits 20 ms."""
    verdict = rules(case_of(duration_ms=40.0, host_ms={"data_generation": 20.0}, worker_ms=1.0))["data_generation"]
    assert "handing it over takes long" in verdict.message


def test_a_wait_that_hides_behind_the_device_is_no_finding():
    """The host waits for half of the step, the device for nothing: more workers would save nothing."""
    known = {"duration_ms": 20.0, "host_ms": {"data_generation": 10.0}}
    assert rules(case_of(**known, input_wait_ms=0.4)) == {}
    assert rules(case_of(**known, input_wait_ms=6.1))["data_generation"].gain == pytest.approx(0.3)


def test_a_device_that_waits_is_named_below_the_loops_limit():
    """A fifth of a step without work for the device is an input wait; a tenth is healthy."""
    known = {"duration_ms": 20.0, "host_ms": {"data_generation": 4.5}}
    assert set(rules(case_of(**known, input_wait_ms=4.1))) == {"input_wait"}
    assert rules(case_of(**known, input_wait_ms=2.0)) == {}


def test_transfer_is_judged_on_the_devices_clock():
    """The host queues the copy in no time; the device spends a quarter of its step on it."""
    known = {"duration_ms": 20.0, "host_ms": {"data_transfer": 0.02}, "device_duration_ms": 20.0}
    verdict = rules(case_of(**known, device_ms={"data_transfer": 5.0}))["transfer"]
    assert verdict.gain == pytest.approx(0.23)
    assert verdict.evidence["clock"] == "device"


def test_an_evaluations_phases_are_not_the_steps():
    """Time in parts of `validation_epoch` is neither transfer nor wait of a training step."""
    host = {"validation_epoch/data_transfer": 5.0, "validation_epoch/data_generation": 5.0}
    assert rules(case_of(duration_ms=20.0, host_ms=host)) == {}


def test_a_phase_inside_another_counts():
    """`batch/data_transfer` is a transfer wherever the loop has put it."""
    assert "transfer" in rules(case_of(duration_ms=20.0, host_ms={"batch/data_transfer": 5.0}))


def test_profiles_are_enough():
    """Where the steps themselves say nothing, the windows do, each weighted with its steps."""
    case = Case()
    for window in range(4):
        case.see(Profile(step=window * 10, steps=10, mean_ms=20.0, data_generation_ms=8.0, data_transfer_ms=0.5))
    case.see(Profile(step=40, steps=40, mean_ms=10.0, data_generation_ms=8.0, phases=[Spent(name="x", ms=1.0)]))
    verdict = rules(case)["data_generation"]
    assert verdict.evidence["step_ms"] == pytest.approx(15.0)
    assert verdict.severity == pytest.approx(8 / 15)


def test_a_wait_that_workers_could_not_shorten_is_no_finding():
    """0.39 ms of a step of 0.8 ms: to take a batch from a worker lasts as long."""
    assert rules(case_of(duration_ms=0.8, host_ms={"data_generation": 0.39})) == {}
    assert "data_generation" in rules(case_of(duration_ms=0.8, host_ms={"data_generation": 0.41}))


def test_few_steps_say_nothing():
    """Eight steps after the warm-up are needed."""
    known = {"duration_ms": 20.0, "host_ms": {"data_generation": 10.0}}
    assert rules(case_of(steps=9, **known)) == {}
    assert "data_generation" in rules(case_of(steps=12, **known))


def test_limits_can_be_set():
    """A stricter limit names what the document's does not."""
    case = case_of(duration_ms=20.0, host_ms={"data_generation": 5.0})
    assert rules(case) == {}
    assert "data_generation" in rules(case, Limits(data_generation=0.2))
