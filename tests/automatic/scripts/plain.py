"""The loop of every tutorial: a loader, two epochs, a schedule, an evaluation after each."""

import torch
from told import Told, dataset, small_model
from torch.utils.data import DataLoader

model, told = small_model(), Told()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3)
loader, held_out = DataLoader(dataset(), batch_size=8, shuffle=True), DataLoader(dataset(24), batch_size=8)
for epoch in range(2):
    model.train()
    for done, (x, y) in enumerate(loader, 1):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        lr = optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        told.step(loss.item(), lr, samples=8, epoch=epoch + done / 5)
    model.eval()
    with torch.no_grad():
        for x, y in held_out:
            ((model(x) - y) ** 2).mean()
told.done(model, epochs=2, evaluations=2)
