"""Mixed precision with a gradient scaler; the third step overflows and is skipped."""

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

model, told = small_model(), Told()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for number, (x, y) in enumerate(DataLoader(dataset(), batch_size=8)):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = ((out.float() - y) ** 2).mean()
    scaler.scale(loss).backward()
    if number == 2:
        model[0].weight.grad[0, 0] = float("inf")
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    told.step(loss.item(), 0.1, **({"skipped": True} if number == 2 else {}))
told.done(model, scale=scaler.get_scale())
