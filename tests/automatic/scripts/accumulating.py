"""Four micro-batches a step, each loss divided by four; an evaluation between the steps."""

import math

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

model, told = small_model(), Told()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
received = []
for number, (x, y) in enumerate(DataLoader(dataset(96), batch_size=4), 1):
    loss = ((model(x) - y) ** 2).mean() / 4
    loss.backward()
    received.append(loss.item())
    if number % 4 == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        told.step(math.fsum(received), 0.1, samples=16, epoch=number / 24)
        received.clear()
        if number == 8:
            model.eval()
            with torch.no_grad():
                for x, _ in DataLoader(dataset(16), batch_size=8):
                    model(x)
            model.train()
told.done(model, evaluations=1, epochs=1)
