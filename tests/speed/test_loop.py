"""A training loop told moment by moment: what is a step, what an evaluation, what an epoch, and how long it took."""

import pytest

from stepscope.speed.loop import Loop
from stepscope.speed.moments import Source
from stepscope.speed.phases import Phases

from .scripted import MS, Gpu


class Scripted:
    """A loop whose moments take a millisecond each, and what it says."""

    def __init__(self):
        self.gpu, self.steps, self.outside, self.epochs = Gpu(), [], [], []
        self.phases = Phases(clock=self.gpu.host)
        self.loop = Loop(
            self.phases,
            lambda step, epoch: self.steps.append(step),
            lambda taken, epoch: self.outside.append(taken),
            self.epochs.append,
            self.gpu.host,
        )

    def fetch(self, source, samples=8):
        self.loop.fetch_begins(source)
        self.gpu.works(1)
        self.loop.fetch_ends(source, samples)

    def forward(self, evaluates=False, fed=(8, 0), learns=True):
        self.loop.forward_begins(evaluates, fed, learns)
        self.gpu.works(1)
        self.loop.ends()

    def backward(self, loss=1.0):
        self.loop.backward_begins(loss)
        self.gpu.works(1)
        self.loop.backward_ends()

    def update(self, optimizer=1, skipped=None):
        self.loop.update_begins([0.1], optimizer)
        self.gpu.works(1)
        self.loop.update_ends(skipped)

    def learns(self, loss=1.0, optimizer=1):
        self.forward()
        self.backward(loss)
        self.update(optimizer)

    def losses(self):
        self.loop.close()
        return [list(step.losses.values()) for step in self.steps]


@pytest.fixture
def script():
    return Scripted()


def test_a_step_reaches_from_fetch_to_fetch(script):
    """Its time begins with the fetch of its batch; what the loop does behind the update belongs to it."""
    source = Source(2)
    for _ in range(2):
        script.fetch(source)
        script.learns()
        script.gpu.works(2)
    script.fetch(source, None)
    assert [step.duration / MS for step in script.steps] == [6, 6]
    assert [step.samples for step in script.steps] == [8, 8]
    assert script.steps[0].taken.host == {
        name: [MS, 1] for name in ("data_generation", "forward_pass", "backward_pass", "optimizer_step")
    }


def test_the_last_step_ends_with_what_was_seen_last(script):
    """Half an hour of saving behind the training is no part of its last step."""
    script.learns()
    script.gpu.works(1_800_000)
    script.loop.close()
    assert script.steps[0].duration == 3 * MS


def test_micro_batches_are_one_step(script):
    """Losses add up until the optimizer steps."""
    source = Source(4)
    for last in (False, True):
        script.fetch(source)
        script.forward()
        script.backward(0.25)
        if last:
            script.update()
    assert script.losses() == [[[0.25, 0.25]]]
    assert (script.steps[0].batches, script.steps[0].seen) == (2, 16)


def test_two_backward_passes_of_one_forward_are_two_losses(script):
    """They do not add up."""
    script.forward()
    script.backward(1.0)
    script.backward(2.0)
    script.update()
    assert script.losses() == [[[1.0], [2.0]]]


@pytest.mark.parametrize("loader", [True, False])
def test_optimizers_one_after_another_are_one_step(script, loader):
    """Critic and generator: two updates, each after a forward pass of its own, are one iteration."""
    script.loop.expect({1, 2})
    source = Source(3)
    for _ in range(3):
        script.fetch(source) if loader else None
        script.learns(1.0, optimizer=1)
        script.learns(2.0, optimizer=2)
    assert script.losses() == [[[1.0], [2.0]]] * 3
    assert [step.duration / MS for step in script.steps] == [6 + loader] * 3


def test_an_optimizer_that_is_never_used_is_not_waited_for(script):
    """It lives, but does not step: each update of the other is a step."""
    script.loop.expect({1, 2})
    for _ in range(4):
        script.learns()
    script.loop.close()
    assert [step.duration / MS for step in script.steps] == [3] * 4


def test_two_optimizers_after_one_backward_are_one_step(script):
    """As Muon beside AdamW."""
    for _ in range(3):
        script.forward()
        script.backward()
        script.update(1)
        script.update(2)
    script.loop.close()
    assert [step.updates for step in script.steps] == [2, 2, 2]


def test_without_forward_passes_updates_tell_the_steps(script):
    """A compiled step function shows nothing but its backward passes, or nothing but its updates."""
    for _ in range(3):
        script.backward()
        script.update()
    for _ in range(2):
        script.update()
    script.loop.close()
    assert len(script.steps) == 5


def test_a_closure_begins_a_new_step(script):
    """LBFGS: forward and backward lie inside the update; the first backward counts; the rates go with their step."""
    for _ in range(3):
        script.loop.update_begins([0.5], 1)
        for call in range(2):
            script.forward()
            script.backward(float(call))
        script.loop.update_ends()
    assert script.losses() == [[[0.0]]] * 3
    assert [step.lrs for step in script.steps] == [[0.5]] * 3
    assert [step.seen for step in script.steps] == [8] * 3


@pytest.mark.parametrize("loader", [True, False])
def test_forward_alone_is_an_evaluation(script, loader):
    """It is no step and in no step's time, and its batches are one evaluation."""
    source, held_out = Source(2), Source(3)
    script.fetch(source)
    script.learns()
    for _ in range(3):
        script.fetch(held_out) if loader else None
        script.forward(evaluates=True, learns=False)
    script.fetch(held_out, None) if loader else None
    script.fetch(source)
    script.learns()
    script.loop.close()
    assert [step.duration / MS for step in script.steps] == [4, 4]
    found = [taken.host["validation_epoch"] for taken in script.outside if "validation_epoch" in taken.host]
    assert sum(count for _, count in found) == 1
    assert sum(spent for spent, _ in found) == (6 if loader else 3) * MS


def test_an_evaluation_between_micro_batches_is_not_in_the_step(script):
    """The step's time goes on behind it."""
    source = Source(2)
    script.fetch(source)
    script.forward()
    script.backward()
    held_out = Source(1)
    script.fetch(held_out)
    script.forward(evaluates=True, learns=False)
    script.fetch(source)
    script.learns()
    script.loop.close()
    assert [step.duration / MS for step in script.steps] == [7]


def test_batches_that_are_fetched_ahead_belong_to_later_steps(script):
    """Samples are then those that the model was given, and an epoch's progress counts what was trained on."""
    source = Source(4)
    for samples in (8, 8, 8):
        script.fetch(source, samples)
    for n in range(4):
        script.forward(fed=(5, 10))
        if n == 0:
            script.fetch(source, 5)  # between forward and backward, as some loops do
        script.backward()
        script.update()
    script.loop.close()
    assert [(step.seen, step.tokens, step.batches) for step in script.steps] == [(5, 10, 1)] * 4
    assert [step.epoch for step in script.steps] == [0.25, 0.5, 0.75, 1.0]


def test_what_the_model_was_given_is_left_out_where_it_is_ambiguous(script):
    """Two forward passes before a backward pass, or none that was seen: samples are unknown."""
    script.backward()  # its forward pass came before the modules were known
    script.update()
    script.forward()
    script.learns()
    script.learns()
    script.loop.close()
    assert [step.seen for step in script.steps] == [None, None, 8]


def test_an_epoch_reaches_to_the_next_ones_first_fetch(script):
    """What lies behind its loader belongs to it; a loader that feeds no training begins none."""
    for _ in range(2):
        source = Source(1)
        script.fetch(source)
        script.learns()
        script.fetch(source, None)
        held_out = Source(1)
        script.fetch(held_out)
        script.forward(evaluates=True, learns=False)
        script.gpu.works(10)
    script.loop.close()
    assert [epoch.total / MS for epoch in script.epochs] == [17, 17]
    assert [step.epoch for step in script.steps] == [1.0, 2.0]


def test_a_failed_forward_pass_is_retried_or_left_out(script):
    """The batch that fails is in no step, one that succeeds behind it in the same unit is."""
    source = Source(3)
    script.fetch(source)
    script.loop.forward_begins(False, (8, 0))
    script.loop.failed()
    script.fetch(source)
    script.learns()
    script.loop.forward_begins(False, (8, 0))
    script.loop.failed()
    script.learns(2.0)
    assert script.losses() == [[[1.0]], [[2.0]]]
    assert [step.batches for step in script.steps] == [1, 1]


def test_a_failed_backward_pass_brings_no_loss(script):
    """The next step's loss is its own."""
    script.forward()
    script.loop.backward_begins(5.0)
    script.loop.backward_failed()
    script.learns(1.0)
    assert script.losses() == [[[1.0]]]


def test_a_failed_update_abandons_its_step(script):
    """Time and losses of it are in no step, and what follows is counted as before."""
    source = Source(3)
    script.learns()
    script.fetch(source)
    script.forward()
    script.backward(5.0)
    script.loop.update_begins([0.1], 1)
    script.loop.update_failed()
    script.gpu.works(50)
    script.fetch(source)
    script.learns(2.0)
    assert script.losses() == [[[1.0]], [[2.0]]]
    assert [step.duration / MS for step in script.steps] == [3, 4]
    assert script.phases.path == ""


def test_a_step_that_is_skipped_says_so(script):
    """One of two optimizers is enough."""
    script.forward()
    script.backward()
    script.update(1, skipped=True)
    script.update(2, skipped=False)
    script.learns()
    script.loop.close()
    assert [step.skipped for step in script.steps] == [True, None]


def test_what_we_do_once_is_in_no_step(script):
    """Opening the run file takes a while; the step behind it begins when that is done."""

    def opens(step, epoch):
        script.steps.append(step)
        script.gpu.works(300 if len(script.steps) == 1 else 0)

    script.loop._so_far._on_step = opens
    for _ in range(3):
        script.learns()
    script.loop.close()
    assert [step.duration / MS for step in script.steps] == [3, 3, 3]


def test_brackets_of_the_user_say_it_outright(script):
    """Every bracket is a step, whatever lies in it; what lies outside is none."""
    script.learns()
    for _ in range(2):
        script.loop.step_begins()
        script.learns(1.0, optimizer=1)
        script.learns(2.0, optimizer=1)
        script.loop.step_ends()
        script.learns(9.0)
    assert script.losses() == [[[1.0], [2.0]]] * 2
