"""A training whose data comes slowly, to walk the way from a baseline to a mended one: see docs/optimizing.md.

python examples/slow_data.py --output out/before
python examples/slow_data.py --output out/after --workers 4
stepscope compare out/before out/after
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import stepscope

parser = argparse.ArgumentParser()
parser.add_argument("--output", default="output/slow-data")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()


class Pictures(Dataset[Tensor]):
    """Pictures that take two milliseconds each to decode."""

    def __len__(self) -> int:
        return 480

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.002)
        return torch.full((3, 64, 64), index / 480)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 64 * 64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Pictures(), batch_size=8, num_workers=args.workers, persistent_workers=args.workers > 0)
    with stepscope.init(project="slow-data", output_dir=args.output, config=vars(args)) as run:
        scope = stepscope.watch(model, optimizer, run)
        for _ in range(args.epochs):
            for batch in scope.loader(loader):
                with scope.step():
                    model(batch).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
        scope.close()


if __name__ == "__main__":
    main()
