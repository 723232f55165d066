"""No loader: token ids are cut from a tensor, and the evaluation has no `no_grad`."""

import torch
from told import Told
from torch import nn

torch.manual_seed(0)
told = Told()
ids = torch.randint(0, 16, (64, 5))
model = nn.Sequential(nn.Embedding(16, 8), nn.Dropout(0.1), nn.Linear(8, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
cross_entropy = nn.CrossEntropyLoss()
for step in range(9):
    model.train()
    batch = ids[step * 4 : step * 4 + 4]
    loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    fed = {} if step in (0,) else {"samples": 4, "step_tokens": 16}  # the first forward pass comes unseen
    told.step(loss.item(), 0.1, **fed)
    if step % 3 == 2:
        model.eval()
        for start in (0, 8, 16):
            cross_entropy(model(ids[start : start + 8, :-1]).flatten(0, 1), ids[start : start + 8, 1:].flatten())
told.done(model, evaluations=3, epochs=0)
