"""Three small trainings on a CPU in which faults are planted: steps of some 5 to 20 ms, one thread.

job = JOBS["convolution"](seed=3)
loss = job.loss(job.batch(7))
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

POOL = 8  # batches that are made before the run, and used again and again


class Job:
    """A model, its optimizer and its batches."""

    def __init__(self, model: nn.Module, optimizer: Any, batches: list[Any], loss: Callable[[Any, Any], Any]):
        self.model, self.optimizer, self._batches, self._loss = model, optimizer, batches, loss

    def batch(self, step: int) -> Any:
        """The batch of a step, at no cost."""
        return self._batches[step % len(self._batches)]

    def loss(self, batch: Any) -> Any:
        """Of a batch."""
        return self._loss(self.model, batch)


def perceptron(seed: int) -> Job:
    """A regression by five dense layers, SGD with momentum."""
    torch.manual_seed(seed)
    hidden = [nn.Sequential(nn.Linear(320, 320), nn.SiLU()) for _ in range(4)]
    model = nn.Sequential(*hidden, nn.Linear(320, 4))
    batches = [torch.randn(256, 320) for _ in range(POOL)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return Job(model, optimizer, batches, lambda model, x: model(x).square().mean())


def convolution(seed: int) -> Job:
    """A classifier of small images with batch norms, RMSprop."""
    torch.manual_seed(seed)
    widths = [(3, 16), (16, 32), (32, 32)]
    layers = [nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in widths]
    model = nn.Sequential(layers[0], layers[1], nn.MaxPool2d(2), layers[2], nn.Flatten(), nn.Linear(32 * 64, 10))
    batches = [(torch.randn(24, 3, 16, 16), torch.randint(10, (24,))) for _ in range(POOL)]
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    return Job(model, optimizer, batches, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]))


class Decoder(nn.Module):
    """A two-layer language model."""

    def __init__(self, vocabulary: int = 256, width: int = 64, context: int = 64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context))

    def forward(self, ids: Any) -> Any:
        """The logits."""
        length = ids.shape[1]
        x = self.tokens(ids) + self.places.weight[:length]
        return self.head(self.blocks(x, mask=self.mask[:length, :length], is_causal=True))


def transformer(seed: int) -> Job:
    """The next character, fused AdamW."""
    torch.manual_seed(seed)
    model = Decoder()
    batches = [torch.randint(256, (6, 65)) for _ in range(POOL)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    return Job(model, optimizer, batches, next_token)


def next_token(model: Any, ids: Any) -> Any:
    """The loss of a language model."""
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


JOBS: dict[str, Callable[[int], Job]] = {
    "perceptron": perceptron,
    "convolution": convolution,
    "transformer": transformer,
}
