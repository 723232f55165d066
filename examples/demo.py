"""Train a small character-level language model, and watch it: `make demo`, or `python examples/demo.py`.

The text that it learns is the source of a module that every Python has. `--slow-data` plants a bottleneck: each batch
then takes a while to make, as when images are decoded in the training's own process.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

import stepscope

EPOCHS, STEPS, BATCH, CONTEXT, WIDTH, LR = 2, 120, 32, 64, 128, 3e-3
SLOW_S = 0.03 if "--slow-data" in sys.argv else 0.0
torch.manual_seed(0)

text = torch.tensor(list(Path(argparse.__file__).read_bytes()))
train, held_out = text[: -len(text) // 10], text[-len(text) // 10 :]


def windows(text: Tensor, batches: int, slow_s: float = 0.0) -> Iterator[tuple[Tensor, Tensor]]:
    """Some windows of a text, and the same one character later."""
    for _ in range(batches):
        time.sleep(slow_s)
        both = text[torch.randint(len(text) - CONTEXT, (BATCH, 1)) + torch.arange(CONTEXT + 1)]
        yield both[:, :-1], both[:, 1:]  # (batch, context)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(256, WIDTH), nn.Linear(WIDTH, 256)
        self.layers = nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        logits = self.head(self.layers(self.embed(inputs))[0])  # (batch, context, 256)
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), LR)
run = stepscope.init(project="demo", config={"lr": LR}, output_dir="output/demo", total_steps=EPOCHS * STEPS)
scope = stepscope.watch(model, optimizer, run)
for _epoch in range(EPOCHS):
    for inputs, targets in scope.loader(windows(train, STEPS, SLOW_S)):
        with scope.step():
            model(inputs, targets).backward()
            optimizer.step()
            optimizer.zero_grad()
    with scope.phase("validation_epoch"), torch.no_grad():
        began = time.perf_counter()
        loss = sum(model(*batch) for batch in windows(held_out, 8)) / 8
        run.log_eval((_epoch + 1) * STEPS, _epoch + 1, 8 * BATCH * CONTEXT, 1000 * (time.perf_counter() - began), loss)
scope.close()
run.close()
