"""GPT-2 of 124M parameters as it is trained: bf16 autocast, torch.compile, fused AdamW, 32 × 1024 tokens a step.

training = gpt2()                  # made and compiled once a process; needs a CUDA device
for step in range(15):
    for name, part in training.parts():
        part()
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, VOCABULARY, CONTEXT = 12, 768, 12, 50304, 1024
BATCH = 32
WARM_UP = 8  # steps until everything is compiled and the allocator has settled


class Block(nn.Module):
    """Attention and MLP behind their norms."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Any) -> Any:
        """(batch, tokens, width) to the same."""
        batch, tokens, _ = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, width of a head)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class GPT2(nn.Module):
    """The loss of a language model whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any, targets: Any) -> Any:
        """Mean over all tokens."""
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class Training:
    """The model, its update and its moving average, as the parts of a step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        self.model = GPT2().cuda()
        self.compiled: Any = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.average = [p.detach().clone() for p in self.model.parameters()]
        self._batches = [torch.randint(VOCABULARY, (BATCH, CONTEXT + 1)).pin_memory() for _ in range(4)]
        self.host: Any = self._batches[0]  # the newest batch that was fetched
        self.ids: Any = None
        self.loss: Any = None

    def batches(self, steps: int) -> Any:
        """So many, made beforehand: the fetch is no more than a handover."""
        for step in range(steps):
            yield self._batches[step % len(self._batches)]

    def parts(self) -> list[tuple[str, Callable[[], Any]]]:
        """What follows the fetch, by name: with that eight phases."""
        return [
            ("data_transfer", self.transfer),
            ("forward_pass", self.forward),
            ("backward_pass", lambda: self.loss.backward()),
            ("clip", lambda: nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)),
            ("optimizer_step", self.optimizer.step),
            ("zero_grad", self.optimizer.zero_grad),
            ("ema_update", self.average_up),
        ]

    def transfer(self) -> None:
        """Pinned, without waiting."""
        self.ids = self.host.to("cuda", non_blocking=True)

    def forward(self) -> None:
        """The loss."""
        with torch.autocast("cuda", torch.bfloat16):
            self.loss = self.compiled(self.ids[:, :-1], self.ids[:, 1:])

    def average_up(self) -> None:
        """The moving average of the parameters."""
        with torch.no_grad():
            torch._foreach_lerp_(self.average, [*self.model.parameters()], 0.01)


@cache
def gpt2() -> Training:
    """One for all that measure with it: compiling takes the best part of a minute."""
    training = Training()
    for batch in training.batches(WARM_UP):
        training.host = batch
        for _, part in training.parts():
            part()
    torch.cuda.synchronize()
    return training
