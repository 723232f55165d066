"""The optimizer, the launches, and what lies between the steps, in closed form."""

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.records import Epoch, Eval, Gpu, Phases, Profile, Spent, Step


def rules(*records):
    """The verdicts by rule."""
    case = Case()
    for record in records:
        case.see(record)
    return {verdict.rule: verdict for verdict in verdicts(case)}


def steps(**known):
    """Forty equal steps."""
    return [Phases(step=step, **known) for step in range(40)]


def test_an_optimizer_of_a_quarter_of_the_step_is_named():
    """5 of 20 ms; a fused update still takes 5 %, so a fifth is saved."""
    verdict = rules(*steps(duration_ms=20.0, host_ms={"optimizer_step": 5.0}))["optimizer"]
    assert verdict.gain == pytest.approx(0.2)
    assert "fused=True" in verdict.advice[0]


def idle_device(idle, input_wait):
    """A run on a device that has run dry at so many of its phases' ends."""
    known = {"duration_ms": 10.0, "device_duration_ms": 10.0, "input_wait_ms": input_wait}
    return [
        *steps(**known, host_ms={"forward_pass": 4.0}, device_ms={"forward_pass": 4.0}),
        *(Profile(step=n, steps=10, mean_ms=10.0, device_idle=idle) for n in (10, 20, 30)),
    ]


def test_a_device_that_runs_dry_beside_a_quick_loader_is_launch_bound():
    """With four fifths of the phases dry it is named; how much it costs is known where the GPU says how busy it is."""
    verdict = rules(*idle_device(0.8, 0.1))["launch"]
    assert (verdict.gain, verdict.saving) == (None, "")
    busy = [Gpu(step=step, id=0, gpu_util=40.0) for step in range(4)]
    assert rules(*idle_device(0.8, 0.1), *busy)["launch"].gain == pytest.approx(0.59)


def test_a_device_that_waits_for_data_is_not_launch_bound():
    """Then the input is to blame; and half of the phases dry is not yet a finding."""
    assert set(rules(*idle_device(0.8, 4.0))) == {"input_wait"}
    assert rules(*idle_device(0.5, 0.1)) == {}


def epoch(**spent):
    """An epoch of 100 s."""
    return Epoch(step=10, total_ms=100_000.0, phases=[Spent(name=name, ms=ms) for name, ms in spent.items()])


@pytest.mark.parametrize(("ms", "names"), [(9_900.0, set()), (10_100.0, {"evaluation"}), (60_000.0, {"evaluation"})])
def test_an_evaluation_is_named_from_a_tenth_of_the_epoch_on(ms, names):
    """Its pictures belong to it; half of it would be saved by doing it half as often."""
    found = rules(epoch(validation_epoch=ms - 1000, visualization_generation=1000.0, forward_pass=30_000.0))
    assert set(found) == names
    if names:
        assert found["evaluation"].gain == pytest.approx(ms / 200_000)
        assert (
            f"evaluating half as often would save about {ms / 2000:.0f} % of the run's time" in found["evaluation"].text
        )


def test_a_checkpoint_is_named_by_any_name_that_says_so():
    """`save_checkpoint` is one; its parts are not counted twice."""
    found = rules(epoch(**{"save_checkpoint": 20_000.0, "save_checkpoint/fsync": 15_000.0}))
    assert found["checkpoint"].severity == pytest.approx(0.2)


def test_a_run_without_epochs_is_judged_by_its_wall_time():
    """Evaluations that say how long they took, between the first and the last record."""
    records = [Step(time=f"2026-01-15T10:30:{second:02d}.000000", step=second) for second in range(41)]
    assert set(rules(*records, Eval(step=40, duration_ms=6000.0))) == {"evaluation"}
    assert rules(*records, Eval(step=40, duration_ms=3000.0)) == {}
