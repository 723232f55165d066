"""Two workers read the data; the words behind the script say how they are started and whether they stay."""

import sys
import time

import torch
from told import Told, small_model
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    """5 ms an item."""

    def __len__(self):
        return 16

    def __getitem__(self, at):
        time.sleep(0.005)
        return torch.full((4,), at / 16), torch.tensor([1.0])


if __name__ == "__main__":
    start, stays = sys.argv[1], sys.argv[2] == "stays"
    model, told = small_model(), Told()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Slow(), 4, num_workers=2, persistent_workers=stays, multiprocessing_context=start)
    for _ in range(2):
        for x, y in loader:
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            told.step(loss.item(), 0.1, samples=4)
    told.done(model, epochs=2)
