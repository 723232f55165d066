"""Batches that fail in the forward pass, in the backward pass, in the optimizer or in the loader, and are left out."""

import torch
from told import Told, small_model
from torch.utils.data import DataLoader


class Numbered(torch.utils.data.Dataset):
    """Its item 66 cannot be read."""

    def __len__(self):
        return 72

    def __getitem__(self, at):
        if at == 66:
            raise OSError("a broken file")
        return torch.full((4,), at / 72), torch.tensor([at / 36 - 1.0])


class Raises(torch.autograd.Function):
    """An operation whose gradient cannot be had."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("no gradient")


model, told = small_model(), Told()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plain_step = optimizer.param_groups
failed = []
batches = iter(DataLoader(Numbered(), batch_size=8))
for number in range(9):
    try:
        x, y = next(batches)
        if number == 1:
            x = x[:, :3]  # does not fit
        out = model(x)
        loss = ((Raises.apply(out) if number == 3 else out) - y).square().mean()
        loss.backward()
        if number == 5:
            optimizer.param_groups[0]["params"].append(None)
        optimizer.step()
    except (RuntimeError, AttributeError, OSError) as error:
        failed.append(type(error).__name__)
        if number == 5:
            optimizer.param_groups[0]["params"].pop()
    else:
        told.step(loss.item(), 0.1, samples=8)
    optimizer.zero_grad()
told.done(model, failed=failed)
