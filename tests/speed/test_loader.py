"""A loader that is stood before: the same batches, each fetch timed."""

import copy
import time

import pytest
import torch
from torch.utils.data import DataLoader

from stepscope.speed.loader import Loader
from stepscope.speed.loop import Loop
from stepscope.speed.phases import Phases


@pytest.fixture
def phases():
    return Phases()


@pytest.fixture
def outside():
    return []


@pytest.fixture
def loop(phases, outside):
    return Loop(phases, lambda *_: None, lambda taken, _: outside.append(taken), lambda _: None)


@pytest.fixture
def stands_before(loop):
    """Makes a Loader around an iterable."""
    return lambda iterable: Loader(iterable, loop, lambda call, *args: call(*args))


def test_the_batches_are_the_very_same(stands_before):
    """In order, as objects, with length and attributes; and a second pass begins anew."""
    batches = [torch.ones(2), torch.zeros(3)]
    loader = stands_before(batches)
    for _ in range(2):
        assert all(a is b for a, b in zip(loader, batches, strict=True))
    assert len(loader) == 2
    assert loader.count == batches.count


def test_each_fetch_is_timed_alone(stands_before, loop, outside):
    """What the loop does with a batch is none of it."""

    def slow():
        for _ in range(3):
            time.sleep(0.01)
            yield torch.ones(2)

    for _ in stands_before(slow()):
        time.sleep(0.05)
    loop.close()
    found = [taken.host["data_generation"] for taken in outside]
    spent, count = sum(spent for spent, _ in found), sum(count for _, count in found)
    assert 30e6 <= spent < 150e6
    assert count == 5  # starting, three batches, and the end


def test_a_loader_that_raises(stands_before, phases):
    """Its exception comes through, and no phase stays open."""

    def breaks():
        yield 1
        raise OSError("gone")

    loader = iter(stands_before(breaks()))
    assert next(loader) == 1
    with pytest.raises(OSError, match="gone"):
        next(loader)
    assert phases.path == ""


def test_a_loader_of_torch_keeps_what_it_has(stands_before):
    """Attributes that trainers look at are its own, and it can be copied."""
    loader = stands_before(DataLoader(list(range(8)), batch_size=4))
    assert (loader.batch_size, len(loader)) == (4, 2)
    assert len(copy.copy(loader)) == 2
    with pytest.raises(AttributeError):
        loader.nonsense  # noqa: B018
