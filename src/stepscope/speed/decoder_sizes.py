"""Reads a decoder's sizes out of its configuration, and holds them against its parameters.

    sizes = decoder_of(model)           # FlopsUnknown where there is no configuration, or one that does not fit
    flops_by_form(model, args, kwargs)  # the closed form for this model and input

The names are those of Hugging Face's configurations; a configuration whose sizes do not give the model's number of
parameters is not believed.
"""

from itertools import pairwise
from math import prod
from typing import Any

import torch

from .closed_forms import Decoder, Linear, decoder_flops, with_lora
from .fake_copy import unwrapped
from .flop_groups import Flops, FlopsUnknown, tensors_in, units_of
from .known_values import read
from .number_formats import number_format

FITS = 0.02  # by how much of the parameters a configuration may be off: biases are not in the sum
REFUSED = (
    "is_encoder_decoder",
    "kv_lora_rank",
    "ssm_cfg",
    "mamba_d_state",
    "linear_num_key_heads",
    "attn_layer_period",
)
GATES = ("gate_proj", "gate_up_proj", "w3")
NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "n_kv_head", "n_kv_heads"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab": ("vocab_size",),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "active": ("num_experts_per_tok", "num_experts_per_token", "top_k"),
    "expert_intermediate": ("moe_intermediate_size",),
    "shared": ("shared_expert_intermediate_size",),
    "shared_experts": ("n_shared_experts",),
    "dense_layers": ("first_k_dense_replace",),
}


def decoder_of(model: Any) -> Decoder:
    """The sizes of a model that says them in its `config`."""
    config = getattr(model, "config", None)
    config = getattr(config, "text_config", config)
    if any(_get(config, name) for name in REFUSED):
        raise FlopsUnknown("the closed forms know decoders with attention in every layer")
    found: dict[str, Any] = {name: _first_of(config, keys) for name, keys in NAMES.items()}
    if missing := [name for name in ("hidden", "layers", "heads", "vocab") if found[name] is None]:
        raise FlopsUnknown(f"the model has no configuration that names its {', '.join(missing)}")
    intermediate = found["intermediate"] or 4 * found["hidden"]
    expert = found["expert_intermediate"] or intermediate
    names = {part for name, _ in model.named_parameters() for part in name.split(".")}
    decoder = Decoder(
        layers=found["layers"],
        hidden=found["hidden"],
        heads=found["heads"],
        kv_heads=found["kv_heads"] or found["heads"],
        head_dim=_get(config, "head_dim") or found["hidden"] // found["heads"],
        vocab=found["vocab"],
        intermediate=intermediate,
        gated=any(name in names for name in GATES),
        experts=found["experts"] or 0,
        active=found["active"] or 0,
        expert_intermediate=expert if found["experts"] else 0,
        shared_intermediate=found["shared"] or (found["shared_experts"] or 0) * expert,
        dense_layers=found["dense_layers"] or 0,
        windows=_windows(config, found["layers"]),
    )
    _check(decoder, model)
    return decoder


def _get(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


def _first_of(config: Any, names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := _get(config, name))), None)


def _windows(config: Any, layers: int) -> tuple[int | None, ...]:
    window = _get(config, "sliding_window")
    if not window or _get(config, "use_sliding_window") is False:
        return ()
    kinds = _get(config, "layer_types") or ["sliding_attention"] * layers
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _check(decoder: Decoder, model: Any) -> None:
    """A configuration that does not give the number of weights describes something else."""
    expected = sum(linear.inputs * linear.outputs * linear.copies for linear in decoder.linears())
    actual = sum(_weights(model))
    tied = decoder.hidden * decoder.vocab
    if not any(abs(actual - e) <= FITS * e for e in (expected, expected + tied)):
        raise FlopsUnknown(f"the configuration stands for {expected:,} weights in its blocks, the model has {actual:,}")


def _weights(model: Any) -> Any:
    """The weights of every matrix but the embedding tables and adapters, whatever they are packed into."""
    counted = set()
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, torch.nn.Embedding):
            counted.add(id(weight))
        elif weight is not None and hasattr(module, "in_features") and id(weight) not in counted:
            counted.add(id(weight))
            if "lora_" not in name:
                yield module.in_features * module.out_features
    for name, parameter in model.named_parameters():
        if id(parameter) not in counted and parameter.dim() >= 2 and "lora_" not in name:
            yield prod(parameter.shape)


def flops_by_form(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], autocast: Any = ()) -> Flops:
    """The closed form for a model and its input."""
    model = unwrapped(model)
    if not isinstance(model, torch.nn.Module):
        raise FlopsUnknown("what is trained is no module")
    decoder = decoder_of(model)
    unit, units = units_of(args, kwargs)
    if unit != "token":
        raise FlopsUnknown("the closed forms need token ids")
    linears, embedding, head = _trained(decoder, model)
    documents, masked = _documents(kwargs)
    sequence = _first(args, kwargs).shape[-1]
    weight = next(p for p in model.parameters() if p.is_floating_point() and p.dim() >= 2)
    dtype = dict(autocast).get(weight.device.type, weight.dtype)
    return decoder_flops(
        decoder,
        sequence,
        units=units,
        linears=linears,
        documents=documents,
        embedding_trained=embedding,
        head_trained=head,
        checkpointed=bool(getattr(model, "is_gradient_checkpointing", False)),
        masked=masked,
        dtype=number_format(dtype, weight.device.type),
    )


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs["input_ids"] if kwargs.get("input_ids") is not None else (tensors_in(args) or tensors_in(kwargs))[0]


def _trained(decoder: Decoder, model: Any) -> tuple[list[Linear], bool, bool]:
    """The linear layers with what is trained of them, and whether the embedding and the head are."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    embedding = any(p.requires_grad for p in model.parameters() if id(p) in tables)
    rank, targets, blocks, head = 0, set(), set(), embedding
    for name, parameter in model.named_parameters():
        if id(parameter) in tables or parameter.dim() < 2:
            continue
        if "lora_A" in name:
            rank = parameter.shape[0]
            targets.add(name.partition(".lora_A")[0].rpartition(".")[2])
        elif tuple(parameter.shape) == (decoder.vocab, decoder.hidden):
            head = parameter.requires_grad
        elif "lora_" not in name:
            blocks.add(parameter.requires_grad)
    linears = decoder.linears()
    if len(blocks) > 1 or (rank and (True in blocks or not targets <= {linear.name for linear in linears})):
        raise FlopsUnknown("only a part of the blocks is trained, in a way that the closed forms do not know")
    if rank:
        return with_lora(linears, rank, targets), embedding, head
    if blocks == {False}:
        raise FlopsUnknown("the blocks are frozen, and what is trained instead is not known")
    return linears, embedding, head


def _documents(kwargs: dict[str, Any]) -> tuple[tuple[int, ...] | None, bool]:
    """The lengths of packed documents, and whether the mask is known."""
    bounds = kwargs.get("cu_seq_lens_q", kwargs.get("cu_seqlens"))
    if isinstance(bounds, torch.Tensor):
        return tuple(int(length) for length in read(bounds).diff().tolist()), True
    positions = kwargs.get("position_ids")
    if isinstance(positions, torch.Tensor) and positions.dim() == 2:
        return _lengths(positions), True
    mask = kwargs.get("attention_mask")
    return None, mask is None or (isinstance(mask, torch.Tensor) and mask.dim() == 2 and bool(read(mask).all()))


def _lengths(positions: Any) -> tuple[int, ...] | None:
    """Where positions begin again at 0, a document begins."""
    rows = read(positions).tolist()
    lengths = []
    for row in rows:
        starts = [i for i, position in enumerate(row) if position == 0 or i == 0] + [len(row)]
        lengths += [after - before for before, after in pairwise(starts)]
    return tuple(lengths) if len(lengths) > len(rows) else None
