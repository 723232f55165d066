"""Ten trainings in which nothing is wrong: other models, sizes, loaders and loops than the rules were tuned on.

told = healthy("recurrent, sequences of many lengths", folder, seed=3)
told.verdicts, told.said       # both to be empty

Their loops differ as users' do: with every phase named, with some, with none; loaders of torch with and without
workers, and none; accumulation, clipping, evaluations, checkpoints, two optimizers, a fetch of a tenth of a step.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import stepscope

from .fault_models import Decoder, next_token
from .faults import spend
from .watched_run import Told, told

Loop = Iterator[None]  # a step at a time


def wide(scope: Any, run: Any) -> Loop:
    """Dense layers, Adam, every phase named, a moving average."""
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    average = [p.detach().clone() for p in model.parameters()]
    data = TensorDataset(torch.randn(256 * 60, 256))
    for _ in range(6):
        for (x,) in scope.loader(DataLoader(data, batch_size=256)):
            with scope.step():
                with scope.phase("data_transfer"):
                    x = x.clone()
                with scope.phase("forward_pass"):
                    loss = model(x).square().mean()
                with scope.phase("backward_pass"):
                    loss.backward()
                with scope.phase("optimizer_step"):
                    optimizer.step()
                    optimizer.zero_grad()
                with scope.phase("ema_update"), torch.no_grad():
                    torch._foreach_lerp_(average, [*model.parameters()], 0.01)
            yield


def images(scope: Any, run: Any) -> Loop:
    """A residual network on batches from two workers, evaluated each epoch; no phase is named."""

    class Block(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.one, self.two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
            self.first, self.second = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

        def forward(self, x: Any) -> Any:
            return F.relu(x + self.second(self.two(F.relu(self.first(self.one(x))))))

    model = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), Block(20), nn.MaxPool2d(2), Block(20), nn.Flatten())
    model.append(nn.Linear(20 * 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    data = TensorDataset(torch.randn(32 * 75, 3, 16, 16), torch.randint(10, (32 * 75,)))
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    for _ in range(4):
        for x, y in scope.loader(loader):
            with scope.step():
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
            yield
        with scope.phase("validation_epoch"), torch.inference_mode():
            for at in range(0, 32 * 5, 32):
                model(data.tensors[0][at : at + 32])


def language(scope: Any, run: Any) -> Loop:
    """A decoder with clipping and a schedule, steps bracketed and phases left to the hooks."""
    model = Decoder(vocabulary=512, width=128, context=96)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 100)
    for _ in range(260):
        with scope.step():
            loss = next_token(model, torch.randint(512, (6, 97)))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
        yield


def lengths(scope: Any, run: Any) -> Loop:
    """An LSTM on sequences of many lengths, so that steps differ by nature."""
    embed, lstm, head = nn.Embedding(200, 96), nn.LSTM(96, 128, batch_first=True), nn.Linear(128, 200)
    model = nn.ModuleList([embed, lstm, head])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(280):
        ids = torch.randint(200, (16, int(torch.randint(24, 40, ()))))
        with scope.step():
            with scope.phase("forward_pass"):
                out, _ = lstm(embed(ids[:, :-1]))
                loss = F.cross_entropy(head(out).flatten(0, 1), ids[:, 1:].flatten())
            with scope.phase("backward_pass"):
                loss.backward()
            with scope.phase("optimizer_step"):
                optimizer.step()
                optimizer.zero_grad()
        yield


def short(scope: Any, run: Any) -> Loop:
    """Steps of 2 ms of which the fetch takes a tenth."""
    model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(256, 128)
    took = 0.002

    def batches() -> Iterator[Any]:
        for _ in range(900):
            spend(0.1 * took)
            yield x

    for batch in scope.loader(batches()):
        begin = time.perf_counter()
        with scope.step():
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        took = 0.9 * took + 0.1 * (time.perf_counter() - begin)
        yield


def accumulating(scope: Any, run: Any) -> Loop:
    """Four batches a step, no bracket at all: the hooks see the steps."""
    model = nn.Sequential(nn.Linear(192, 384), nn.GELU(), nn.LayerNorm(384), nn.Linear(384, 192), nn.Linear(192, 8))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(64 * 480, 192), torch.randint(8, (64 * 480,)))
    for _ in range(2):
        for number, (x, y) in enumerate(DataLoader(data, batch_size=64, shuffle=True), 1):
            (F.cross_entropy(model(x), y) / 4).backward()
            if number % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
                yield


def adversarial(scope: Any, run: Any) -> Loop:
    """A GAN: two models, two optimizers, one step."""
    maker = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256))
    judge = nn.Sequential(nn.Linear(256, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
    make, tell = (torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.99), fused=True) for m in (maker, judge))
    one, none = torch.ones(192, 1), torch.zeros(192, 1)
    for _ in range(330):
        real = torch.randn(192, 256)
        with scope.step():
            made = maker(torch.randn(192, 32))
            loss = F.binary_cross_entropy_with_logits(judge(real), one)
            loss = loss + F.binary_cross_entropy_with_logits(judge(made.detach()), none)
            tell.zero_grad()
            loss.backward()
            tell.step()
            make.zero_grad()
            F.binary_cross_entropy_with_logits(judge(made), one).backward()
            make.step()
        yield


def checkpoints(scope: Any, run: Any) -> Loop:
    """An autoencoder that logs its own steps and saves now and then, outside of them."""
    model = nn.Sequential(nn.Linear(400, 512), nn.SiLU(), nn.Linear(512, 48), nn.SiLU(), nn.Linear(48, 400))
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.rand(128 * 80, 400))
    step = 0
    for _ in range(4):
        for (x,) in scope.loader(DataLoader(data, batch_size=128)):
            with scope.step():
                loss = F.mse_loss(model(x), x)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log_step(step, loss=loss, lr=1e-3)
            step += 1
            yield
        with scope.phase("checkpoint"):
            torch.save(model.state_dict(), Path(run.path).parent / "model.pt")


def attention(scope: Any, run: Any) -> Loop:
    """A set model over wide batches, its batches made in the loop's process at little cost."""
    embed, mix = nn.Linear(24, 64), nn.MultiheadAttention(64, 4, batch_first=True)
    head = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 3))
    model = nn.ModuleDict({"embed": embed, "mix": mix, "head": head})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)

    def batches() -> Iterator[Any]:
        for _ in range(260):
            yield torch.randn(32, 40, 24), torch.randint(3, (32,))

    for x, y in scope.loader(batches()):
        with scope.step():
            hidden = embed(x)
            mixed, _ = mix(hidden, hidden, hidden, need_weights=False)
            loss = F.cross_entropy(head(mixed.mean(1)), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        yield


def growing(scope: Any, run: Any) -> Loop:
    """Sequences that grow over the run, as a curriculum has them; every step says its tokens."""
    model = Decoder(vocabulary=128, width=64, context=160)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(300):
        length = 64 + 16 * (step // 60)
        ids = torch.randint(128, (8, length + 1))
        with scope.step():
            with scope.phase("forward_pass"):
                loss = next_token(model, ids)
            with scope.phase("backward_pass"):
                loss.backward()
            with scope.phase("optimizer_step"):
                optimizer.step()
                optimizer.zero_grad()
        yield


HEALTHY: dict[str, Callable[[Any, Any], Loop]] = {
    "dense, every phase named": wide,
    "residual network, two workers": images,
    "decoder, phases by hooks": language,
    "recurrent, sequences of many lengths": lengths,
    "steps of 2 ms, a tenth of it fetch": short,
    "accumulation, no bracket": accumulating,
    "adversarial, two optimizers": adversarial,
    "autoencoder with checkpoints": checkpoints,
    "attention over sets": attention,
    "sequences that grow": growing,
}


def healthy(name: str, folder: Path, seed: int) -> Told:
    """Run one."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    durations: list[float] = []
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run:
        scope = stepscope.watch(run=run, card=False)
        begin = time.perf_counter()
        for _ in HEALTHY[name](scope, run):
            now = time.perf_counter()
            durations.append(now - begin)
            begin = now
        scope.close()
    return told(run.path, durations)
