"""Small models of the architectures whose operations are counted, written as people write them.

    Gpt(), Llama(kv_heads=2), Llama(window=8), Moe(), Encoder(), …

Each attends by `scaled_dot_product_attention` unless it says that it writes attention out.
"""

import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    """Causal self-attention with separate projections, as Hugging Face names them."""

    def __init__(self, hidden=64, heads=4, kv_heads=None, written_out=False, window=None):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads or heads, hidden // heads
        self.written_out, self.window = written_out, window
        self.q_proj = nn.Linear(hidden, heads * self.dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.dim, bias=False)
        self.o_proj = nn.Linear(heads * self.dim, hidden, bias=False)

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        split = [
            p(x).view(batch, length, -1, self.dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        ]
        y = self.attend(*split, self.mask(length, x.device) if mask is None else mask)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))

    def mask(self, length, device):
        """A sliding window, where there is one."""
        if self.window is None:
            return None
        row, column = torch.arange(length, device=device)[:, None], torch.arange(length, device=device)[None]
        return (column <= row) & (row - column < self.window)

    def attend(self, q, k, v, mask):
        if not self.written_out:
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=self.kv_heads != self.heads
            )
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dim)
        seen = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril() if mask is None else mask
        return F.dropout(scores.masked_fill(~seen, float("-inf")).softmax(-1), 0.1) @ v


class Mlp(nn.Module):
    """A feed-forward network, gated or not."""

    def __init__(self, hidden=64, width=160, gated=True):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, width, bias=False) if gated else None
        self.up_proj = nn.Linear(hidden, width, bias=False)
        self.down_proj = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        up = self.up_proj(x)
        return self.down_proj(F.gelu(up) if self.gate_proj is None else F.silu(self.gate_proj(x)) * up)


class Experts(nn.Module):
    """Top-2 experts: each token meets two, in a loop over those that were chosen."""

    def __init__(self, hidden=64, width=96, experts=4, active=2):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.experts = nn.ModuleList(Mlp(hidden, width) for _ in range(experts))
        self.active = active

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights, chosen = self.router(flat).softmax(-1).topk(self.active)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == index)
            out = out.index_add(0, rows, expert(flat[rows]) * weights[rows, slots, None])
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, attention, mlp, hidden=64):
        super().__init__()
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention, self.mlp = attention, mlp

    def forward(self, x, mask=None):
        x = x + self.attention(self.first(x), mask)
        return x + self.mlp(self.second(x))


class Decoder(nn.Module):
    """Embedding, blocks, norm, head; with a configuration like Hugging Face's."""

    def __init__(self, attention=Attention, mlp=Mlp, tied=False, checkpointed=None, vocab=512, layers=3, **config):
        super().__init__()
        self.config = SimpleNamespace(
            **{"hidden_size": 64, "num_hidden_layers": layers, "num_attention_heads": 4, "vocab_size": vocab},
            **config,
        )
        self.table = nn.Embedding(vocab, 64)
        self.blocks = nn.ModuleList(Block(attention(), mlp()) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, vocab, bias=False)
        if tied:
            self.head.weight = self.table.weight
        self.checkpointed = checkpointed

    def forward(self, ids, mask=None):
        x = self.table(ids)
        for block in self.blocks:
            if self.checkpointed is None:
                x = block(x, mask)
            else:
                x = checkpoint(block, x, mask, use_reentrant=self.checkpointed == "reentrant")
        return self.head(self.norm(x))


class Packed(Decoder):
    """Documents packed into a row, told apart by their end token, 0."""

    def forward(self, ids):
        document = (ids == 0).cumsum(-1).roll(1, -1)
        document[:, 0] = 0
        same = document[:, :, None] == document[:, None, :]
        causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        return super().forward(ids, (same & causal)[:, None])


class LoraLinear(nn.Module):
    """A frozen layer with a low-rank one beside it, as PEFT names them."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B(self.lora_A(x))


def lora(model, targets=("q_proj", "v_proj"), rank=4):
    """The same model frozen, with adapters on the named layers."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets:
                setattr(module, name, LoraLinear(child, rank))
    return model


def gpt(**options):
    """GPT-2's shape: tied head, attention as wide as the model, a feed-forward network without a gate."""
    mlp = lambda: Mlp(width=256, gated=False)  # noqa: E731
    return Decoder(mlp=mlp, tied=True, intermediate_size=256, **options)


def llama(window=None, **options):
    """Llama's: grouped queries and a gate."""
    attention = lambda: Attention(kv_heads=2, window=window)  # noqa: E731
    return Decoder(attention, num_key_value_heads=2, intermediate_size=160, sliding_window=window, **options)


def moe(**options):
    """Mixtral's: two of four experts."""
    return Decoder(mlp=Experts, num_local_experts=4, num_experts_per_tok=2, intermediate_size=96, **options)


def encoder():
    """The encoder layer of torch between an embedding and a head."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.Sequential(nn.Embedding(256, 64), layer, nn.Linear(64, 256))


def convolutional():
    """Convolutions, one of them grouped and one transposed."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def perceptron():
    """Three linear layers."""
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


class Recurrent(nn.Module):
    """A language model on an LSTM."""

    def __init__(self):
        super().__init__()
        self.table, self.cells = nn.Embedding(100, 32), nn.LSTM(32, 48, num_layers=2, batch_first=True)
        self.head = nn.Linear(48, 100)

    def forward(self, ids):
        return self.head(self.cells(self.table(ids))[0])
