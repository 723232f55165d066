"""The operations of a training step, against torch's own counter on the real model and against formulas."""

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from stepscope.speed.flops import of_step

from .flop_models import Attention, Packed, Recurrent, convolutional, encoder, gpt, llama, lora, moe, perceptron

IDS = torch.randint(1, 256, (2, 32), generator=torch.Generator().manual_seed(0))
IMAGES, ROWS = torch.zeros(4, 3, 16, 16), torch.zeros(8, 32)
WRITTEN = {
    "GPT-2": (gpt, IDS),
    "GPT-2, attention written out": (lambda: gpt(attention=lambda: Attention(written_out=True)), IDS),
    "Llama": (llama, IDS),
    "sliding window": (lambda: llama(window=8), IDS),
    "LoRA": (lambda: lora(gpt()), IDS),
    "packed documents": (Packed, IDS),
    "encoder": (encoder, IDS),
    "experts": (moe, IDS),
    "experts with LoRA": (lambda: lora(moe()), IDS),
    "checkpointed": (lambda: gpt(checkpointed="plain"), IDS),
    "checkpointed, reentrant": (lambda: gpt(checkpointed="reentrant"), IDS),
    "convolutional": (convolutional, IMAGES),
    "perceptron": (perceptron, ROWS),
}


def counted_by_torch(model, *args):
    """What torch's counter says of a real forward and backward pass."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(*args).sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", WRITTEN)
def test_the_count_is_that_of_torch(name):
    """Where torch's counter counts, ours says the same to the last operation."""
    make, given = WRITTEN[name]
    model = make()
    flops = of_step(model, (given,))
    assert round(flops.hardware_flop * flops.units) == counted_by_torch(model, given)


def test_a_small_transformer_by_hand():
    """Six operations for each weight and token, in blocks and head; attention four pairs of matmuls a pair."""
    flops = of_step(encoder(), (torch.randint(256, (8, 32)),))
    assert (flops.unit, flops.units) == ("token", 256)
    assert flops.lm_head == 6 * 64 * 256
    assert flops.blocks == 6 * (4 * 64 * 64 + 2 * 64 * 128)
    assert flops.attention == flops.attention_dense == 12 * 32 * 64


def test_gpt_by_hand():
    """A causal mask allows 33 of 64 pairs of 32 tokens; a tied head counts as a head."""
    flops = of_step(gpt(), (IDS,))
    assert flops.blocks == 6 * 3 * (4 * 64 * 64 + 2 * 64 * 256)
    assert flops.lm_head == 6 * 64 * 512
    assert flops.attention_dense == 3 * 12 * 32 * 64
    assert flops.attention == flops.attention_dense * 33 / 64
    assert flops.recompute == 0


def test_grouped_queries_by_hand():
    """Fewer key and value heads make their projections smaller, not attention."""
    flops = of_step(llama(), (IDS,))
    assert flops.blocks == 6 * 3 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160)
    assert flops.attention == 3 * 6 * 33 * 64


def test_frozen_weights_have_no_weight_gradient():
    """Four operations for a frozen weight, two where nothing before it is trained, six for an adapter."""
    flops = of_step(lora(gpt()), (IDS,))
    weights, first = 4 * 64 * 64 + 2 * 64 * 256, 3 * 64 * 64
    adapters = 2 * (64 * 4 + 4 * 64)
    assert flops.blocks == 3 * (4 * weights + 6 * adapters) - 2 * first - 2 * 2 * 64 * 4
    assert flops.lm_head == 4 * 64 * 512


def test_each_token_meets_its_active_experts():
    """Two of four experts and the router: what a token costs, not what the model holds."""
    flops = of_step(moe(), (IDS,))
    assert flops.source == "closed form"
    assert flops.blocks == 6 * 3 * (4 * 64 * 64 + 64 * 4 + 2 * 3 * 64 * 96)


def test_a_convolution_counts_for_samples():
    """Each output place costs its window; a grouped one its own channels alone, backward as well."""
    flops = of_step(nn.Conv1d(8, 8, 3, groups=8), (torch.zeros(2, 8, 50),))
    assert (flops.unit, flops.units) == ("sample", 2)
    assert flops.other == 2 * (2 * 8 * 3 * 48)  # forward, and the gradient of the weights
    assert (flops.blocks, flops.lm_head, flops.attention) == (0, 0, 0)


def test_a_recurrent_layer_counts_its_gates():
    """A fused LSTM, of which torch's counter sees nothing: its two weight matrices for each token."""
    flops = of_step(Recurrent(), (IDS % 100,))
    assert flops.blocks == 6 * 4 * 48 * ((32 + 48) + (48 + 48))
    assert flops.lm_head == 6 * 48 * 100


@pytest.mark.parametrize("way", ["plain", "reentrant"])
def test_checkpointing_computes_again(way):
    """What checkpointing repeats is hardware work and no work of the model."""
    plain, repeated = of_step(gpt(), (IDS,)), of_step(gpt(checkpointed=way), (IDS,))
    assert repeated.model_flop == plain.model_flop
    assert (repeated.blocks, repeated.lm_head, repeated.attention) == (plain.blocks, plain.lm_head, plain.attention)
    forward = 2 * 3 * (4 * 64 * 64 + 2 * 64 * 256) + 3 * 4 * 32 * 64
    # the plain way stops when the last tensor that backward needs is there: before the block's last matmul
    assert repeated.recompute == forward - (2 * 3 * 64 * 256 if way == "plain" else 0)


def test_the_number_format_is_that_of_autocast():
    """Under autocast the matmuls run in its format, whatever the weights are kept in."""
    with torch.autocast("cpu", torch.bfloat16):
        flops = of_step(gpt(), (IDS,))
    assert set(flops.by_dtype["blocks"]) == {"bf16"}
    again = of_step(gpt(), (IDS,), autocast=(("cpu", torch.bfloat16),))
    assert again == flops


def test_a_loss_inside_the_model_is_what_is_differentiated():
    """A model that returns a loss beside its logits goes back through the loss once."""

    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = gpt()

        def forward(self, input_ids, labels=None):
            logits = self.inner(input_ids)
            return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}

    flops = of_step(WithLoss(), (), {"input_ids": IDS, "labels": IDS})
    assert flops.model_flop == of_step(gpt(), (IDS,)).model_flop
