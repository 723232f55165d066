"""A watched loop: every segment at its fullest, in few steps, without a changed bit."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from stepscope.speed.memory import FIRST, TRIES, MemoryWatch  # noqa: E402


class Clock:
    """Time that stands still until somebody sets it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def transformer() -> nn.Module:
    """Two small layers, with dropout."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def train(model: nn.Module, optimizer: Any, steps: int, watch: MemoryWatch | None = None, parts: int = 1) -> list[bool]:
    """Train on noise; the gradients are None when a step ends."""
    sampled = []
    for _ in range(steps):
        for _ in range(parts):
            loss = model(torch.randn(4, 8, 16)).square().mean()
            if watch is not None:
                watch.after_forward(loss)
            loss.backward()
        if watch is not None:
            watch.before_optimizer()
        optimizer.step()
        optimizer.zero_grad()
        if watch is not None:
            sampled.append(watch.end_of_step())
    return sampled


def stats(watch: MemoryWatch) -> dict[str, int]:
    """Pageable bytes by segment of the only record."""
    (record,) = watch.allocator()
    assert record.id is None
    return {segment.name: segment.pageable for segment in record.stats or []}


def test_every_segment_is_at_its_fullest() -> None:
    """The gradients are counted although they are None when the step ends, the state although it came in it."""
    model = transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    watch = MemoryWatch(model, optimizer)
    assert watch.allocator() == []
    assert train(model, optimizer, 1, watch) == [True]
    weights = sum(parameter.numel() for parameter in model.parameters()) * 4
    tensors = len(list(model.parameters()))
    found = stats(watch)
    assert found.pop("activations") > 4 * 8 * 16 * 4
    assert found == {"weights": weights, "gradients": weights, "optimizer": 2 * weights + 4 * tensors}
    assert watch.failure is None


def test_three_steps_are_sampled_then_one_each_half_minute() -> None:
    """Between them a moment is one comparison, and the newest sample stays."""
    model, clock = transformer(), Clock()
    optimizer = torch.optim.AdamW(model.parameters())
    watch = MemoryWatch(model, optimizer, clock=clock)
    assert train(model, optimizer, 6, watch) == [True] * FIRST + [False] * (6 - FIRST)
    before = stats(watch)
    clock.now = 31.0
    assert train(model, optimizer, 4, watch) == [False, True, False, False]
    assert stats(watch) == before


def test_a_watched_run_is_bit_identical() -> None:
    """Weights, optimizer state and the generator after ten steps with dropout."""
    results = []
    for watched in (False, True):
        torch.manual_seed(7)
        model = transformer()
        optimizer = torch.optim.AdamW(model.parameters())
        train(model, optimizer, 10, MemoryWatch(model, optimizer, every_s=0) if watched else None)
        state = [value for values in optimizer.state.values() for value in values.values()]
        results.append([*model.parameters(), *state, torch.get_rng_state()])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_accumulated_micro_batches_are_one_step() -> None:
    """Activations are one micro-batch's: the earlier ones are gone."""
    found = []
    for parts in (1, 8):
        torch.manual_seed(0)
        model = transformer()
        optimizer = torch.optim.SGD(model.parameters())
        watch = MemoryWatch(model, optimizer)
        train(model, optimizer, 1, watch, parts)
        found.append(stats(watch))
    assert found[0] == found[1]


def test_a_skipped_update_is_sampled_again() -> None:
    """What a GradScaler does at the start: no optimizer, no full sample, and the next step tells."""
    model = transformer()
    optimizer = torch.optim.SGD(model.parameters())
    watch = MemoryWatch(model, optimizer)
    for _ in range(4):
        watch.after_forward(model(torch.randn(4, 8, 16)).sum())
        assert watch.end_of_step() is False
    assert watch.allocator() == []
    assert train(model, optimizer, 1, watch) == [True]
    assert "gradients" in stats(watch)


def test_a_loop_whose_optimizer_is_never_seen_is_not_sampled_for_ever() -> None:
    """After some tries what is known is given, and the half minute holds."""
    model, clock = transformer(), Clock()
    watch = MemoryWatch(model, clock=clock)
    sampled = []
    for _ in range(TRIES + 5):
        watch.after_forward(model(torch.randn(4, 8, 16)).sum())
        sampled.append(watch.end_of_step())
    assert sampled == [False] * (TRIES - 1) + [True] + [False] * 5
    assert set(stats(watch)) == {"weights", "activations"}


def test_lbfgs_is_measured_although_its_forward_comes_inside_its_step() -> None:
    """Gradients are those at the end of the step."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    watch = MemoryWatch(model, optimizer)
    optimizer.register_step_pre_hook(lambda *_: watch.before_optimizer())

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).square().mean()
        watch.after_forward(loss)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert watch.end_of_step() is True
    found = stats(watch)
    assert (found["weights"], found["gradients"]) == (80, 80)
    assert min(found["optimizer"], found["activations"]) > 0


def test_several_models_and_optimizers_are_one_watch() -> None:
    """As a GAN has them: two optimizers in one step, whose gradients are never alive together."""
    one, two = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.SGD(model.parameters(), momentum=0.9) for model in (one, two)]
    watch = MemoryWatch([one, two], optimizers)
    for model, optimizer in zip((one, two), optimizers, strict=True):
        loss = model(torch.randn(3, 4)).sum()
        watch.after_forward(loss)
        loss.backward()
        watch.before_optimizer()
        optimizer.step()
        optimizer.zero_grad()
    assert watch.end_of_step()
    found = stats(watch)
    assert (found["weights"], found["gradients"], found["optimizer"]) == (100, 80, 100)


def test_activations_that_cannot_be_told_are_left_out() -> None:
    """Without the loss there is nothing to walk; the rest is measured."""
    model = nn.Linear(4, 4)
    watch = MemoryWatch(model)
    watch.after_forward(None)
    watch.before_optimizer()
    assert watch.end_of_step()
    assert stats(watch) == {"weights": 80}


def test_moments_in_any_order_and_number_do_no_harm() -> None:
    """A loop that is only half seen."""
    model = nn.Linear(4, 4)
    watch = MemoryWatch(model)
    for moment in (watch.end_of_step, watch.before_optimizer, watch.start_of_step, watch.after_forward) * 30:
        moment()
    watch.end_of_step()
    assert watch.failure is None
    assert stats(watch) == {"weights": 80}


def test_a_model_that_raises_when_looked_at_ends_the_sampling_alone() -> None:
    """The reason is kept, the moments go on in silence, and what was measured before stays."""

    class Odd(nn.Linear):
        angry = False

        def named_parameters(self, *arguments: Any, **options: Any) -> Any:
            if self.angry:
                raise RuntimeError("not now")
            return super().named_parameters(*arguments, **options)

    model = Odd(4, 4)
    watch = MemoryWatch(model)
    watch.before_optimizer()
    watch.after_forward(model(torch.ones(1, 4)).sum())
    assert watch.end_of_step()
    model.angry = True
    watch.after_forward(None)
    assert watch.failure == "RuntimeError: not now"
    assert [watch.end_of_step() for _ in range(3)] == [False] * 3
    assert watch.now() == []
    assert stats(watch)["weights"] == 80


def test_a_model_that_compiles_is_watched(tmp_path: Any) -> None:
    """A compiled graph saves its tensors in one node."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Sigmoid(), nn.Linear(16, 1))
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(compiled.parameters())
    watch = MemoryWatch(compiled, optimizer)
    assert train(compiled, optimizer, 1, watch) == [True]
    assert stats(watch)["activations"] == 2 * 4 * 8 * 16 * 4 + 4 * 8 * 4  # input, sigmoid's result, squared output


def test_now_is_what_is_held_at_this_moment() -> None:
    """For when an allocation fails; before any step, too."""
    model = nn.Linear(4, 4)
    watch = MemoryWatch(model)
    model(torch.ones(1, 4)).sum().backward()
    (record,) = watch.now()
    assert [(s.name, s.pageable) for s in record.stats or []] == [("weights", 80), ("gradients", 80)]


def test_the_host_has_its_resident_memory_and_no_gpu_is_woken() -> None:
    """Without CUDA there is one record of memory, and none of GPUs."""
    watch = MemoryWatch(nn.Linear(2, 2))
    (host,) = watch.memory(step=9)
    assert (host.step, host.id, host.allocated) == (9, None, None)
    assert host.resident is not None
    psutil = pytest.importorskip("psutil")
    assert abs(host.resident - psutil.Process().memory_info().rss) < 64 * 2**20
    assert watch.gpu_memory() == []
    assert not torch.cuda.is_initialized()
