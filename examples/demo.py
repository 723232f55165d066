"""Train a small character-level language model, and watch it: `make demo`, or `python examples/demo.py`.

The text that it learns is the source of a module that every Python has.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import stepscope

STEPS, EVAL_EVERY, BATCH, CONTEXT, WIDTH, LR = 240, 60, 32, 64, 128, 3e-3
TOKENS = BATCH * CONTEXT
torch.manual_seed(0)

text = torch.tensor(list(Path(argparse.__file__).read_bytes()))
train, held_out = text[: -len(text) // 10], text[-len(text) // 10 :]


def windows(text: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Some windows of a text, and the same one character later."""
    starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=generator)
    both = text[starts + torch.arange(CONTEXT + 1)]  # (batch, context + 1)
    return both[:, :-1], both[:, 1:]


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
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=STEPS)

with stepscope.init(project="demo", config={"lr": LR}, output_dir="output/demo", total_steps=STEPS) as run:
    for step in range(1, STEPS + 1):
        began, epoch, lr = time.perf_counter(), step * TOKENS / len(train), schedule.get_last_lr()[0]
        loss = model(*windows(train))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(), schedule.step(), optimizer.zero_grad()
        run.log_step(step, epoch, TOKENS, 1000 * (time.perf_counter() - began), norm, loss, lr)
        if step % EVAL_EVERY == 0:
            began = time.perf_counter()
            with torch.no_grad():  # on the same eight batches each time
                losses = [model(*windows(held_out, torch.Generator().manual_seed(i))) for i in range(8)]
            run.log_eval(step, epoch, 8 * TOKENS, 1000 * (time.perf_counter() - began), sum(losses) / 8)
