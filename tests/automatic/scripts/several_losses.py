"""Two losses of one forward pass, each with a backward pass of its own."""

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

model, told = small_model(2), Told()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset(), batch_size=8):
    out = model(x)
    losses = [((out[:, :1] - y) ** 2).mean(), out[:, 1:].abs().mean()]
    losses[0].backward(retain_graph=True)
    losses[1].backward()
    optimizer.step()
    optimizer.zero_grad()
    told.step(losses[0].item(), 0.1, losses=[loss.item() for loss in losses], samples=8)
told.done(model)
