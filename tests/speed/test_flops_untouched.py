"""Counting leaves the model, its results and the process as they were, and what it cannot do it says."""

import copy
import functools
import random

import numpy as np
import pytest
import torch
from torch import nn

from stepscope.speed.counted import count
from stepscope.speed.flops import FlopsUnknown, of_step

from .flop_models import Mlp, gpt

IDS = torch.randint(1, 256, (2, 32), generator=torch.Generator().manual_seed(0))


def trained(model, watched):
    """The weights after three steps with dropout, counted in between or not."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = nn.functional.dropout(model(IDS), 0.5).square().mean()
        if watched:
            of_step(model, (IDS,))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_training_is_the_same_to_the_bit():
    """Counting between forward and backward changes no bit of the weights."""
    model = gpt()
    assert torch.equal(trained(copy.deepcopy(model), True), trained(model, False))


def test_random_generators_go_on_where_they_were():
    """A model that draws numbers of every kind draws none of the process's while it is counted."""

    class Drawing(nn.Linear):
        def forward(self, x):
            random.random(), np.random.rand(), torch.rand(3)
            return super().forward(x)

    model = Drawing(4, 4)
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    of_step(model, (torch.zeros(2, 4),))
    drawn = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())


def test_what_a_forward_pass_writes_is_written_to_the_copy(capsys):
    """Counters, lists, caches in plain objects, buffers, prints: the model knows nothing of the count."""

    class Cache:
        def __init__(self):
            self.kept = None

    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.seen, self.calls, self.cache = nn.BatchNorm1d(4), [], {"n": 0}, Cache()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def forward(self, x):
            x = self.inner(x) @ self.weight
            print("forward")
            self.seen.append(x)
            self.calls["n"] += 1
            self.cache.kept = x
            return x

    model = Writing()
    before = copy.deepcopy(model.state_dict())
    assert of_step(model, (torch.zeros(2, 4),)).other == 2 * (2 * 4 * 4) + 2 * 4 * 4
    assert (model.seen, model.calls, model.cache.kept) == ([], {"n": 0}, None)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert capsys.readouterr().out == ""


def test_hooks_do_not_see_the_copy():
    """Hooks of the model, of all modules and of parameters stay silent, and in place."""
    seen = []
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].register_forward_hook(lambda *_: seen.append("module"))
    model[0].weight.register_hook(lambda _: seen.append("gradient"))
    everywhere = nn.modules.module.register_module_forward_hook(lambda *_: seen.append("all"))
    try:
        of_step(model, (torch.zeros(2, 4),))
        assert seen == []
        model(torch.zeros(2, 4)).sum().backward()
        assert sorted(seen) == ["all", "all", "gradient", "module"]
    finally:
        everywhere.remove()


def test_a_layer_whose_weight_a_hook_makes_is_counted():
    """Weight normalisation of the older kind lives in a hook, which the copy keeps."""
    model = nn.utils.weight_norm(nn.Linear(4, 6))
    model(torch.zeros(2, 4))
    assert of_step(model, (torch.zeros(2, 4),)).other == 4 * 4 * 6


def test_modes_are_as_before():
    """Grad mode, autocast, inference mode and the fused attention are what they were, after an error too."""
    product = nn.functional.scaled_dot_product_attention
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(FlopsUnknown):
            of_step(nn.Linear(4, 4), (torch.zeros(2, 5),))
        assert not torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert nn.functional.scaled_dot_product_attention is product
    assert (torch.zeros(2, 2) + 1).sum().item() == 4


def test_nothing_is_copied_but_shapes():
    """The copy holds no storage: a model of 40 TB is counted as fast as a small one."""
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(1_000_000, 1_000_000, bias=False) for _ in range(10)))
        x = torch.zeros(2, 1_000_000)
    assert of_step(model, (x,)).other == 6e12 * 10 - 2e12


def test_what_dies_loudly_is_shared():
    """An object that closes something when it dies is not made twice."""
    closed = []

    class Handle:
        def __del__(self):
            closed.append(1)

    model = nn.Linear(4, 4)
    model.handle = Handle()
    of_step(model, (torch.zeros(2, 4),))
    assert closed == []


def test_methods_and_partials_belong_to_the_copy():
    """A forward that was replaced by a method or a partial of the module runs on the copy's weights."""
    model = Mlp(8, 8, gated=False)
    model.forward = functools.partial(Mlp.forward, model)
    flops = of_step(model, (torch.zeros(2, 8),))
    assert flops.other == 6 * 8 * 8 + 4 * 8 * 8
    assert model.up_proj.weight.grad is None


def test_a_closure_over_the_model_is_not_run():
    """Weights that the copy cannot reach would be written to: refused, and said."""
    model = nn.Linear(4, 4)
    model.forward = lambda x: nn.functional.linear(x, weight)
    weight = model.weight
    with pytest.raises(FlopsUnknown, match="out of reach of its copy"):
        of_step(model, (torch.zeros(2, 4),))
    assert weight.grad is None


def test_a_branch_on_the_input_is_taken():
    """A value that the input alone decides is known; one that the weights decide is not."""

    class Branching(nn.Linear):
        def forward(self, x, wanted):
            if wanted.any().item():
                x = super().forward(x)
            return super().forward(x)

    model, x = Branching(4, 4), torch.zeros(2, 4)
    assert of_step(model, (x, torch.tensor([True]))).other == 6 * 16 + 4 * 16
    assert of_step(model, (x, torch.tensor([False]))).other == 4 * 16
    with pytest.raises(FlopsUnknown, match="decides by values"):
        of_step(model, (x, model.weight))


@torch.library.custom_op("house::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A matmul behind a name that nobody knows."""
    return a @ b


product.register_fake(lambda a, b: a.new_empty(a.shape[0], b.shape[1]))


def test_an_operation_of_unknown_cost_is_said():
    """A kernel of another library may be a matmul: no number rather than a small one."""

    class Custom(nn.Module):
        def forward(self, x):
            return product(x, x)

    with pytest.raises(FlopsUnknown, match="house::product is an operation whose cost is not known"):
        of_step(Custom(), (torch.zeros(4, 4),))


@pytest.mark.parametrize(
    ("model", "args", "said"),
    [
        (nn.Linear(4, 4), (torch.zeros(2, 5),), "does not run on tensors without data"),
        (nn.Linear(4, 4), (), "no tensor"),
        (nn.Linear(4, 4), (torch.zeros(0, 4),), "empty batch"),
        (nn.LazyLinear(4), (torch.zeros(2, 4),), "no shape yet"),
        (torch.jit.script(nn.Linear(4, 4)), (torch.zeros(2, 4),), "TorchScript"),
        (object(), (torch.zeros(2, 4),), "FLOPs unknown"),
    ],
)
def test_what_cannot_be_counted_is_said(model, args, said):
    """Every obstacle comes as one sentence."""
    with pytest.raises(FlopsUnknown, match=said):
        of_step(model, args)


def test_a_model_that_takes_too_long_is_given_up(monkeypatch):
    """Counting has a deadline."""
    monkeypatch.setattr("stepscope.speed.counted.SECONDS", -1.0)
    with pytest.raises(FlopsUnknown, match="too many operations"):
        count(gpt(), (IDS,), {})
