"""What the document on *speedrun-mup* promises of its model and of the way that it is trained."""

import pytest

import stepscope

from .absence import names_of, program

TRAIN = "trainers/speedrun/train.py"
SPEEDRUN = pytest.mark.waits(TRAIN)


@pytest.fixture(scope="module")
def speedrun():
    """The names that the trainer defines or imports."""
    return names_of(TRAIN)


def gpt(speedrun, **shape):
    """A small model of the speedrun's architecture with no weight at zero."""
    import torch

    torch.manual_seed(0)
    small = {"vocab_size": 256, "num_layers": 12, "num_heads": 2, "model_dim": 256, "max_seq_len": 512}
    model = speedrun.GPT(**{**small, **shape})
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return model


def loss(model, tokens, blocks=1, ignored=0):
    """The loss on all tokens but the first `ignored`, under a window of `blocks` blocks of 128."""
    import torch

    targets = tokens.roll(-1).long()
    targets[:ignored] = -100
    return model(tokens, targets, torch.tensor(blocks, dtype=torch.int32))


@SPEEDRUN
@pytest.mark.promise("speedrun/model-exact", "speedrun/feature-architecture")
def test_the_parameters_are_those_of_modded_nanogpt(speedrun):
    """“exact compatibility with modded-nanogpt”, “Full modded-nanogpt architecture implementation”."""
    import torch

    with torch.device("meta"):
        model = speedrun.GPT(vocab_size=50257, num_layers=12, num_heads=6, model_dim=768, max_seq_len=1024)
    assert sum(parameter.numel() for parameter in model.parameters()) == 275_742_784


@SPEEDRUN
@pytest.mark.promise("speedrun/model-fp8")
def test_the_fp8_operator_multiplies(speedrun):
    """“Custom FP8 operators (`nanogpt::mm`)”: x · wᵀ within what eight bits can hold."""
    import torch

    x, w = torch.randn(16, 32, dtype=torch.bfloat16), torch.randn(64, 32, dtype=torch.bfloat16)
    product, *_ = torch.ops.nanogpt.mm(x, w, 4 / 448, 4 / 448, 1 / 448)
    assert float((product - x @ w.T).norm() / (x @ w.T).norm()) < 0.06


@SPEEDRUN
@pytest.mark.promise("speedrun/model-attention")
def test_attention_sees_its_window_alone(speedrun):
    """“FlexAttention with sliding window block masks”: with a window of one block, no token reaches the next block."""
    import torch

    model, tokens = gpt(speedrun).eval(), torch.arange(256, dtype=torch.int32) % 200
    changed = tokens.clone()
    changed[5] = 77
    assert loss(model, tokens, 1, ignored=128) == loss(model, changed, 1, ignored=128)
    assert loss(model, tokens, 2, ignored=128) != loss(model, changed, 2, ignored=128)


@SPEEDRUN
@pytest.mark.promise("speedrun/model-unet", "speedrun/model-values")
def test_skips_and_value_embeddings_learn(speedrun):
    """“U-net skip connections with learned scalar weights”, “Value embeddings with 012...012 pattern”: all learn."""
    import torch

    model = gpt(speedrun)
    loss(model, torch.arange(256, dtype=torch.int32)).backward()
    assert model.scalars.grad[:6].all()  # a weight for each of the six skips
    assert len(model.value_embeds) == 3
    assert all(table.weight.grad.any() for table in model.value_embeds)


@SPEEDRUN
@pytest.mark.promise("speedrun/model-rope")
def test_half_of_the_pairs_do_not_rotate(speedrun):
    """“Half-truncated RoPE with base frequency tuning”: the slowest rotates by 1/1024."""
    import torch

    rotary = speedrun.Rotary(128, 64)
    assert (rotary.cos[:, 32:] == 1).all()
    assert float(torch.atan2(rotary.sin[1, 31], rotary.cos[1, 31]).abs()) == pytest.approx(1 / 1024, rel=1e-3)


@SPEEDRUN
@pytest.mark.promise("speedrun/model-relu")
def test_the_mlp_is_quadratic(speedrun):
    """“ReLU² activation”: twice the input gives four times the output."""
    import torch

    mlp, x = gpt(speedrun).blocks[0].mlp, torch.randn(1, 8, 256)
    torch.testing.assert_close(mlp(2 * x), 4 * mlp(x), rtol=1e-4, atol=1e-4)


@SPEEDRUN
@pytest.mark.promise("speedrun/model-softcap")
def test_logits_are_capped(speedrun):
    """“logit soft-capping”: whatever the head's weights, no loss is above the cap of 30 and ln V."""
    import torch

    model = gpt(speedrun).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(1e6)
    assert float(loss(model, torch.arange(256, dtype=torch.int32))) <= 30 + 5.6


@SPEEDRUN
@pytest.mark.promise("speedrun/model-optimizers")
def test_muon_and_dist_adam_step(speedrun):
    """“Muon and DistAdam optimizers”: Muon's update of a square matrix is orthogonal, whatever the gradient's size."""
    import torch

    weight = torch.nn.Parameter(torch.zeros(64, 64))
    weight.grad = 1e3 * torch.randn(64, 64)
    speedrun.Muon([weight], lr=1.0, momentum=0.0).step()
    assert float(torch.linalg.matrix_norm(weight.detach(), 2)) < 1.3
    assert issubclass(speedrun.DistAdam, torch.optim.Optimizer)


@SPEEDRUN
@pytest.mark.promise("speedrun/speed-warmup")
def test_the_warm_up_leaves_no_trace(tmp_path):
    """“Kernel warmup and torch.compile”: the first validation is that of the untrained model, ln 50304."""
    said = program(TRAIN, "--width 64 --iterations 1", at=tmp_path)
    assert "step:0/1 val_loss:10.8258" in said


@SPEEDRUN
@pytest.mark.promise("speedrun/speed-loading")
def test_batches_begin_with_documents(speedrun, tmp_path):
    """“Distributed data loading with document alignment”: every batch starts at a token that opens a document."""
    import numpy as np

    tokens = np.random.default_rng(0).integers(0, 50256, 4096, dtype=np.uint16)
    tokens[::100] = 50256
    header = np.zeros(256, dtype=np.int32)
    header[:3] = 20240520, 1, len(tokens)
    (tmp_path / "train_000001.bin").write_bytes(header.tobytes() + tokens.tobytes())
    batches = speedrun.distributed_data_generator(str(tmp_path / "train_*.bin"), 256, align_to_bos=True)
    for _ in range(3):
        inputs, targets = next(batches)
        assert int(inputs[0]) == 50256
        assert (inputs[1:] == targets[:-1]).all()


@SPEEDRUN
@pytest.mark.promise("speedrun/speed-accumulation")
def test_one_process_accumulates_what_eight_would_see(tmp_path):
    """“Memory-efficient gradient accumulation”: eight micro-batches a step on one process."""
    program(TRAIN, "--width 64 --iterations 1", at=tmp_path)
    assert stepscope.read_run(tmp_path).header.config["grad_accum_steps"] == 8
