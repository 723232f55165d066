"""LBFGS calls forward and backward several times a step; the first call is the loss at which the step begins."""

import torch
from told import Told, dataset, small_model

model, told = small_model(), Told()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
x, y = dataset().tensors
for _ in range(5):
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        calls.append(loss.item())  # noqa: B023 - called at once
        return loss

    optimizer.step(closure)
    told.step(calls[0], 0.5)
told.done(model)
