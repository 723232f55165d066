"""The modules that a training calls are found, watched by their class, and left as they were."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

from stepscope.speed.roots import Roots


class Calls:
    """What was told of their calls."""

    def __init__(self):
        self.begun, self.ended = [], []
        self.roots = Roots(lambda: True, lambda module, args, kwargs: self.begun.append(module), self.ended.append)


@pytest.fixture
def calls():
    calls = Calls()
    yield calls
    calls.roots.release()


class Shell(nn.Module):
    """Holds a model, and is called or not."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)


def learner(module):
    return torch.optim.SGD(module.parameters(), lr=0.1)


def test_the_outermost_module_is_found(calls):
    """Not the parts of it, and not a model without an optimizer."""
    shell, other = Shell(nn.Linear(2, 1)), nn.Linear(2, 1)
    optimizer = learner(shell)
    assert calls.roots.find(optimizer) >= {id(optimizer)}
    assert [module for module in calls.roots.found if module in (shell, shell.model, other)] == [shell]
    shell(torch.ones(1, 2))
    other(torch.ones(1, 2))
    assert calls.begun == [shell]


def test_a_compiled_wrapper_is_the_root(calls):
    """Whichever came first, optimizer or wrapper."""
    model = nn.Linear(2, 1)
    optimizer = learner(model)
    compiled = torch.compile(model, backend="eager")
    calls.roots.find(optimizer)
    compiled(torch.ones(1, 2))
    assert calls.begun == [compiled]


def test_a_root_that_is_never_called_is_looked_into(calls):
    """A trainer's shell: its parts are watched instead."""
    shell = Shell(Shell(nn.Linear(2, 1)))
    optimizer = learner(shell)
    calls.roots.find(optimizer)
    calls.roots.descend()
    shell.model(torch.ones(1, 2))
    assert calls.begun == [shell.model]


def test_an_exception_goes_its_way(calls):
    """It is told, and the next call is a call as before."""
    model = nn.Linear(2, 1)
    optimizer = learner(model)
    calls.roots.find(optimizer)
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 3))
    model(torch.ones(1, 2))
    assert [type(error) for error in calls.ended] == [RuntimeError, type(None)]


def test_an_instance_keeps_nothing_of_ours(calls):
    """Copies and pickles of it are plain models, which are not watched."""
    model = Shell(nn.Linear(2, 1))
    before = set(vars(model))
    optimizer = learner(model)
    calls.roots.find(optimizer)
    model(torch.ones(1, 2))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin(torch.ones(1, 2))
        assert set(vars(twin)) == before
    assert calls.begun == [model]


def test_classes_get_their_own_call_back(calls):
    """Those that had one, and those that had none."""

    class Own(nn.Linear):
        def __call__(self, x):
            return super().__call__(x) + 1

    own, models = Own.__call__, [Own(2, 1), nn.Linear(2, 1)]
    optimizer = torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.1)
    calls.roots.find(optimizer)
    expected = models[0].forward(torch.ones(1, 2)) + 1
    assert torch.equal(models[0](torch.ones(1, 2)), expected)
    assert calls.begun == [models[0]]
    calls.roots.release()
    assert Own.__call__ is own
    assert "__call__" not in vars(nn.Linear)


def test_nothing_is_kept_alive(calls):
    """A model that the program lets go is gone."""
    model = nn.Linear(2, 1)
    optimizer = learner(model)
    calls.roots.find(optimizer)
    gone = [weakref.ref(model), weakref.ref(optimizer)]
    known = len(calls.roots.found), len(calls.roots.optimizers)
    del model, optimizer
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert (len(calls.roots.found), len(calls.roots.optimizers)) < known


def test_new_optimizers_without_end_are_not_searched_for_without_end(calls, monkeypatch):
    """A program that makes one a step is not swept through each time."""
    swept = []
    monkeypatch.setattr(gc, "get_objects", lambda: swept.append(1) or [])
    for _ in range(100):
        calls.roots.find(learner(nn.Linear(2, 1)))
    assert len(swept) < 10
