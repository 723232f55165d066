"""Planted faults are named by their own rule, just above its limit and far above; healthy runs are called nothing."""

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.records import Step

from .runs import MODELS, Sleep, found, mean_ms, to_share, training

SHARES = {
    "data_generation": ("data_generation", 0.30),
    "data_transfer": ("transfer", 0.10),
    "optimizer_step": ("optimizer", 0.20),
}
# none of the thresholds was chosen with these: their own times, their own seeds
UNSEEN = {
    "recurrent": {"data_generation": 0.9, "forward_pass": 14.0, "backward_pass": 21.0, "optimizer_step": 1.9},
    "diffusion": {
        "data_generation": 11.0,
        "data_transfer": 2.1,
        "forward_pass": 88.0,
        "backward_pass": 160.0,
        "optimizer_step": 14.0,
        "ema_update": 6.0,
    },
    "tiny": {"data_generation": 0.2, "forward_pass": 0.8, "backward_pass": 0.8, "optimizer_step": 0.2},
    "quick": {"data_generation": 0.03, "forward_pass": 0.02, "backward_pass": 0.03, "optimizer_step": 0.02},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("phase", SHARES)
def test_a_phase_just_under_its_limit_is_silent(model, phase):
    """A phase at nine tenths of its limit is no finding."""
    _, limit = SHARES[phase]
    assert found(training(model, 11, fault=Sleep(phase, to_share(model, phase, 0.9 * limit)))) == {}


@pytest.mark.parametrize("times", [1.1, 2.5])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("phase", SHARES)
def test_a_phase_over_its_limit_is_named_with_what_it_costs(model, phase, times):
    """It alone is named, and the estimate is within 30 % of what the same run without the fault saves."""
    rule, limit = SHARES[phase]
    planted = training(model, 12, fault=Sleep(phase, to_share(model, phase, times * limit)))
    verdict = found(planted)
    assert set(verdict) == {rule}
    truth = 1 - mean_ms(training(model, 12)) / mean_ms(planted)
    assert verdict[rule].gain == pytest.approx(truth, rel=0.3)
    assert f"save about {100 * verdict[rule].gain:.0f} % of a step" in verdict[rule].text


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("slowing", "names"), [(0.00028, set()), (0.00045, {"drift"}), (0.001, {"drift"})])
def test_a_run_that_slows_down_is_named_from_ten_percent_on(model, slowing, names):
    """A step that takes 0.028 % longer than the one before is silent over 300 steps, 0.045 % and 0.1 % are named."""
    assert set(found(training(model, 13, slowing=slowing))) == names


@pytest.mark.parametrize("model", MODELS)
def test_the_gain_of_a_drift_is_what_the_first_pace_would_save(model):
    """The estimate is within 30 % of what the same run at its first pace takes less."""
    slowing = training(model, 14, slowing=0.001)
    truth = 1 - mean_ms(training(model, 14)) / mean_ms(slowing)
    assert found(slowing)["drift"].gain == pytest.approx(truth, rel=0.3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("times", "names"), [(1.5, set()), (4.0, {"slow_step"}), (20.0, {"slow_step"})])
def test_one_slow_step_in_fifty_is_named_from_what_it_costs(model, times, names):
    """A step of 2.5 times the others' costs 3 % and is silent; the larger ones are named with their N and phase."""
    fault = Sleep("forward_pass", times * sum(MODELS[model].values()), lambda step: step % 50 == 0)
    planted = training(model, 15, fault=fault)
    verdict = found(planted)
    assert set(verdict) == names
    if names:
        evidence = verdict["slow_step"].evidence
        assert (evidence["every"], evidence["periodic"], evidence["phase"]) == (50, True, "forward_pass")
        truth = 1 - mean_ms(training(model, 15)) / mean_ms(planted)
        assert verdict["slow_step"].gain == pytest.approx(truth, rel=0.3)


@pytest.mark.parametrize("seed", range(9000, 9010))
@pytest.mark.parametrize("model", UNSEEN)
def test_a_healthy_run_has_no_finding(model, seed):
    """Ten runs of each of four models that no threshold was chosen with: nothing is named, at any length."""
    for steps in (40, 300):
        assert found(training(model, seed, steps=steps, models=UNSEEN)) == {}


def test_a_fetch_of_a_tenth_of_a_short_step_is_healthy():
    """0.2 ms of a 1.9-ms step is no finding, and it takes more than a few microseconds to be one."""
    times = {"short": {"data_generation": 0.2, "forward_pass": 1.7}, "micro": {"data_generation": 0.05, "x": 0.05}}
    assert all(found(training(model, 1, models=times)) == {} for model in times)


def test_a_bare_logger_gets_no_verdict_without_evidence():
    """Steps without a duration, and no record at all, are no ground for any."""
    case = Case()
    assert verdicts(case) == []
    for step in range(500):
        case.see(Step(step=step, loss=1.0))
    assert verdicts(case) == []


def test_slow_fetches_are_named_once():
    """A loader whose workers deliver in bursts is a wait for data, and not slow steps besides."""
    fault = Sleep("data_generation", 60.0, lambda step: step % 4 == 0)
    assert set(found(training("vision", 16, fault=fault))) == {"data_generation"}
