"""What the document on *MAE profiling* promises to find, and the solutions that it promises to name."""

import pytest

import stepscope

from .absence import command
from .profiled import profile
from .rows import rows

DATA = {
    "rule-data-workers": "Increase `num_workers` in DataLoader",
    "rule-data-faster": "Use faster data generation (pre-computed vs on-the-fly)",
    "rule-data-algorithms": "Optimize synthetic data generation algorithms",
}
TRANSFER = {
    "rule-transfer-pin": "Use `pin_memory=True` in DataLoader",
    "rule-transfer-workers": "Increase `num_workers` for parallel data loading",
    "rule-transfer-storage": "Use faster storage (SSD vs HDD)",
}
MEMORY = {
    "rule-memory-batch": "Reduce batch size",
    "rule-memory-accumulation": "Use gradient accumulation instead of larger batches",
    "rule-memory-options": "Enable memory-efficient training options",
}
GPU_MEMORY = {
    "rule-gpu-size": "Reduce batch size or model size",
    "rule-gpu-checkpointing": "Use gradient checkpointing",
    "rule-gpu-amp": "Enable mixed precision training (AMP)",
}


@pytest.fixture(scope="module")
def slow_transfer(tmp_path_factory):
    """A watched training that moves data for most of each batch's time."""
    return profile(tmp_path_factory.mktemp("run"), data_transfer=0.01)


@pytest.fixture(scope="module")
def full_memory(tmp_path_factory, profiled):
    """A watched training on a machine that says that 91 % of its memory is in use."""
    import psutil

    real = psutil.virtual_memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psutil, "virtual_memory", lambda: real._replace(percent=91.0, available=real.total * 9 // 100))
        return profile(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def full_gpu(tmp_path_factory, profiled):
    """A watched training on a GPU of which more than 90 % is allocated."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    free, total = torch.cuda.mem_get_info()
    held = torch.empty(int(min(0.95 * total, free - 2**30)), dtype=torch.uint8, device="cuda")
    seen = profile(tmp_path_factory.mktemp("run"))
    del held
    return seen


def verdicts(seen):
    """What the doctor says of a run, as text."""
    return command("doctor", seen.file, "--json")


@pytest.mark.promise("mae/rule-data")
def test_data_above_30_percent_is_found(slow_data, profiled):
    """“If `profiling/data_gen_percentage > 30%`”: named when it is 67 %, not when it is 15 %."""
    assert "data_generation" in verdicts(slow_data)
    assert "data_generation" not in verdicts(profiled)


@pytest.mark.parametrize("solution", rows("mae", DATA))
def test_slow_data_has_the_documents_solutions(slow_data, solution):
    """“Data Generation Bottleneck”: each of its solutions is the advice, in the document's words."""
    assert solution in verdicts(slow_data)


@pytest.mark.promise("mae/rule-transfer")
def test_transfer_above_10_percent_is_found(slow_transfer):
    """“If `profiling/transfer_percentage > 10%`”: named when it is two thirds of the batch."""
    assert "transfer" in verdicts(slow_transfer)


@pytest.mark.parametrize("solution", rows("mae", TRANSFER))
def test_slow_transfer_has_the_documents_solutions(slow_transfer, solution):
    """“Data Transfer Bottleneck”: each of its solutions is the advice, in the document's words."""
    assert solution in verdicts(slow_transfer)


@pytest.mark.promise("mae/rule-memory")
def test_memory_pressure_above_85_percent_is_found(full_memory):
    """“If `profiling/memory_pressure > 0.85`”: at 0.91 the verdict is there."""
    assert "memory" in verdicts(full_memory)


@pytest.mark.parametrize("solution", rows("mae", MEMORY))
def test_full_memory_has_the_documents_solutions(full_memory, solution):
    """“Memory Bottleneck”: each of its solutions is the advice, in the document's words."""
    assert solution in verdicts(full_memory)


@pytest.mark.promise("mae/rule-gpu")
def test_gpu_memory_pressure_above_90_percent_is_found(full_gpu):
    """“If `profiling/gpu_0_memory_pressure > 0.90`”: with so much allocated the verdict is there."""
    assert "gpu" in verdicts(full_gpu)


@pytest.mark.parametrize("solution", rows("mae", GPU_MEMORY))
def test_full_gpu_memory_has_the_documents_solutions(full_gpu, solution):
    """“GPU Memory Bottleneck”: each of its solutions is the advice, in the document's words."""
    assert solution in verdicts(full_gpu)


@pytest.mark.promise("mae/actionable")
def test_every_warning_says_what_to_do(slow_data):
    """“provides actionable insights”: no warning of the run is without advice."""
    warnings = [event for event in stepscope.read_run(slow_data.file).events if event.severity == "warning"]
    assert warnings
    assert all(event.advice for event in warnings)
