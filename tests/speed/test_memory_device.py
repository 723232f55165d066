"""The allocator of a GPU, scripted: activations from its peak, levels, and how full the device is."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from stepscope.records import GpuMemory, Memory  # noqa: E402
from stepscope.speed import allocator  # noqa: E402
from stepscope.speed.allocator import Levels, parsed  # noqa: E402
from stepscope.speed.memory import MemoryWatch  # noqa: E402
from stepscope.speed.memory_sample import activations  # noqa: E402
from stepscope.speed.segments import segments  # noqa: E402

W = 16 * 16 * 4  # bytes of the model's weight, its gradient, and its momentum


class Device:
    """One scripted GPU: what is allocated moves the peaks as in the real allocator."""

    def __init__(self, other: int = 0) -> None:
        self.allocated = self.peak = self.other = other
        self.reserved = self.split = 0

    def add(self, size: int) -> None:
        """Allocate, or free what is negative."""
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, self.allocated)

    def levels(self, gpu: int) -> Levels:
        """The reading of the only GPU."""
        return Levels(self.allocated, self.peak, self.reserved, self.reserved, self.split, 0, 0)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Every tensor lies on GPU 0."""
    scripted = Device(other=500)
    monkeypatch.setattr("stepscope.speed.storages.where", lambda _: (0, "device"))
    monkeypatch.setattr("stepscope.speed.segments.levels", scripted.levels)
    monkeypatch.setattr("stepscope.speed.memory_sample.levels", scripted.levels)
    scripted.add(W)
    return scripted


class Loop:
    """A loop of one matrix, and what its steps allocate."""

    def __init__(self, device: Device, clock: Any = None) -> None:
        self.device = device
        self.model = nn.Linear(16, 16, bias=False)
        self.optimizer = torch.optim.SGD(self.model.parameters(), momentum=0.9)
        self.watch = MemoryWatch(self.model, self.optimizer, **({"clock": clock} if clock else {}))

    def step(self, forward: int, spike: int = 0, held_over: int = 0, late: int = 0) -> dict[str, int]:
        """`forward` is kept for backward, `spike` comes on top at its start, `late` at its end."""
        device, parameter = self.device, self.model.weight
        device.add(forward)
        self.watch.after_forward(None)
        device.add(spike)
        device.add(-spike - forward + held_over)
        device.add(W)
        device.add(late)
        device.add(-late)
        parameter.grad = torch.zeros_like(parameter)
        self.watch.before_optimizer()
        if not self.optimizer.state:
            device.add(W)
        self.optimizer.step()
        device.add(-W)
        self.optimizer.zero_grad()
        self.watch.end_of_step()
        device.add(-held_over)
        return {s.name: s.device for record in self.watch.allocator() for s in record.stats or []}


def test_activations_are_the_peaks_rise(device: Device) -> None:
    """The first two steps raise the counter, later ones are like them; nothing is reset."""
    loop = Loop(device)
    for _ in range(3):
        found = loop.step(forward=100_000, spike=20_000)
        assert found["activations"] == 120_000
    assert (found["weights"], found["gradients"], found["optimizer"], found["other"]) == (W, W, W, 500)


def test_a_smaller_step_under_an_old_peak_counts_what_backward_found(device: Device) -> None:
    """Its own peak cannot be seen: what was alive is measured, the old rise is not claimed for it."""
    loop = Loop(device)
    loop.step(forward=100_000, spike=20_000)
    assert loop.step(forward=30_000, spike=6_000)["activations"] == 30_000


def test_a_peak_from_outside_is_not_the_steps(device: Device) -> None:
    """An evaluation between two steps raises the counter; who says where the step starts is not misled."""
    loop = Loop(device)
    loop.step(forward=1000)
    device.add(900_000)
    device.add(-900_000)
    loop.watch.start_of_step()
    assert loop.step(forward=50_000)["activations"] == 50_000


def test_a_program_that_resets_the_counter_shows_every_peak(device: Device) -> None:
    """The peak since its reset is the step's."""
    loop = Loop(device)
    loop.step(forward=100_000, spike=20_000)
    device.peak = device.allocated
    assert loop.step(forward=30_000, spike=6_000)["activations"] == 36_000


def test_an_output_that_is_held_over_is_no_base(device: Device) -> None:
    """Logits that the loop keeps until the next forward pass are activations, not other tensors."""
    loop = Loop(device)
    for _ in range(3):
        found = loop.step(forward=100_000, held_over=40_000)
        assert (found["activations"], found["other"]) == (100_000, 500)


def test_gradients_at_the_end_of_backward_are_not_activations(device: Device) -> None:
    """Where they outweigh the activations the peak is theirs."""
    assert Loop(device).step(forward=100, late=50)["activations"] == 100


@pytest.mark.parametrize(
    ("alive", "rise", "gradients", "expected"),
    [
        (100, None, 10, 100),  # no peak was seen
        (100, 130, 10, 130),  # at the beginning of backward
        (100, 90, 10, 100),  # a reset inside the step: at least what was there
        (100, 1020, 1000, 100),  # at its end: gradients and a little
        (100, 1200, 1000, 200),  # at its end, with a workspace
        (100, 130, 100, 130),
    ],
)
def test_the_larger_part_says_where_the_peak_was(alive: int, rise: Any, gradients: int, expected: int) -> None:
    """Activations go while gradients come."""
    assert activations(alive, rise, gradients) == expected


def test_at_rest_the_segments_add_up_to_the_allocator(device: Device) -> None:
    """All of them to what is reserved, without the free ones to what is allocated."""
    model = nn.Linear(16, 16, bias=False)
    device.reserved, device.split = 10_000, 300
    found = {segment.name: segment.device for segment in segments(model, device=0)}
    free = 10_000 - (W + 500)
    assert found == {"weights": W, "other": 500, "fragmentation": 300, "cached": free - 300}
    assert segments(model, device=1) == []


def test_now_tells_a_steps_memory_from_what_lay_there(device: Device) -> None:
    """In the middle of a forward pass."""
    loop = Loop(device)
    loop.step(forward=100)
    device.add(5000)
    (record,) = loop.watch.now()
    assert record.id == 0
    found = {segment.name: segment.device for segment in record.stats or []}
    assert (found["activations"], found["other"], found["weights"]) == (5000, 500, W)


def test_each_gpu_has_a_record_and_the_first_has_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is spread over two, with one layer left on the host."""
    model = nn.ModuleList([nn.Linear(4, 4, bias=False) for _ in range(3)])
    places = {model[0].weight: (2, "device"), model[1].weight: (0, "device"), model[2].weight: (None, "pinned")}
    monkeypatch.setattr("stepscope.speed.storages.where", lambda tensor: places[tensor])
    watch = MemoryWatch(model)
    found = {record.id: record.stats for record in watch.now()}
    assert [(s.name, s.device, s.pinned) for s in found[0] or []] == [("weights", 64, 64)]
    assert [(s.name, s.device, s.pinned) for s in found[2] or []] == [("weights", 64, 0)]


def nested(allocated: int, reserved: int) -> dict[str, Any]:
    """The allocator's statistics as torch gives them."""

    def stat(current: int, peak: int) -> Any:
        return {pool: Counter(current=current, peak=peak) for pool in ("all", "small_pool", "large_pool")}

    return {
        "allocated_bytes": stat(allocated, allocated + 5),
        "reserved_bytes": stat(reserved, reserved + 7),
        "inactive_split_bytes": stat(11, 12),
        "num_alloc_retries": 3,
        "num_ooms": 1,
    }


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """Three GPUs of 1000 bytes: one nearly full, one half, one that this process does not use."""
    stats: dict[int, Any] = {0: nested(901, 950), 1: nested(500, 600), 2: nested(0, 0)}
    allocator.total.cache_clear()
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setattr("torch.cuda.memory_stats_as_nested_dict", lambda gpu: stats[gpu])
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda gpu: SimpleNamespace(total_memory=1000))
    yield stats
    allocator.total.cache_clear()


def test_how_full_a_gpu_is(cuda: dict[int, Any]) -> None:
    """Allocated of total, in percent and as a share; above 90 % it is a bottleneck; the unused is left out."""
    assert allocator.gpu_memory() == [
        GpuMemory(
            id=0, allocated=901, total=1000, reserved=950, utilization=100 * 0.901, pressure=0.901, bottleneck=True
        ),
        GpuMemory(id=1, allocated=500, total=1000, reserved=600, utilization=50.0, pressure=0.5, bottleneck=False),
    ]


def test_exactly_the_limit_is_no_bottleneck(cuda: dict[int, Any]) -> None:
    """The document says above."""
    cuda[0] = nested(900, 950)
    assert allocator.gpu_memory()[0].bottleneck is False
    assert allocator.gpu_memory(limit=0.5)[0].bottleneck is True


def test_levels_become_records_of_memory(cuda: dict[int, Any]) -> None:
    """One a GPU, one for the host."""
    gpu, other, host = allocator.memory(step=5)
    assert gpu == Memory(
        step=5,
        id=0,
        allocated=901,
        peak_allocated=906,
        reserved=950,
        peak_reserved=957,
        retries=3,
        ooms=1,
    )
    assert (other.id, host.id) == (1, None)


def test_an_allocator_without_statistics_is_unknown(cuda: dict[int, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises, or says nothing; the others are read all the same."""
    cuda[0] = {}
    assert [one.id for one in allocator.gpu_memory()] == [1]

    def raising(gpu: int) -> Any:
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    monkeypatch.setattr("torch.cuda.memory_stats_as_nested_dict", raising)
    assert allocator.gpu_memory() == []
    assert allocator.levels(0) is None


def test_statistics_of_a_real_build_are_understood() -> None:
    """What torch flattens is what is read here; the keys are those of memory_stats."""
    flat = {f"{name}.all.{part}" for name in ("allocated_bytes", "reserved_bytes") for part in ("current", "peak")}
    source = torch.cuda.memory_stats.__doc__ or ""
    assert all(name.split(".")[0] in source for name in flat | {"inactive_split_bytes", "num_alloc_retries"})
    assert parsed(nested(1, 2)) == Levels(1, 6, 2, 9, 11, 3, 1)


def test_without_the_systems_file_the_host_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system has one."""

    def missing(*_: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert allocator.resident() is None
    assert allocator.memory() == []


def test_pinned_memory_is_asked_for_only_where_cuda_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking would wake it."""
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: True)
    model = nn.Linear(4, 4, bias=False)
    assert [(s.pinned, s.pageable) for s in segments(model)] == [(0, 64)]
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    assert [(s.pinned, s.pageable) for s in segments(model)] == [(64, 0)]


def test_paged_state_of_an_optimizer_is_managed_memory() -> None:
    """bitsandbytes marks it."""
    state = torch.zeros(8)
    state.is_paged, state.page_deviceid = True, 0
    optimizer = SimpleNamespace(state={"moment": state}, param_groups=[])
    (segment,) = segments(nn.Identity(), optimizer)
    assert (segment.name, segment.managed, segment.pageable) == ("optimizer", 32, 0)
