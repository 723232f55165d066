"""Accelerate: its loader fetches one batch ahead, two micro-batches are a step."""

import math

import torch
from accelerate import Accelerator
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

model, told, received = small_model(), Told(), []
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(dataset(48), batch_size=8))
for number, (x, y) in enumerate(loader, 1):
    with accelerator.accumulate(model):
        loss = ((model(x) - y) ** 2).mean()
        accelerator.backward(loss)
        received.append(loss.item() / 2)
        optimizer.step()
        optimizer.zero_grad()
    if number % 2 == 0:
        known = {"samples": 16} if number > 2 else {}
        told.step(math.fsum(received), 0.01, epoch=number / 6, **known)
        received.clear()
told.done(accelerator.unwrap_model(model))
