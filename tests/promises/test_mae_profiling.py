"""What the document on *MAE profiling* promises to track: its 37 names, and what their numbers mean."""

import re

import pytest

from .rows import rows

STEP = {
    "batch-time-avg": "batch_time_avg",
    "batch-time-std": "batch_time_std",
    "batches-per-second": "batches_per_second",
    "timing-data-transfer": "timing_data_transfer_avg",
    "timing-forward-pass": "timing_forward_pass_avg",
    "timing-backward-pass": "timing_backward_pass_avg",
    "timing-optimizer-step": "timing_optimizer_step_avg",
    "timing-ema-update": "timing_ema_update_avg",
    "timing-validation-epoch": "timing_validation_epoch_avg",
    "timing-visualization": "timing_visualization_generation_avg",
    "ram-percent": "ram_usage_percent",
    "ram-available": "ram_available_gb",
    "cpu-percent": "cpu_usage_percent",
    "data-generation-time": "data_generation_time",
    "data-transfer-time": "data_transfer_time",
    "data-generation-share": "data_gen_percentage",
    "transfer-share": "transfer_percentage",
    "bottleneck-data": "bottleneck_data_generation",
    "bottleneck-data-severity": "data_gen_bottleneck_severity",
    "bottleneck-memory": "bottleneck_memory",
    "memory-pressure": "memory_pressure",
}
EPOCH = {
    "epoch-total-time": "epoch_total_time",
    "epoch-throughput": "epoch_throughput_batches_per_hour",
    "share-forward-pass": "epoch_forward_pass_percentage",
    "share-backward-pass": "epoch_backward_pass_percentage",
    "share-data-transfer": "epoch_data_transfer_percentage",
    "share-optimizer-step": "epoch_optimizer_step_percentage",
    "share-validation-epoch": "epoch_validation_epoch_percentage",
    "share-ema-update": "epoch_ema_update_percentage",
    "share-visualization": "epoch_visualization_generation_percentage",
    "share-other": "epoch_other_percentage",
    "max-ram": "epoch_max_ram_usage",
}
GPU = {
    "gpu-allocated": "gpu_0_memory_allocated_gb",
    "gpu-utilization": "gpu_0_memory_utilization",
    "max-gpu": "epoch_max_gpu_0_memory",
    "bottleneck-gpu": "bottleneck_gpu_0_memory",
    "gpu-pressure": "gpu_0_memory_pressure",
}
SHARES = {key: name for key, name in EPOCH.items() if key.startswith("share-")}


@pytest.mark.parametrize("name", rows("mae", STEP))
def test_steps_carry_the_documents_numbers(profiled, name):
    """“profiling/…” of timing, breakdown, memory, system and bottleneck detection is a series of the backend."""
    assert profiled.values(name)


@pytest.mark.parametrize("name", rows("mae", EPOCH))
def test_epochs_carry_the_documents_numbers(profiled, name):
    """“profiling/epoch_…” has one value for each epoch."""
    assert len(profiled.values(name)) == 2


@pytest.mark.parametrize("name", rows("mae", GPU))
def test_gpus_carry_the_documents_numbers(profiled, name):
    """“profiling/…gpu_0…” is there where a GPU is, and only there."""
    import torch

    if not torch.cuda.is_available():
        assert not [tag for tag in profiled.tags if "gpu_0" in tag]
        pytest.skip("needs a GPU")
    assert profiled.values(name)


@pytest.mark.promise("mae/batch-time-avg", "mae/batch-time-std", "mae/batches-per-second")
def test_batch_times_are_seconds(profiled):
    """“Average time per training batch”, “Standard deviation of batch times”.

    “`profiling/batches_per_second` - Training throughput” is the inverse of the mean.
    """
    mean = profiled.values("batch_time_avg")[-1]
    assert 0.006 < mean < 0.1  # six phases of 1 ms
    assert profiled.values("batch_time_std")[-1] < mean
    assert profiled.values("batches_per_second")[-1] == pytest.approx(1 / mean, rel=0.01)


@pytest.mark.promise("mae/epoch-throughput", "mae/epoch-total-time")
def test_throughput_is_that_of_the_epoch(profiled):
    """“Epoch-level throughput” is batches by “Total time per epoch”."""
    seconds, per_hour = (
        profiled.values("epoch_total_time")[-1],
        profiled.values("epoch_throughput_batches_per_hour")[-1],
    )
    assert per_hour == pytest.approx(20 / seconds * 3600, rel=0.01)


@pytest.mark.promise("mae/share-other")
def test_shares_of_an_epoch_add_up(profiled):
    """“time unaccounted for (overhead)” is what is left to 100 %, and never negative."""
    shares = {tag: dict(points) for tag, points in profiled.tags.items() if re.search(r"/epoch_\w*_percentage$", tag)}
    for step in (20, 40):
        found = {tag: points[step] for tag, points in shares.items() if step in points}
        assert {f"profiling/{name}" for name in SHARES.values()} <= set(found)
        assert sum(found.values()) == pytest.approx(100, abs=0.01)  # the wait for data is one of them
        assert found["profiling/epoch_other_percentage"] >= 0


@pytest.mark.promise("mae/bottleneck-data", "mae/bottleneck-data-severity", "mae/data-generation-share")
def test_slow_data_is_a_bottleneck_with_a_severity(slow_data, profiled):
    """“Is data generation a bottleneck?”, with the “Severity of data generation bottleneck (0-1)”.

    Both follow from the “Percentage of batch time spent on data generation”.
    """
    assert slow_data.values("bottleneck_data_generation")[-1] == 1
    assert slow_data.values("data_gen_bottleneck_severity")[-1] == pytest.approx(0.67, abs=0.1)
    assert slow_data.values("data_gen_percentage")[-1] == pytest.approx(67, abs=10)
    assert set(profiled.values("bottleneck_data_generation")) == {0}


@pytest.mark.promise("mae/memory-pressure", "mae/bottleneck-memory", "mae/ram-percent")
def test_memory_pressure_is_the_share_of_ram(profiled):
    """“Memory pressure level (0-1)” of “System RAM usage percentage”; “Is memory usage too high?” above 85 %."""
    percent = profiled.values("ram_usage_percent")[-1]
    assert profiled.values("memory_pressure")[-1] == pytest.approx(percent / 100, abs=0.02)
    assert profiled.values("bottleneck_memory")[-1] == (percent > 85)
