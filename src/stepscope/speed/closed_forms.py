"""The operations of a decoder transformer by formula, from its sizes alone.

    llama = Decoder(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=14336, vocab=128256)
    flops = decoder_flops(llama, sequence=8192)
    flops = decoder_flops(llama, sequence=8192, linears=with_lora(llama.linears(), 16, {"q_proj", "v_proj"}))

A linear layer of m × n weights costs 2·m·n for a token forward, 2·m·n for the gradient of its input, and 2·m·n for that
of its weights: 6·m·n in training, 4·m·n where it is frozen, 2·m·n where nothing before it is trained either. Of a
mixture of experts each token meets the active ones.
"""

from collections.abc import Iterable

import msgspec

from .flop_groups import Flops
from .masks import attended

STAGES = {"q_proj": 0, "k_proj": 0, "v_proj": 0, "o_proj": 1, "gate_proj": 2, "up_proj": 2, "router": 2, "down_proj": 3}


class Linear(msgspec.Struct, frozen=True, kw_only=True):
    """A linear layer as a token meets it."""

    name: str
    layer: int
    inputs: int
    outputs: int
    uses: float = 1  # how often a token meets it: the active experts
    copies: int = 1  # how many of them there are: all experts
    trained: bool = True
    after: bool = False  # behind an adapter's first half, so that its input has a gradient in any case

    @property
    def stage(self) -> int:
        """Its place in the layer: those of one place have the same input."""
        return STAGES[self.name.partition(".")[0]]

    @property
    def forward(self) -> float:
        """Operations of a token's forward pass."""
        return 2 * self.inputs * self.outputs * self.uses


class Decoder(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a decoder-only transformer, as its configuration names them."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    intermediate: int
    gated: bool = True  # gate, up and down; else up and down
    experts: int = 0
    active: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0  # of experts that every token meets
    dense_layers: int = 0  # the first few without experts
    windows: tuple[int | None, ...] = ()  # of each layer; None sees everything before

    def linears(self) -> list[Linear]:
        """Every linear layer of the blocks."""
        return [linear for layer in range(self.layers) for linear in (*self._attention(layer), *self._mlp(layer))]

    def _attention(self, layer: int) -> Iterable[Linear]:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        for name, outputs in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            yield Linear(name=name, layer=layer, inputs=self.hidden, outputs=outputs)
        yield Linear(name="o_proj", layer=layer, inputs=queries, outputs=self.hidden)

    def _mlp(self, layer: int) -> Iterable[Linear]:
        if not self.experts or layer < self.dense_layers:
            yield from self._feed_forward(layer, self.intermediate, 1, 1)
            return
        yield Linear(name="router", layer=layer, inputs=self.hidden, outputs=self.experts)
        yield from self._feed_forward(layer, self.expert_intermediate, self.active, self.experts)
        if self.shared_intermediate:
            yield from self._feed_forward(layer, self.shared_intermediate, 1, 1)

    def _feed_forward(self, layer: int, width: int, uses: float, copies: int) -> Iterable[Linear]:
        for name in ("gate_proj", "up_proj") if self.gated else ("up_proj",):
            yield Linear(name=name, layer=layer, inputs=self.hidden, outputs=width, uses=uses, copies=copies)
        yield Linear(name="down_proj", layer=layer, inputs=width, outputs=self.hidden, uses=uses, copies=copies)


def with_lora(linears: list[Linear], rank: int, targets: Iterable[str]) -> list[Linear]:
    """The same layers frozen, with two small trained ones beside each target."""
    found: list[Linear] = []
    for linear in linears:
        found.append(msgspec.structs.replace(linear, trained=False))
        if linear.name in targets:
            down = msgspec.structs.replace(linear, name=f"{linear.name}.lora_A", outputs=rank)
            up = msgspec.structs.replace(linear, name=f"{linear.name}.lora_B", inputs=rank, after=True)
            found += [down, up]
    return found


def decoder_flops(
    decoder: Decoder,
    sequence: int,
    *,
    units: int | None = None,
    linears: list[Linear] | None = None,
    documents: tuple[int, ...] | None = None,
    embedding_trained: bool | None = None,
    head_trained: bool | None = None,
    checkpointed: bool = False,
    masked: bool = True,
    dtype: str = "fp32",
) -> Flops:
    """The operations for each token of sequences of this length, forward and backward."""
    linears = decoder.linears() if linears is None else linears
    full = all(linear.trained for linear in linears)
    embedding = full if embedding_trained is None else embedding_trained
    trained = {(linear.layer, linear.stage) for linear in linears if linear.trained}
    first = (-1, 0) if embedding else min(trained, default=(decoder.layers, 0))
    blocks = sum(linear.forward * (1 + _input(linear, first) + linear.trained) for linear in linears)
    head = 2 * decoder.hidden * decoder.vocab * (1 + bool(trained or embedding) + _flag(head_trained, full))
    dense, seen, forward = 0.0, 0.0, 0.0
    for layer in range(decoder.layers):
        one = 2 * decoder.heads * decoder.head_dim * sequence  # scores, or values, of one query
        flop = one * (2 + _attention_backward(linears, layer, first))
        dense, forward = dense + flop, forward + 2 * one
        seen += flop * _kept(decoder, layer, sequence, documents)
    again = forward + sum(linear.forward for linear in linears) if checkpointed else 0
    groups = {"blocks": float(blocks), "lm_head": float(head), "attention": seen}
    return Flops(
        unit="token",
        units=sequence if units is None else units,
        blocks=blocks,
        lm_head=head,
        attention=seen if masked else None,
        attention_dense=dense,
        recompute=again,
        by_dtype={group: {dtype: flop} for group, flop in groups.items() if masked or group != "attention"},
        source="closed form",
    )


def _flag(given: bool | None, default: bool) -> bool:
    return default if given is None else given


def _input(linear: Linear, first: tuple[int, int]) -> bool:
    """Whether the gradient of a layer's input is needed: something before it is trained."""
    return linear.after or (linear.layer, linear.stage) > first


def _attention_backward(linears: list[Linear], layer: int, first: tuple[int, int]) -> int:
    """How many of the four backward matmuls of a layer's attention are needed."""
    if (layer, 0) > first:
        return 4
    trained = {name for linear in linears if linear.layer == layer and linear.trained for name in [linear.name[:6]]}
    query, key, value = ("q_proj" in trained), ("k_proj" in trained), ("v_proj" in trained)
    return query + key + (query or key) + value


def _kept(decoder: Decoder, layer: int, sequence: int, documents: tuple[int, ...] | None) -> float:
    window = decoder.windows[layer] if decoder.windows else None
    total = sequence if documents is None else sum(documents)
    return attended(sequence, window=window, documents=documents) / (total * sequence)
