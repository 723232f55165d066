"""What the document on *weight updates* promises of `WeightUpdateMonitor` itself."""

import math
import os
import subprocess
import sys

import pytest

import stepscope

MONITOR = pytest.mark.waits("stepscope.WeightUpdateMonitor")


def watched(**options):
    """A monitor, and a trained two-layer model with its AdamW; the monitor comes first, for it may not be there."""
    monitor = stepscope.WeightUpdateMonitor(**options)
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    return monitor, model, optimizer


def train(monitor, model, optimizer, steps=1, clip=1.0):
    """Some steps with both checks where the document places them; the diagnostics of the last one."""
    import torch

    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(32, 8)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        gradients = monitor.check_gradients(model, optimizer)
        optimizer.step()
        updates = monitor.check_updates(model, optimizer)
    return gradients, updates


@MONITOR
@pytest.mark.promise("updates/constructor")
def test_the_constructor_takes_the_five_arguments():
    """“WeightUpdateMonitor( sample_size=self.config.weight_monitor_sample_size”: and four thresholds, all by name."""
    stepscope.WeightUpdateMonitor(
        sample_size=1024,
        vanishing_grad_threshold=1e-7,
        exploding_grad_threshold=1e2,
        frozen_update_ratio_threshold=1e-12,
        frozen_patience_steps=3,
    )


@MONITOR
@pytest.mark.promise("updates/no-interval")
def test_every_call_measures():
    """“ship-ready, no interval logic”: each call of a check answers for every parameter."""
    monitor, model, optimizer = watched()
    assert len(train(monitor, model, optimizer)[0]) == 4
    assert len(train(monitor, model, optimizer)[1]) == 4


@MONITOR
@pytest.mark.promise("updates/check-gradients")
def test_gradients_are_those_of_the_parameters():
    """“check_gradients(self.model, self.optimizer)” gives each parameter's gradient norm under its name."""
    monitor, model, optimizer = watched()
    gradients, _ = train(monitor, model, optimizer)
    for name, parameter in model.named_parameters():
        assert gradients[name].grad_norm_l2 == pytest.approx(float(parameter.grad.norm()), rel=1e-5)


@MONITOR
@pytest.mark.promise("updates/check-updates", "updates/update-ratio", "updates/diagnostics")
def test_the_update_ratio_is_that_of_its_formula():
    """“check_updates(self.model, self.optimizer)” has the “Decisive update_ratio formula” in “diag.update_ratio”."""
    monitor, model, optimizer = watched(sample_size=10_000)  # every element, so that the ratio is known exactly
    train(monitor, model, optimizer)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    _, updates = train(monitor, model, optimizer)
    for name, parameter in model.named_parameters():
        ratio = float((parameter.detach() - before[name]).norm() / (parameter.detach().norm() + 1e-12))
        assert updates[name].update_ratio == pytest.approx(ratio, rel=1e-4)


@MONITOR
@pytest.mark.promise("updates/nothing-yet")
def test_nothing_to_report_has_count_zero():
    """“stats.get("count", 0.0) == 0.0” where there is nothing: before the first update can be known."""
    monitor, model, optimizer = watched()
    _, updates = train(monitor, model, optimizer)
    assert stepscope.WeightUpdateMonitor.aggregate_update_stats(updates)["count"] == 0.0
    assert stepscope.WeightUpdateMonitor.aggregate_gradient_stats({})["count"] == 0.0


@MONITOR
@pytest.mark.promise("updates/percentile")
def test_percentile_is_the_nearest_rank_above():
    """“Fixed percentile calculation (uses ceil)”: of four values the 95th percentile is the largest."""
    monitor, model, optimizer = watched()
    gradients, _ = train(monitor, model, optimizer)
    norms = sorted(diagnostics.grad_norm_l2 for diagnostics in gradients.values())
    stats = stepscope.WeightUpdateMonitor.aggregate_gradient_stats(gradients)
    assert stats["p95"] == norms[math.ceil(0.95 * len(norms)) - 1]
    assert (stats["min"], stats["max"]) == (norms[0], norms[-1])


@MONITOR
@pytest.mark.promise("updates/plain-floats")
def test_aggregates_are_plain_floats():
    """“sorted Python floats, no extra tensors”: every aggregate is a float of Python."""
    monitor, model, optimizer = watched()
    gradients, updates = train(monitor, model, optimizer, steps=2)
    stats = stepscope.WeightUpdateMonitor.aggregate_gradient_stats(gradients)
    stats |= stepscope.WeightUpdateMonitor.aggregate_update_stats(updates)
    assert {type(value) for value in stats.values()} == {float}


@MONITOR
@pytest.mark.promise("updates/topk-largest")
def test_largest_gradients_come_first():
    """“top_k_largest_gradients( grad_diag, k=” gives the k largest as (name, norm)."""
    monitor, model, optimizer = watched()
    gradients, _ = train(monitor, model, optimizer)
    norms = {name: diagnostics.grad_norm_l2 for name, diagnostics in gradients.items()}
    largest = sorted(norms.items(), key=lambda item: -item[1])[:2]
    assert stepscope.WeightUpdateMonitor.top_k_largest_gradients(gradients, k=2) == largest


@MONITOR
@pytest.mark.promise("updates/topk-smallest")
def test_smallest_updates_come_first():
    """“top_k_smallest_updates( upd_diag, k=” gives the k smallest ratios as (name, ratio)."""
    monitor, model, optimizer = watched()
    _, updates = train(monitor, model, optimizer, steps=2)
    ratios = {name: diagnostics.update_ratio for name, diagnostics in updates.items()}
    smallest = sorted(ratios.items(), key=lambda item: item[1])[:2]
    assert stepscope.WeightUpdateMonitor.top_k_smallest_updates(updates, k=2) == smallest


@MONITOR
@pytest.mark.promise("updates/stable-hash")
def test_the_sample_is_the_same_in_every_process():
    """“Stable hash (FNV-1a, no Python hash randomization)”: PYTHONHASHSEED does not change what is sampled."""
    stepscope.WeightUpdateMonitor()
    code = (
        "import torch, stepscope; torch.manual_seed(0); m = torch.nn.Linear(64, 64)\n"
        "o = torch.optim.SGD(m.parameters(), lr=1); w = stepscope.WeightUpdateMonitor(sample_size=7)\n"
        "for _ in range(2): o.zero_grad(); m(torch.ones(1, 64)).sum().backward(); o.step(); d = w.check_updates(m, o)\n"
        "print(repr(d['weight'].update_ratio))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] != b""


@MONITOR
@pytest.mark.promise("updates/works-with")
def test_a_frozen_parameter_is_found_among_moving_ones():
    """“Works correctly with AdamW, weight decay, gradient clipping”: what stands still is frozen, the rest is not."""
    monitor, model, optimizer = watched(frozen_patience_steps=3)
    del optimizer.param_groups[0]["params"][-1]  # the last bias has a gradient, and no optimizer
    _, updates = train(monitor, model, optimizer, steps=5)
    assert [name for name, diagnostics in updates.items() if diagnostics.is_frozen] == ["2.bias"]


@MONITOR
@pytest.mark.promise("updates/param-groups")
def test_each_group_has_its_own_learning_rate():
    """“Supports multiple param groups (per-param LR)”: a diagnosis carries the rate of its parameter's group."""
    monitor, model, _ = watched()
    import torch

    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "lr": 0.2}]
    gradients, _ = train(monitor, model, torch.optim.AdamW(groups))
    assert (gradients["0.weight"].learning_rate, gradients["2.weight"].learning_rate) == (0.1, 0.2)


@MONITOR
@pytest.mark.promise("updates/memory-small", "updates/memory-buffers", "updates/memory-reduction")
def test_memory_stays_small_and_is_reused():
    """“~4MB for 1000 params”, “No fragmentation (small buffers, reused)”, hence the “memory reduction” over a clone."""
    monitor, _, _ = watched(sample_size=1024)
    import torch

    model = torch.nn.ParameterList(torch.randn(2000) for _ in range(1000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in model:
        parameter.grad = torch.ones_like(parameter)
    held = []
    for _ in range(2):
        optimizer.step()
        monitor.check_updates(model, optimizer)
        held.append(_bytes_held(monitor))
    assert held[0] == held[1] <= 4.5e6


def _bytes_held(thing):
    """Bytes of the tensors that an object reaches."""
    import gc

    import torch

    seen, todo, storages = set(), [thing], {}
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, (type, type(sys))):
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            storages[item.untyped_storage().data_ptr()] = item.untyped_storage().nbytes()
        else:
            todo += gc.get_referents(item)
    return sum(storages.values())
