"""The closed forms of decoders, against what is counted, and which configurations are not believed."""

from types import SimpleNamespace

import pytest
import torch

from stepscope.speed.closed_forms import Decoder, decoder_flops, with_lora
from stepscope.speed.counted import count
from stepscope.speed.decoder_sizes import decoder_of, flops_by_form
from stepscope.speed.flops import FlopsUnknown, of_step

from .flop_models import gpt, llama, lora, moe

IDS = torch.randint(1, 256, (2, 32), generator=torch.Generator().manual_seed(0))
MODELS = {
    "dense": gpt,
    "grouped queries, gated": llama,
    "window": lambda: llama(window=8),
    "LoRA on queries and values": lambda: lora(gpt()),
    "LoRA on keys": lambda: lora(llama(), ("k_proj",)),
    "LoRA on everything": lambda: lora(
        llama(), ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), 8
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_closed_form_is_what_is_counted(name):
    """Two ways that share nothing come to the same number, group by group."""
    model = MODELS[name]()
    counted, formed = count(model, (IDS,), {}), flops_by_form(model, (IDS,), {})
    for group in ("blocks", "lm_head", "attention", "attention_dense", "model_flop"):
        assert getattr(formed, group) == pytest.approx(getattr(counted, group), rel=1e-12), group
    assert counted.by_dtype.keys() == formed.by_dtype.keys()


def test_llama_by_hand():
    """Six operations a weight: 6.98 billion of them in the blocks of Llama 3 8B."""
    sizes = Decoder(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=14336, vocab=128256)
    flops = decoder_flops(sizes, sequence=8192)
    assert flops.blocks == 6 * 6_979_321_856
    assert flops.lm_head == 6 * 4096 * 128256
    assert flops.attention_dense == 12 * 32 * 4096 * 8192
    assert flops.attention == pytest.approx(6 * 32 * 4096 * 8193)


def test_mixtral_by_hand():
    """Of eight experts a token meets two, and the router."""
    sizes = Decoder(
        layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, vocab=32000, intermediate=14336,
        experts=8, active=2, expert_intermediate=14336,
    )  # fmt: skip
    attention, expert = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14336
    assert decoder_flops(sizes, 4096).blocks == 6 * 32 * (attention + 2 * expert + 4096 * 8)


def test_a_frozen_model_with_adapters_costs_four_operations_a_weight():
    """About two thirds of full training, as the adapters are small."""
    sizes = Decoder(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=14336, vocab=128256)
    full = decoder_flops(sizes, 2048)
    frozen = decoder_flops(sizes, 2048, linears=with_lora(sizes.linears(), 16, {"q_proj", "v_proj"}))
    assert frozen.lm_head == full.lm_head * 4 / 6
    assert frozen.blocks / full.blocks == pytest.approx(2 / 3, rel=0.01)


def test_packed_documents_are_read_from_their_positions():
    """Positions that begin again at 0 begin a document; experts make this model uncountable, not unknown."""
    positions = torch.cat([torch.arange(10), torch.arange(22)]).expand(2, -1)
    flops = flops_by_form(moe(), (IDS,), {"position_ids": positions})
    assert flops.attention == pytest.approx(flops.attention_dense * (10 * 11 + 22 * 23) / 2 / 32**2)
    bounds = torch.tensor([0, 10, 32])
    assert flops_by_form(moe(), (IDS[:1],), {"cu_seqlens": bounds}).attention == pytest.approx(flops.attention)


def test_a_mask_with_padding_leaves_attention_unknown():
    """Padding hides pairs that the form does not know."""
    mask = torch.ones(2, 32, dtype=torch.long)
    assert flops_by_form(gpt(), (IDS,), {"attention_mask": mask}).attention is not None
    mask[0, 20:] = 0
    assert flops_by_form(gpt(), (IDS,), {"attention_mask": mask}).attention is None


def test_a_configuration_that_does_not_fit_is_not_believed():
    """Sizes that do not give the model's weights describe another model."""
    model = gpt()
    model.config.num_hidden_layers = 4
    with pytest.raises(FlopsUnknown, match="the configuration stands for 196,608 weights"):
        decoder_of(model)


def test_a_decoder_of_another_kind_is_refused():
    """Latent attention and state spaces have other sizes than the form's."""
    model = gpt()
    model.config.kv_lora_rank = 512
    with pytest.raises(FlopsUnknown, match="attention in every layer"):
        decoder_of(model)


def test_a_partly_frozen_model_has_no_form():
    """The form knows all trained, or adapters alone."""
    model = moe()
    model.blocks[0].requires_grad_(False)
    with pytest.raises(FlopsUnknown, match="only a part of the blocks is trained"):
        flops_by_form(model, (IDS,), {})


def test_both_reasons_are_said():
    """A model that can neither be counted nor be read says where each way ended."""
    model = moe()
    model.config = SimpleNamespace()
    with pytest.raises(FlopsUnknown, match=r"decides by values.*no configuration that names its hidden, layers"):
        of_step(model, (IDS,))
