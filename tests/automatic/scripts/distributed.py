"""DistributedDataParallel over gloo; each rank leaves what it saw in a file of its own."""

import contextlib

import torch
from told import Told, dataset, small_model
from torch import distributed
from torch.utils.data import DataLoader, DistributedSampler

distributed.init_process_group("gloo")
rank, model, told = distributed.get_rank(), small_model(), Told()
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
data = dataset(48)
for x, y in DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False)):
    loss = ((parallel(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    told.step(loss.item(), 0.1, samples=4)
distributed.destroy_process_group()
with open(f"rank{rank}.json", "w") as file, contextlib.redirect_stdout(file):
    told.done(model)
