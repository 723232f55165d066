"""A compiled function holds the model: nothing but backward and optimizer can be seen; new shapes compile it anew."""

import torch
from told import Told, dataset, small_model

model, told = small_model(), Told()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = dataset(64).tensors


@torch.compile(backend="aot_eager", fullgraph=True)
def loss_of(x, y):
    return ((model(x) - y) ** 2).mean()


for step in range(8):
    size = 8 if step < 4 else 6
    loss = loss_of(x[:size], y[:size])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    told.step(loss.item(), 0.1)
compiles = torch._dynamo.utils.counters["stats"]["unique_graphs"]
told.done(model, graphs=compiles, breaks=len(torch._dynamo.utils.counters["graph_break"]))
