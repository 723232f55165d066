"""Two optimizers for the halves of one model, as Muon beside AdamW; a third one is never used."""

import torch
from told import Told, dataset, small_model

model, told = small_model(), Told()
idle = torch.optim.SGD(model.parameters(), lr=1.0)
optimizers = [
    torch.optim.SGD(model[0].parameters(), lr=0.1),
    torch.optim.AdamW(model[3].parameters(), lr=0.01),
]
x, y = dataset(56).tensors
for step in range(7):
    loss = ((model(x[step * 8 : step * 8 + 8]) - y[step * 8 : step * 8 + 8]) ** 2).mean()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    told.step(loss.item(), 0.1)
told.done(model)
