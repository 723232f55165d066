"""torch.compile: before the optimizer is made, after it, or in place; the word behind the script says which."""

import sys

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader


class Model(torch.nn.Module):
    """What is compiled in place must have a forward pass of its own."""

    def __init__(self):
        super().__init__()
        self.layers = small_model()

    def forward(self, x):
        return self.layers(x)


model, told = Model(), Told()
when = sys.argv[1]
called = torch.compile(model, backend="aot_eager", fullgraph=True) if when == "before" else model
optimizer = torch.optim.SGD(called.parameters(), lr=0.1)
if when == "after":
    called = torch.compile(model, backend="aot_eager", fullgraph=True)
elif when == "in_place":
    model.compile(backend="aot_eager", fullgraph=True)
for x, y in DataLoader(dataset(44), batch_size=8):  # the last batch is smaller: it is compiled again
    loss = ((called(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    told.step(loss.item(), 0.1, samples=len(x))
compiles = torch._dynamo.utils.counters["stats"]["unique_graphs"]
told.done(model, epochs=1, graphs=compiles, breaks=len(torch._dynamo.utils.counters["graph_break"]))
