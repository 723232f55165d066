"""Full memory and growing memory, in closed form."""

import random

import pytest

from stepscope.diagnose.bottlenecks import verdicts
from stepscope.diagnose.case import Case
from stepscope.records import GpuMemory, GpuModel, Header, Memory, OutOfMemory, Segment, Step, System

GIB, MIB = 1 << 30, 1 << 20


def found(*records):
    """All verdicts on the records."""
    case = Case()
    for record in records:
        case.see(record)
    return verdicts(case)


def rules(*records):
    """The verdicts by rule."""
    return {verdict.rule: verdict for verdict in found(*records)}


@pytest.mark.parametrize(("percent", "names"), [(84.9, set()), (85.5, {"memory"}), (99.0, {"memory"})])
def test_ram_is_named_from_85_percent_on(percent, names):
    """One reading is enough: what is full once can fail once."""
    verdict = rules(System(step=1, ram_percent=percent, ram_total=64 * GIB))
    assert set(verdict) == names
    if names:
        assert verdict["memory"].evidence["memory_pressure"] == pytest.approx(percent / 100)
        assert verdict["memory"].gain is None
        assert verdict["memory"].advice[0] == "Reduce batch size"


def test_a_moment_in_a_long_run_is_no_finding():
    """One reading of a hundred above the limit is the machine's; one in ten is the run's."""
    low = [System(step=n, ram_percent=50.0) for n in range(99)]
    assert rules(*low, System(step=99, ram_percent=92.0)) == {}
    assert set(rules(*low[:90], *(System(step=n, ram_percent=92.0) for n in range(10)))) == {"memory"}


@pytest.mark.parametrize(
    ("percent", "level"), [(84.0, None), (86.0, "warning"), (98.0, "error")], ids=["under", "over", "gross"]
)
def test_a_containers_limit_is_named_as_such(percent, level):
    """Where the container's limit is the memory, its own rule speaks, and once."""
    readings = [System(step=n, ram_percent=percent, ram_limit=8 * GIB, ram_limit_percent=percent) for n in range(5)]
    verdict = rules(*readings)
    assert {name: v.level for name, v in verdict.items()} == ({"container_memory": level} if level else {})
    if level:
        assert "of the container's 8.0 GiB is in use" in verdict["container_memory"].message
        assert "Reduce batch size" in verdict["container_memory"].advice


@pytest.mark.parametrize(("held", "names"), [(89, set()), (91, {"gpu_memory"}), (99, {"gpu_memory"})])
def test_a_gpus_memory_is_named_from_90_percent_on(held, names):
    """Memory that tensors hold, of the GPU's; another GPU beside it is not accused."""
    gpus = [GpuMemory(id=0, allocated=held, total=100), GpuMemory(id=1, allocated=10, total=100)]
    verdict = found(*(System(step=n, gpus=gpus) for n in range(3)), Memory(step=2, id=0, allocated=1, retries=7))
    assert {v.rule for v in verdict} == names
    if names:
        (v,) = verdict
        assert (v.evidence["gpu"], v.evidence["retries"]) == (0, 7)
        assert v.advice[:3] == (
            "Reduce batch size or model size",
            "Use gradient checkpointing",
            "Enable mixed precision training (AMP)",
        )


def test_an_allocation_that_failed_is_an_error():
    """It says what was asked for, what was free, where, and what held the memory."""
    stats = [Segment(name="weights", device=GIB), Segment(name="activations", device=60 * GIB)]
    verdict = rules(OutOfMemory(step=7, id=0, asked=2 * GIB, free=GIB, phase="forward_pass", stats=stats))["gpu_memory"]
    assert (verdict.level, verdict.severity) == ("error", 1.0)
    assert verdict.message == (
        "out of memory on GPU 0 at step 7: asked for 2.0 GiB, 1.0 GiB were free, in forward_pass, "
        "most is held by activations (60.0 GiB), weights (1.0 GiB)"
    )
    bare = rules(OutOfMemory(step=7))["memory"]
    assert bare.message == "out of memory on the host at step 7"


def growing(bytes_a_step, start=4 * GIB, steps=400, noise=2 * MIB, id_=0):
    """The memory at the end of every tenth step: caches fill up in the first forty, then it grows or not."""
    chance = random.Random(3)
    for step in range(0, steps, 10):
        cache = min(step, 40) * 10 * MIB
        held = start + cache + step * bytes_a_step + chance.uniform(-noise, noise)
        known = {"allocated": int(held)} if id_ is not None else {"resident": int(held)}
        yield Memory(step=step, id=id_, **known)


@pytest.mark.parametrize("id_", [0, None], ids=["gpu", "host"])
@pytest.mark.parametrize(
    ("start", "factor", "names"),
    [
        (size, factor, names)
        for size in (400 * MIB, 4 * GIB, 40 * GIB)
        for factor, names in ((0.7, 0), (1.6, 1), (9, 1))
    ],
)
def test_a_leak_is_named_from_five_percent_on(id_, start, factor, names):
    """Three sizes of model, each leaking just under, just over and far over 5 % of what it holds."""
    level = start + 400 * MIB
    leak = max(factor * 0.05 * level, 20 * MIB * (factor > 1)) / 320  # a step, over the part that is judged
    verdict = rules(*growing(leak, start, id_=id_))
    assert set(verdict) == ({"creep"} if names else set())
    if names:
        assert verdict["creep"].evidence["bytes_per_step"] == pytest.approx(leak, rel=0.04)


def test_a_cache_that_fills_up_is_no_leak():
    """Memory that rises over the first half of the run and then stays is healthy."""
    records = [Memory(step=n, id=0, allocated=GIB + min(n, 200) * 10 * MIB) for n in range(0, 400, 10)]
    assert rules(*records) == {}


def test_a_saw_tooth_is_no_leak():
    """Memory that grows and is given back, as a garbage collector does, is healthy."""
    records = [Memory(step=n, id=0, allocated=GIB + (n % 100) * 10 * MIB) for n in range(0, 400, 10)]
    assert rules(*records) == {}


def test_a_leak_says_when_memory_is_full():
    """10 MiB a step in a GPU of 16 GiB; where the run ends before, it is information."""
    leak = [*growing(10 * MIB), GpuModel(id=0, memory=16 * GIB)]
    verdict = rules(*leak)["creep"]
    left = (16 * GIB - 4 * GIB - 400 * MIB) / (10 * MIB) - 390
    assert verdict.evidence["steps_left"] == pytest.approx(left, rel=0.05)
    assert (verdict.level, rules(Header(total_steps=500), *leak)["creep"].level) == ("warning", "info")


def test_batches_that_grow_are_no_leak():
    """Longer sequences hold more: nobody can say what of it is a leak."""
    records = list(growing(MIB, start=GIB))
    steps = [Step(step=n, step_tokens=1000 + 5 * n) for n in range(400)]
    assert rules(*records, *steps) == {}
    assert set(rules(*records, *[Step(step=n, step_tokens=1000) for n in range(400)])) == {"creep"}
