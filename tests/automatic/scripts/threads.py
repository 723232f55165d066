"""Other threads compute gradients of their own while the main one trains."""

import threading

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

model, told = small_model(), Told()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
over = threading.Event()


def other():
    own = torch.ones(4, 1, requires_grad=True)
    while not over.is_set():
        (torch.ones(2, 4) @ own).sum().backward()


for x, y in DataLoader(dataset(8), batch_size=8):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    told.step(loss.item(), 0.1)
    optimizer.zero_grad()
torch.manual_seed(3)
others = [threading.Thread(target=other) for _ in range(2)]
for thread in others:
    thread.start()
for x, y in DataLoader(dataset(80), batch_size=8):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    told.step(loss.item(), 0.1)
    optimizer.zero_grad()
over.set()
for thread in others:
    thread.join()
told.done(model)
