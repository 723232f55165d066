"""`stepscope.watch` around real loops: what it writes, that it changes nothing, and that it leaves nothing behind."""

import copy
import pickle
import threading
import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks

import stepscope
from stepscope import Run, TrainingRunLogger
from stepscope.errors import BadType
from stepscope.monitor.scope import Options, Scope

from .conftest import Training

Read = Callable[[], Run]


def test_a_bracketed_loop_needs_nothing_else(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """Steps with loss and learning rate, phases, an epoch, the host, memory, the speed of light."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    seen = []
    for _ in range(2):
        for batch in scope.loader(training.loader):
            with scope.step():
                with scope.phase("forward_pass"):
                    loss = training.forward(batch)
                with scope.phase("backward_pass"):
                    loss.backward()
                with scope.phase("optimizer_step"):
                    training.optimizer.step()
                    training.optimizer.zero_grad()
                seen.append(loss.item())
    scope.close()
    found = read()
    assert [step.loss for step in found.steps] == seen
    assert [step.step for step in found.steps] == list(range(1, 25))
    assert {step.lr for step in found.steps} == {1e-3}
    assert {step.samples for step in found.steps} == {8}
    assert [step.epoch for step in found.steps] == pytest.approx([n / 12 for n in range(1, 25)])
    phases = found.records("phases")
    assert [record.step for record in phases] == list(range(1, 25))
    named = {"data_generation", "forward_pass", "backward_pass", "optimizer_step"}
    assert all(set(record.host_ms) == named for record in phases[1:])
    assert [record.epoch for record in found.records("epoch")] == [1, 2]
    assert found.records("system")
    assert {"weights", "gradients", "optimizer", "activations"} <= {
        s.name for s in found.records("allocator")[-1].stats
    }
    (estimate,) = found.records("sol")
    assert estimate.other == pytest.approx(6 * (16 * 32 + 32) - 2 * 16 * 32)  # no gradient for the first layer's input


def test_without_a_phase_the_hooks_name_them(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """Forward, backward, update and the wait for data, inside a bracket that says nothing."""
    with stepscope.watch(training.model, training.optimizer, run) as scope:
        for batch in scope.loader(training.loader):
            with scope.step():
                training.update(training.forward(batch))
    phases = read().records("phases")
    assert set(phases[-1].host_ms) == {"data_generation", "forward_pass", "backward_pass", "optimizer_step"}


def test_without_a_bracket_the_optimizer_says_what_a_step_is(
    run: TrainingRunLogger, training: Training, read: Read
) -> None:
    """A loop that knows nothing of the scope."""
    with stepscope.watch(training.model, training.optimizer, run):
        for batch in training.loader:
            training.update(training.forward(batch))
    found = read()
    assert [step.step for step in found.steps] == list(range(1, 13))


def test_a_step_begins_with_the_fetch_of_its_batch(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """A loader that takes 10 ms is in the step's time, and in its share."""

    def slow() -> Any:
        for batch in training.loader:
            time.sleep(0.01)
            yield batch

    scope = stepscope.watch(training.model, training.optimizer, run)
    for batch in scope.loader(slow()):
        with scope.step():
            training.update(training.forward(batch))
        time.sleep(0.005)  # what lies behind the bracket belongs to no step
    scope.close()
    found = read()
    for record in found.records("phases")[3:]:
        waited = record.host_ms["data_generation"]
        assert waited > 10
        assert record.duration_ms == pytest.approx(waited + sum(record.host_ms.values()) - waited, rel=0.5)
    (epoch,) = found.records("epoch")
    assert epoch.other_ms > 12 * 5


def test_the_programs_own_steps_are_the_ones_that_count(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """Logged inside the bracket or behind it: the phases have their numbers, and no step is written twice."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    for step, batch in enumerate(scope.loader(training.loader)):
        with scope.step():
            loss = training.forward(batch)
            training.update(loss)
            if step % 2:
                run.log_step(100 + step, loss=loss, tokens=64, duration_ms=5)
        if not step % 2:
            run.log_step(100 + step, loss=loss, tokens=64, duration_ms=5)
    scope.close()
    found = read()
    assert [step.step for step in found.steps] == list(range(100, 112))
    assert [record.step for record in found.records("phases")] == list(range(100, 112))


def test_a_step_that_the_program_logs_knows_its_speed_of_light(
    run: TrainingRunLogger, training: Training, read: Read
) -> None:
    """Given peaks, the percentage follows from what the program says of tokens and time; here by hand."""
    model = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 64))
    training.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scope = stepscope.watch(model, training.optimizer, run, peaks={"fp32": 1e-3})
    for step in range(5):
        with scope.step():
            ids = torch.randint(64, (4, 8))
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            training.update(loss)
            run.log_step(step, loss=loss, tokens=32, duration_ms=2.0)
    scope.close()
    expected = 100 * (32 * 6 * 16 * 64 / 1e9) / 2e-3
    assert read().steps[-1].sol == pytest.approx(expected, rel=0.01)


def test_validation_and_pictures_belong_to_their_epoch(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """What follows the last step, up to the next epoch's first fetch; a loader inside starts none."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    for _ in range(3):
        for batch in scope.loader(training.loader):
            with scope.step():
                training.update(training.forward(batch))
        with scope.phase("validation_epoch"), torch.no_grad():
            for batch in scope.loader(training.loader):
                training.forward(batch)
            time.sleep(0.01)
        with scope.phase("visualization_generation"):
            time.sleep(0.005)
    scope.close()
    epochs = read().records("epoch")
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3]
    assert [epoch.steps for epoch in epochs] == [12, 12, 12]
    for epoch in epochs:
        spent = {phase.name: phase for phase in epoch.phases}
        assert (spent["validation_epoch"].count, spent["visualization_generation"].count) == (1, 1)
        assert spent["validation_epoch"].ms > 10
        assert spent["validation_epoch/data_generation"].ms < spent["validation_epoch"].ms
        top = sum(phase.ms for phase in epoch.phases if "/" not in phase.name)
        assert top + epoch.other_ms == pytest.approx(epoch.total_ms, abs=0.001)


def test_an_evaluation_that_nobody_names_is_found(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """Forward passes without backward: one evaluation, its parts inside it, and no step."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    for _ in range(2):
        for batch in training.loader:
            training.update(training.forward(batch))
        training.model.eval()
        with torch.no_grad():
            for batch in training.loader:
                training.forward(batch)
        training.model.train()
    scope.close()
    found = read()
    assert len(found.steps) == 24
    for epoch in found.records("epoch"):
        spent = {phase.name: phase for phase in epoch.phases}
        assert spent["validation_epoch"].count == 1
        assert 0 < spent["validation_epoch/forward_pass"].ms < spent["validation_epoch"].ms


def test_an_endless_loader_has_epochs_where_the_user_says_so(
    run: TrainingRunLogger, training: Training, read: Read
) -> None:
    """`with scope.epoch()`: its ends are the bracket's."""

    def endless() -> Any:
        while True:
            yield from training.loader

    scope = stepscope.watch(training.model, training.optimizer, run)
    batches = iter(scope.loader(endless()))
    for _ in range(3):
        with scope.epoch():
            for _ in range(5):
                with scope.step():
                    training.update(training.forward(next(batches)))
    scope.close()
    epochs = read().records("epoch")
    assert [(epoch.epoch, epoch.steps) for epoch in epochs] == [(1, 5), (2, 5), (3, 5)]


def test_several_losses_stand_in_metrics(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """Two backward passes after one forward pass: the first is the loss, all have their names."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    for (batch,) in training.loader:
        out = training.model(batch)
        first, second = out.square().mean(), out.abs().mean()
        first.backward(retain_graph=True)
        second.backward()
        training.optimizer.step()
        training.optimizer.zero_grad()
    scope.close()
    found = read()
    for step, metrics in zip(found.steps, found.records("metrics"), strict=True):
        assert metrics.values["loss/0"] == step.loss
        assert metrics.values["loss/1"] != step.loss


def final(training: Training, scope: Any = None) -> tuple[list[Any], Any]:
    """Weights and random state after a training, watched or not."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Dropout(0.5), training.model)
    for batch in scope.loader(training.loader) if scope else training.loader:
        loss = model(batch[0]).square().mean()
        training.update(loss)
    return [p.detach().clone() for p in training.model.parameters()], torch.get_rng_state()


def test_not_a_bit_of_the_result_changes(run: TrainingRunLogger) -> None:
    """Weights, optimizer state and random state, watched and unwatched."""
    plain, watched = Training(), Training()
    expected, random_state = final(plain)
    with stepscope.watch(watched.model, watched.optimizer, run) as scope:
        found, random_state_watched = final(watched, scope)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert torch.equal(random_state, random_state_watched)
    states = zip(plain.optimizer.state.values(), watched.optimizer.state.values(), strict=True)
    assert all(torch.equal(a["exp_avg_sq"], b["exp_avg_sq"]) for a, b in states)


def test_nothing_is_left_behind(run: TrainingRunLogger, training: Training) -> None:
    """No hook, no method of ours, no thread; and a model that is copied or saved while watched holds nothing."""
    threads = set(threading.enumerate())
    before = (torch.Tensor.backward, torch.utils.data.DataLoader.__iter__, nn.Sequential.__call__)
    scope = stepscope.watch(training.model, training.optimizer, run)
    for batch in training.loader:
        training.update(training.forward(batch))
    assert b"stepscope" not in pickle.dumps(copy.deepcopy(training.model))
    scope.close()
    assert (torch.Tensor.backward, torch.utils.data.DataLoader.__iter__, nn.Sequential.__call__) == before
    assert "__call__" not in nn.Sequential.__dict__
    assert not training.model._forward_hooks
    assert not _global_optimizer_pre_hooks
    assert set(threading.enumerate()) <= threads


def test_a_fault_of_ours_is_said_once_and_training_goes_on(tmp_path: Path, training: Training) -> None:
    """Here a teller that always raises."""
    run = TrainingRunLogger(tmp_path / "training.json", verbosity=-2)
    scope = stepscope.watch(training.model, training.optimizer, run)

    def fails(timed: Any) -> None:
        raise RuntimeError("planted")

    scope.teller._step = fails  # type: ignore[method-assign]
    for batch in scope.loader(training.loader):
        with scope.step():
            training.update(training.forward(batch))
    scope.close()
    run.close()
    said = [event for event in stepscope.read_run(run.path).events if event.rule == "watching"]
    assert "planted" in said[0].message
    assert said[-1].message.startswith("watching happened 12 times")


def test_an_exception_of_the_training_goes_its_way(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """The step that raised is written with what it had; the next one is as ever."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    batches = iter(scope.loader(training.loader))

    def fails() -> None:
        with scope.step(), scope.phase("forward_pass"):
            raise ValueError("of the user")

    next(batches)
    with pytest.raises(ValueError, match="of the user"):
        fails()
    with scope.step():
        training.update(training.forward(next(batches)))
    scope.close()
    assert len(read().records("phases")) == 2


def test_out_of_memory_says_what_held_it(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """What was asked for, by which phase, what each segment held, and the steps before."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    batches = iter(scope.loader(training.loader))
    for _ in range(4):
        with scope.step():
            training.update(training.forward(next(batches)))

    def fails() -> None:
        with scope.step(), scope.phase("forward_pass"):
            torch.empty(1 << 60, dtype=torch.uint8)

    with pytest.raises(RuntimeError, match="allocate"):
        fails()
    scope.close()
    (record,) = read().records("oom")
    assert record.asked == 1 << 60
    assert {"weights", "optimizer"} <= {segment.name for segment in record.stats}
    assert [step["step"] for step in record.last_steps] == [1, 2, 3, 4]


def test_a_disabled_run_is_not_watched(tmp_path: Path, training: Training) -> None:
    """Every call does nothing, and gives back what it was given."""
    run = TrainingRunLogger(tmp_path / "training.json", mode="disabled")
    scope = stepscope.watch(training.model, training.optimizer, run)
    assert scope.loader(training.loader) is training.loader
    with scope.epoch(), scope.step(), scope.phase("forward_pass"):
        pass
    scope.close()
    assert not (tmp_path / "training.json").exists()


def test_closing_the_run_closes_the_scope(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """A program that forgets the scope loses nothing; closing it afterwards does nothing."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    for batch in scope.loader(training.loader):
        with scope.step():
            training.update(training.forward(batch))
    run.close()
    scope.close()
    found = read()
    assert len(found.steps) == 12
    assert found.records("epoch")


def test_what_is_no_run_is_refused(training: Training) -> None:
    """With its name, and what is wanted."""
    with pytest.raises(BadType, match=r"stepscope\.init"):
        stepscope.watch(training.model, training.optimizer, "output/training.json")  # type: ignore[arg-type]


def test_the_card_is_printed_and_fits_a_screen(
    tmp_path: Path, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdicts or health, the step as a tree, memory, the machine, and the command that shows more."""
    run = TrainingRunLogger(tmp_path / "training.json")
    scope = stepscope.watch(training.model, training.optimizer, run)
    for batch in scope.loader(training.loader):
        with scope.step():
            training.update(training.forward(batch))
    capsys.readouterr()
    scope.close()
    run.close()
    said = capsys.readouterr().out.splitlines()
    card = said[next(n for n, line in enumerate(said) if line.startswith("── ")) :]
    assert len(card) <= 40
    assert all(len(line) <= 80 for line in card[:-1] if not line.startswith("more:"))
    assert any(line.startswith("step  ") for line in card)
    assert any("stepscope doctor" in line for line in card)


def test_an_evaluation_stands_behind_the_step_before_it(run: TrainingRunLogger, training: Training, read: Read) -> None:
    """A step waits for the program to log it, but not longer than until something else is logged."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    for batch in scope.loader(training.loader):
        with scope.step():
            training.update(training.forward(batch))
    run.log_eval(12, loss=1.0)
    scope.close()
    kinds = [record.kind for record in read().records() if record.kind in ("step", "eval")]
    assert kinds == ["step"] * 12 + ["eval"]


def test_where_no_file_can_be_made_the_training_is_left_alone(
    training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a script that did not ask to be watched: one line on stderr, and every hook is gone."""

    def refused() -> TrainingRunLogger:
        raise PermissionError("no such luck")

    scope = Scope(None, None, refused, Options())
    for batch in training.loader:
        training.update(training.forward(batch))
    assert capsys.readouterr().err.count("cannot watch: PermissionError: no such luck") == 1
    assert not _global_optimizer_pre_hooks
    scope.close()
    assert scope.card() == []


def test_steps_that_are_told_together_have_times_of_their_own(
    run: TrainingRunLogger, training: Training, read: Read
) -> None:
    """Each its end's: what is left of a run is reckoned from them."""
    scope = stepscope.watch(training.model, training.optimizer, run)
    for batch in scope.loader(training.loader):
        with scope.step():
            training.update(training.forward(batch))
            time.sleep(0.01)
    scope.close()
    times = [datetime.fromisoformat(step.time) for step in read().steps]
    gaps = [(late - early).total_seconds() for early, late in pairwise(times)]
    assert min(gaps) > 0.009
