"""A small training to watch, and what it left in its file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import stepscope
from stepscope import Run, TrainingRunLogger


@pytest.fixture
def run(tmp_path: Path) -> Iterator[TrainingRunLogger]:
    """A silent one, which raises where training would go on without it."""
    with TrainingRunLogger(tmp_path / "training.json", verbosity=-2, strict=True) as run:
        yield run


@pytest.fixture
def read(run: TrainingRunLogger) -> Callable[[], Run]:
    """The run, read back."""

    def read() -> Run:
        run.close()
        return stepscope.read_run(run.path)

    return read


class Training:
    """A perceptron, its optimizer, and batches for it."""

    def __init__(self, batches: int = 12):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        data = torch.utils.data.TensorDataset(torch.randn(8 * batches, 16))
        self.loader: Any = torch.utils.data.DataLoader(data, batch_size=8)

    def forward(self, batch: Any) -> Any:
        """The loss of a batch."""
        return self.model(batch[0]).square().mean()

    def update(self, loss: Any) -> None:
        """Backward pass and step."""
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


@pytest.fixture
def training() -> Training:
    """A fresh one."""
    return Training()
