"""What the document on *surogate metrics* promises to measure by itself: GPUs, speed of light, memory, and norms."""

import pytest

import stepscope

from .absence import command
from .rows import rows

NORMS = pytest.mark.waits("stepscope.gradient_norms")
ALWAYS_KNOWN = ("clock", "max_clock", "power", "temperature", "dram_free")
SEGMENTS = {f"memory-{name}": name for name in ("weights", "gradients", "optimizer", "activations")}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """The records of a small transformer's training, on the GPU where there is one."""
    path = train(tmp_path_factory.mktemp("run"), stepscope.watch)
    return stepscope.read_run(path)


def train(folder, watch, wrap=lambda model: model):
    """Train a small transformer for ten steps under `watch`; its run file."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = wrap(torch.nn.Sequential(torch.nn.Embedding(256, 64), layer, torch.nn.Linear(64, 256)).to(device))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    with stepscope.init(output_dir=str(folder), verbosity=-2) as run:
        scope = watch(model, optimizer, run)
        for _ in range(10):
            with scope.step():
                tokens = torch.randint(256, (8, 32), device=device)
                loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
        scope.close()
    return run.path


def needs_gpu():
    """Skip where there is no GPU to measure."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.mark.promise("surogate/gpu-telemetry")
def test_every_gpu_is_read_while_training(watched):
    """“Hardware telemetry” comes by itself: what the GPU supports of the document's fields is known."""
    needs_gpu()
    record = watched.records("gpu")[-1]
    assert all(getattr(record, field) is not None for field in ALWAYS_KNOWN)


@pytest.mark.promise("surogate/gpu-fan-passive")
def test_a_passively_cooled_gpu_has_fan_zero(watched):
    """“(0 if passive cooling)”: a fan is a percentage, and never left out."""
    needs_gpu()
    assert 0 <= watched.records("gpu")[-1].fan <= 100


@pytest.mark.promise("surogate/gpu-model-measured")
def test_the_gpu_model_is_read_at_startup(watched):
    """“Hardware info logged at startup”: the name, the capability and the memory that torch reports."""
    needs_gpu()
    import torch

    model, known = watched.records("gpu-model")[0], torch.cuda.get_device_properties(0)
    assert model.step == 0
    assert (model.name, model.sm_count) == (known.name, known.multi_processor_count)
    assert (model.major, model.minor) == (known.major, known.minor)


@pytest.mark.promise("surogate/sol-estimate")
def test_the_peak_is_estimated_from_the_model(watched):
    """“Theoretical peak performance estimates”: six operations a parameter and token, in blocks and head."""
    (estimate,) = watched.records("sol")
    assert estimate.lm_head == pytest.approx(6 * 64 * 256, rel=0.01)
    assert estimate.blocks == pytest.approx(6 * (4 * 64 * 64 + 2 * 64 * 128), rel=0.05)


@pytest.mark.promise("surogate/sol-meaning")
def test_a_step_knows_its_share_of_the_speed_of_light(watched):
    """“`(theoretical_time / actual_time) * 100`”: the step's throughput over the estimate's, where it is known."""
    (estimate,) = watched.records("sol")
    for step in watched.steps[2:]:
        if estimate.tps is not None and step.tokens_per_second is not None:
            assert step.sol == pytest.approx(100 * step.tokens_per_second / estimate.tps, rel=0.02)
    assert estimate.tps is None or any(step.sol is not None for step in watched.steps)


@pytest.mark.parametrize("segment", rows("surogate", SEGMENTS))
def test_memory_is_measured_by_segment(watched, segment):
    """“Common Segment Names”: the allocator's record of the end holds the segment, with bytes in it."""
    (found,) = [s for s in watched.records("allocator")[-1].stats if s.name == segment]
    assert found.device + found.pageable > 0


@pytest.mark.promise("surogate/memory-lora")
def test_adapters_are_a_segment(tmp_path):
    """“LoRA adapter weights” are what PEFT adds, told from the weights."""
    watch = stepscope.watch
    import peft

    lora = peft.LoraConfig(r=4, target_modules=["linear1"])
    run = stepscope.read_run(train(tmp_path, watch, lambda model: peft.get_peft_model(model, lora)))
    (found,) = [s for s in run.records("allocator")[-1].stats if s.name == "lora"]
    assert found.device + found.pageable == 4 * (4 * 64 + 4 * 128)


@pytest.mark.promise("surogate/memory-qlora")
def test_quantized_weights_are_a_segment(tmp_path):
    """“QLoRA quantized weights and scales” are what bitsandbytes holds in four bits."""
    watch = stepscope.watch
    needs_gpu()
    import bitsandbytes
    import torch

    def quantized(model):
        model[2] = torch.nn.Sequential(bitsandbytes.nn.Linear4bit(64, 64), model[2]).cuda()
        return model

    run = stepscope.read_run(train(tmp_path, watch, quantized))
    (found,) = [s for s in run.records("allocator")[-1].stats if s.name == "qlora"]
    assert found.device >= 64 * 64 // 2


@pytest.mark.promise("surogate/practice-sol", "surogate/sol-excellent")
def test_a_low_speed_of_light_is_named(tmp_path, profiled):
    """“Sustained <60% SOL may indicate a bottleneck”, while “80%+ is excellent”."""
    said = {}
    for sol in (50.0, 85.0):
        with stepscope.TrainingRunLogger(tmp_path / f"{sol}.json", verbosity=-2) as log:
            for step in range(300):
                log.log_step(step, 0.1, 1024, 20, 0.7, 3.1, 1e-4, sol=sol)
        said[sol] = command("doctor", tmp_path / f"{sol}.json").lower()
    assert "speed of light" in said[50.0]
    assert "excellent" not in said[50.0]
    assert "excellent" in said[85.0]


@NORMS
@pytest.mark.promise("surogate/step-norm-clipped")
def test_the_norm_is_that_after_clipping(tmp_path):
    """“Gradient norm (L2) after clipping”: of a loop that clips at 0.1, no norm is above it."""
    assert callable(stepscope.gradient_norms)
    path = train(tmp_path, stepscope.watch)
    norms = [step.norm for step in stepscope.read_run(path).steps]
    assert len(norms) == 10
    assert all(0 < norm <= 0.1001 for norm in norms)
