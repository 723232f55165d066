"""How the document on *MAE profiling* promises that its numbers come about, are used, and what they cost."""

import json
import threading
import time
from datetime import datetime
from itertools import pairwise

import pytest

import stepscope

from .absence import command, program
from .profiled import PHASES, profile
from .rows import rows

TRAINER = pytest.mark.waits("trainers/mae/train.py")

AUTOMATIC = {
    "auto-batches": ["batch_time_avg", "memory_pressure"],
    "auto-data": ["data_generation_time", "data_transfer_time"],
    "auto-passes": ["timing_forward_pass_avg", "timing_backward_pass_avg"],
    "auto-optimizer": ["timing_optimizer_step_avg", "timing_ema_update_avg"],
    "auto-validation": ["timing_validation_epoch_avg"],
    "auto-visualization": ["timing_visualization_generation_avg"],
}
BACKGROUND = {
    "background-cpu": ["cpu_usage_percent"],
    "background-ram": ["ram_usage_percent", "ram_available_gb"],
    "background-gpu": ["gpu_0_memory_allocated_gb", "gpu_0_memory_utilization"],
    "background-pressure": ["memory_pressure"],
}
COMPARED = {
    "track-throughput": "epoch_throughput_batches_per_hour",
    "track-data": "data_gen_percentage",
    "track-memory": "memory_pressure",
    "tip-compare": "batch_time_avg",
}


@pytest.fixture(scope="module")
def three_seconds(tmp_path_factory):
    """A watched training of at least three seconds."""
    return profile(tmp_path_factory.mktemp("run"), forward_pass=0.075)


@pytest.fixture(scope="module")
def comparison(slow_data, profiled):
    """The slow and the mended training side by side, as text."""
    return command("compare", slow_data.file, profiled.file, "--json")


@pytest.mark.parametrize("names", rows("mae", AUTOMATIC))
def test_the_profiler_tracks_it(profiled, names):
    """“Automatic Profiling”: what the document ticks off has its numbers."""
    assert all(profiled.values(name) for name in names)


@pytest.mark.parametrize("names", rows("mae", BACKGROUND))
def test_the_background_thread_reads_it(three_seconds, names):
    """“Background Monitoring”: what the document lists has its numbers."""
    import torch

    if "gpu" in names[0] and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    assert all(three_seconds.values(name) for name in names)


@pytest.mark.promise("mae/background-interval")
def test_the_system_is_read_every_second(three_seconds):
    """“Continuous monitoring (1-second intervals)”: so far apart are the times of the system's records."""
    times = [datetime.fromisoformat(r.time) for r in stepscope.read_run(three_seconds.file).records("system")]
    gaps = [(late - early).total_seconds() for early, late in pairwise(times)]
    assert len(gaps) >= 2
    assert all(0.8 < gap < 1.5 for gap in gaps)


@pytest.mark.promise("mae/overhead")
def test_watching_costs_less_than_one_percent(tmp_path):
    """“Profiling overhead: <1% of training time”: of the document's own 0.142 s a batch, threads included."""
    watch = stepscope.watch
    import torch

    model = torch.nn.Linear(4, 1)
    with stepscope.init(output_dir=str(tmp_path), verbosity=-2) as run:
        scope = watch(model, torch.optim.SGD(model.parameters(), lr=0.1), run)
        begin = time.perf_counter()
        for _ in range(2000):
            with scope.step():
                for phase in PHASES:
                    with scope.phase(phase):
                        pass
        seconds = (time.perf_counter() - begin) / 2000
        scope.close()
    assert seconds < 0.01 * 0.142


@pytest.mark.promise("mae/overhead-thread", "mae/clean-up")
def test_threads_end_with_the_training(tmp_path):
    """“Background monitoring: Separate thread”, and “Resources freed at training end”."""
    before, during = set(threading.enumerate()), set()
    profile(tmp_path, epochs=1, forward_pass=lambda step: during.update(threading.enumerate()) or 0)
    assert during > before
    assert set(threading.enumerate()) <= before


@pytest.mark.promise("mae/view-throughput", "mae/view-breakdown", "mae/tip-early")
def test_charts_have_a_point_from_the_first_epoch_on(profiled):
    """“`profiling/batches_per_second` vs epoch”, “Stacked area chart of different timing components”.

    “Check profiling metrics in first few epochs”: the first of them has its points.
    """
    for name in ("batches_per_second", *(f"timing_{phase}_avg" for phase in PHASES)):
        steps = [step for step, _ in profiled.tags[f"profiling/{name}"]]
        assert steps == sorted(steps)
        assert steps[0] <= 20 < steps[-1]


@pytest.mark.promise("mae/view-bottleneck", "mae/tip-alerts")
def test_bottlenecks_are_zero_or_one(slow_data):
    """“Boolean charts showing when bottlenecks occur”; “Use WandB alerts for bottleneck detection metrics”."""
    values = {value for tag, points in slow_data.tags.items() if "/bottleneck_" in tag for _, value in points}
    assert values == {0, 1}


@pytest.mark.promise("mae/view-memory")
def test_memory_can_be_charted(profiled):
    """“`profiling/ram_usage_percent` and `profiling/gpu_0_memory_utilization`”: both are percent of what there is."""
    import torch

    assert all(0 < value <= 100 for value in profiled.values("ram_usage_percent"))
    if torch.cuda.is_available():
        assert all(0 <= value <= 100 for value in profiled.values("gpu_0_memory_utilization"))


@pytest.mark.parametrize("name", rows("mae", COMPARED))
def test_two_runs_can_be_compared_by_it(comparison, name):
    """“Optimization Tracking”: the number stands in the comparison of two runs."""
    assert name in comparison


@pytest.mark.promise("mae/tip-trends")
def test_a_run_that_slows_down_is_named(tmp_path, profiled):
    """“Look for degrading performance over time”: the doctor finds steps that take 0.2 % longer each."""
    slowing = profile(tmp_path, epochs=2, batches=150, forward_pass=lambda step: 0.002 * 1.002**step)
    assert "drift" in command("doctor", slowing.file, "--json")
    assert "drift" not in command("doctor", profiled.file, "--json")


@pytest.mark.promise("mae/workflow-baseline", "mae/workflow-identify")
def test_the_highest_timing_is_the_bottleneck(slow_data):
    """“Run training with profiling enabled”, then “Check which `profiling/timing_*` metrics are highest”."""
    means = {name: slow_data.values(f"timing_{name}_avg")[-1] for name in PHASES}
    means["data_generation"] = slow_data.values("data_generation_time")[-1]
    assert max(means, key=means.get) == "data_generation"


@pytest.mark.promise("mae/workflow-optimize", "mae/workflow-measure", "mae/workflow-iterate")
def test_an_improvement_is_measured(slow_data, profiled):
    """“Make targeted improvements (e.g., increase `num_workers`)”: here the data comes faster.

    “Compare new `profiling/epoch_throughput_batches_per_hour`”, “Repeat until satisfactory performance”: better than
    the slow run, and no better than itself.
    """
    better = json.loads(command("compare", slow_data.file, profiled.file, "--json"))
    again = json.loads(command("compare", profiled.file, profiled.file, "--json"))
    assert "better" in json.dumps(better)
    assert "better" not in json.dumps(again)


@TRAINER
@pytest.mark.promise("mae/trainer")
def test_the_mae_trainer_is_profiled(tmp_path):
    """“comprehensive performance monitoring for your MAE training pipeline”: each epoch ends in its summary."""
    said = program("trainers/mae/train.py", "--epochs 1", at=tmp_path)
    assert "=== Epoch 1 Profiling Summary ===" in said
    assert "  forward_pass             :" in said
    assert stepscope.read_run(tmp_path).steps
