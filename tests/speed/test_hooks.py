"""Hooks on torch: they tell, they never fail a training, and nothing of them is left."""

import pytest
import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, TensorDataset

from stepscope.speed.hooks import Hooks
from stepscope.speed.loop import Loop
from stepscope.speed.phases import Phases


class Watched:
    """Steps that hooks tell, and what they complain of."""

    def __init__(self):
        self.steps, self.said, self.errors = [], [], []
        self.phases = Phases()
        loop = Loop(self.phases, lambda step, _: self.steps.append(step), lambda *_: None, lambda _: None)
        self.loop = loop
        self.hooks = Hooks(loop, lambda rule, message: self.said.append((rule, message)), on_error=self.errors.append)


@pytest.fixture
def watched():
    watched = Watched()
    watched.hooks.attach()
    yield watched
    watched.hooks.detach()


def train(model, steps=4, optimizer=None):
    """A plain loop; the losses that it saw."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    data, seen = TensorDataset(torch.arange(steps * 4.0).view(-1, 2) / steps), []
    for (x,) in DataLoader(data, batch_size=2):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    return seen


def test_a_plain_loop_is_told(watched):
    """Each step with its loss, its rate and its batch."""
    seen = train(nn.Linear(2, 1))
    watched.loop.close()
    assert [step.losses[(0, 0)] for step in watched.steps] == [[loss] for loss in seen]
    assert {step.lrs[0] for step in watched.steps} == {0.1}
    assert [step.samples for step in watched.steps] == [2] * 4
    assert watched.said == []


def methods():
    scaler = torch.amp.grad_scaler.GradScaler
    return [
        *(torch.Tensor.__dict__.get(name) for name in ("backward", "to", "cuda")),
        *(vars(scaler)["scale"], vars(scaler)["step"], vars(DataLoader)["__iter__"]),
        *(dict(torch_optimizer._global_optimizer_pre_hooks), dict(torch_optimizer._global_optimizer_post_hooks)),
    ]


def test_torch_gets_back_what_it_had():
    """Every method and hook; a wrapper that somebody put around ours stays, and ours then does nothing."""
    before, watched = methods(), Watched()
    watched.hooks.attach()
    watched.hooks.watch_transfers()
    ours = torch.Tensor.backward
    assert ours is not before[0]
    watched.hooks.detach()
    assert methods() == before
    watched.hooks.attach()
    late = torch.Tensor.backward
    torch.Tensor.backward = lambda self, *a, **k: late(self, *a, **k)
    try:
        watched.hooks.detach()
        train(nn.Linear(2, 1))
        assert watched.steps == []
    finally:
        torch.Tensor.backward = before[0]


@pytest.mark.parametrize(
    "moment", ["update_begins", "update_ends", "backward_begins", "forward_begins", "fetch_begins"]
)
def test_whatever_fails_in_us_is_said_and_the_training_goes_on(watched, monkeypatch, moment):
    """The training gives the very numbers that it gives alone."""
    torch.manual_seed(0)
    watched.hooks.detach()
    alone = train(nn.Linear(2, 1))
    monkeypatch.setattr(Loop, moment, lambda *_: 1 / 0)
    watched.hooks.attach()
    torch.manual_seed(0)
    assert train(nn.Linear(2, 1)) == alone
    assert ("watching", "a hook failed: ZeroDivisionError: division by zero") in watched.said


def test_an_optimizer_that_raises_leaves_no_trace(watched):
    """No phase stays open, and the steps behind it are counted and timed as before."""
    model = nn.Linear(2, 1)

    class Fails(torch.optim.SGD):
        def step(self, closure=None):
            if len(watched.steps) == 1:
                raise RuntimeError
            return super().step(closure)

    optimizer, kept = Fails(model.parameters(), lr=0.1), []
    for _ in range(5):
        loss = model(torch.ones(2, 2)).square().mean()
        loss.backward()
        try:
            optimizer.step()
        except RuntimeError:
            watched.steps.append(None)
        else:
            kept.append(loss.item())
        optimizer.zero_grad()
    watched.loop.close()
    assert [step.losses[(0, 0)] for step in watched.steps if step] == [[loss] for loss in kept]
    assert watched.phases.path == ""


def test_errors_are_told_once_each(watched):
    """For those of the forward and of the backward pass: where memory ran out, somebody looks."""
    model = nn.Linear(2, 1)
    train(model)
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 3))
    with pytest.raises(RuntimeError):
        torch.ones(2, 2, requires_grad=True).backward()
    assert [type(error) for error in watched.errors] == [RuntimeError, RuntimeError]


def test_a_tensor_of_another_kind_is_one_backward_pass(watched):
    """Its own method comes back to the one that is replaced."""

    class Mine(torch.Tensor):
        pass

    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        (weight.square().sum().as_subclass(Mine)).backward()
        optimizer.step()
    assert watched.hooks.backwards == 2


def test_transfers_are_timed_where_they_lead_elsewhere(watched):
    """`.to` another device is a transfer; another type, or the same device, is none."""
    watched.hooks.watch_transfers()
    x = torch.ones(2)
    x.to(torch.float64), x.to("cpu"), x.to(x)
    assert watched.phases.take().host == {}
    x.to("meta"), x.to(device=torch.device("meta")), x.to(torch.ones(1, device="meta"))
    assert watched.phases.take().host["data_transfer"][1] == 3
