"""LoRA and quantised weights, as PEFT and bitsandbytes really make them, equal closed forms."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from stepscope.speed.segments import segments  # noqa: E402


def sizes(model: Any, optimizer: Any = ()) -> dict[str, int]:
    """Pageable bytes by segment."""
    return {segment.name: segment.pageable for segment in segments(model, optimizer)}


def mlp() -> nn.Module:
    """8 · 16 + 16 + 16 · 4 + 4 = 212 parameters."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


LORA = (4 * 8 + 16 * 4) + (4 * 16 + 4 * 4)  # rank 4: A and B of both layers


@pytest.fixture
def peft() -> Any:
    """The real package, where it is installed."""
    return pytest.importorskip("peft")


@pytest.fixture
def bitsandbytes() -> Any:
    """The real package, where it is installed."""
    return pytest.importorskip("bitsandbytes")


def test_lora_is_apart_from_the_frozen_weights(peft: Any) -> None:
    """Gradients and optimizer state are the adapters' alone."""
    model = peft.get_peft_model(mlp(), peft.LoraConfig(r=4, target_modules=["0", "2"]))
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    model(torch.randn(3, 8)).sum().backward()
    optimizer.step()
    assert sizes(model, optimizer) == {
        "weights": 212 * 4,
        "lora": LORA * 4,
        "gradients": LORA * 4,
        "optimizer": 2 * LORA * 4 + 4 * 4,
    }


def test_two_adapters_are_both_there(peft: Any) -> None:
    """Active or not, they hold memory."""
    config = peft.LoraConfig(r=4, target_modules=["0", "2"])
    model = peft.get_peft_model(mlp(), config)
    model.add_adapter("second", config)
    assert sizes(model) == {"weights": 212 * 4, "lora": 2 * LORA * 4}


def test_a_magnitude_vector_is_lora_and_a_module_to_save_is_a_weight(peft: Any) -> None:
    """DoRA on the first layer; the second is trained as a whole, beside its original."""
    config = peft.LoraConfig(r=4, target_modules=["0"], use_dora=True, modules_to_save=["2"])
    model = peft.get_peft_model(mlp(), config)
    assert sizes(model) == {"weights": (212 + 68) * 4, "lora": (4 * 8 + 16 * 4 + 16) * 4}


def test_adapters_of_another_method_are_found_by_their_layer(peft: Any) -> None:
    """IA³ names nothing `lora_`: a vector for each of 16 outputs."""
    config = peft.IA3Config(target_modules=["0"], feedforward_modules=[])
    assert sizes(peft.get_peft_model(mlp(), config)) == {"weights": 212 * 4, "lora": 16 * 4}


def test_merged_adapters_are_gone(peft: Any) -> None:
    """What is left is the model."""
    model = peft.get_peft_model(mlp(), peft.LoraConfig(r=4, target_modules=["0", "2"]))
    assert sizes(model.merge_and_unload()) == {"weights": 212 * 4}


def test_a_real_transformer_with_lora(peft: Any) -> None:
    """A small GPT-2: what PEFT itself calls trainable is the segment, tied embeddings count once."""
    transformers = pytest.importorskip("transformers")
    base = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=100))
    alone = sum(p.numel() for p in base.parameters()) * 4
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))
    trainable, _ = model.get_nb_trainable_parameters()
    found = sizes(model)
    assert trainable == 2 * (4 * 32 + 4 * 96)
    assert (found["lora"], found["weights"]) == (trainable * 4, alone)


def test_names_of_ones_own_count_as_lora_only_where_they_begin_so() -> None:
    """`lora_A` of a model without PEFT does, `flora` does not."""
    model = nn.ParameterDict({"lora_A": torch.zeros(2, 2), "flora": torch.zeros(3, 3)})
    assert sizes(model) == {"weights": 36, "lora": 16}


NF4 = 128 * 64 // 2 + 128 * 64 // 64 * 4 + 16 * 4  # half a byte each, a float32 a block of 64, the code book
NESTED = 128 * 64 // 2 + 128 * 64 // 64 + 16 * 4 + (4 + 4 + 256 * 4)  # scales in a byte; their scale, mean, code book


@pytest.mark.parametrize(("nested", "expected"), [(False, NF4), (True, NESTED)])
def test_four_bit_weights_hold_their_quantisation_state(bitsandbytes: Any, nested: bool, expected: int) -> None:
    """Scales, code book, and with double quantisation the scales' own."""
    layer = bitsandbytes.nn.Linear4bit(64, 128, bias=False, quant_type="nf4", compress_statistics=nested)
    model = nn.Sequential(layer, nn.Linear(128, 2, bias=False))
    assert sizes(model) == {"weights": (64 * 128 + 256) * 4}  # not quantised before it goes to a device
    assert sizes(model.to("cpu")) == {"qlora": expected, "weights": 256 * 4}


def test_eight_bit_weights_hold_their_scales_before_and_after_a_forward_pass(bitsandbytes: Any) -> None:
    """One byte each and a float32 a row; the layer takes them over from its weight."""
    model = bitsandbytes.nn.Linear8bitLt(64, 128, bias=False, has_fp16_weights=False).to("cpu")
    expected = {"qlora": 64 * 128 + 128 * 4}
    assert sizes(model) == expected
    model(torch.randn(2, 64))
    assert model.weight.CB is None
    assert sizes(model) == expected


def test_qlora_is_both(peft: Any, bitsandbytes: Any) -> None:
    """Adapters in float32 over four-bit weights."""
    base = nn.Sequential(bitsandbytes.nn.Linear4bit(64, 128, bias=False, compress_statistics=False)).to("cpu")
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["0"]))
    assert sizes(model) == {"qlora": NF4, "lora": (4 * 64 + 4 * 128) * 4}
