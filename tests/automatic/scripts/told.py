"""What the scripts share: a small model, its data, and a last line of output that tells what the script saw."""

import hashlib
import json
import sys

import torch
from torch import nn


def small_model(outputs: int = 1) -> nn.Module:
    """With dropout: whoever draws a random number from between changes its weights."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, outputs))


def dataset(samples: int = 40) -> torch.utils.data.TensorDataset:
    """Inputs and targets."""
    drawn = torch.Generator().manual_seed(1)
    return torch.utils.data.TensorDataset(
        torch.randn(samples, 4, generator=drawn), torch.randn(samples, 1, generator=drawn)
    )


def sha(*models: nn.Module) -> str:
    """Of all weights and buffers, bit by bit."""
    digest = hashlib.sha256()
    for model in models:
        for name, tensor in model.state_dict().items():
            digest.update(name.encode() + tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Told:
    """The steps of a script as it saw them."""

    def __init__(self) -> None:
        self.steps: list[dict] = []

    def step(self, loss: float | None, lr: float, **more: object) -> None:
        """One step; `more` are fields that its record must have."""
        self.steps.append({"loss": loss, "lr": lr, **more})

    def done(self, *models: nn.Module, **more: object) -> None:
        """The last line of the output."""
        state = {"weights": sha(*models), "random": torch.rand(1).item()}
        here = {"name": __import__("__main__").__name__, "argv": sys.argv, "path": sys.path[0]}
        print(json.dumps({"steps": self.steps, **state, **here, **more}))
