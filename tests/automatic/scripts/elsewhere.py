"""The training runs in a thread, as under Ray; the main thread ends before it."""

import threading
import time

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader


def train():
    time.sleep(0.2)
    model, told = small_model(), Told()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(dataset(), batch_size=8):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        told.step(loss.item(), 0.1)
    told.done(model)


threading.Thread(target=train).start()
