"""Memory by segment equals closed forms: parameters times their size, two moments of Adam, ties, views, shards."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from stepscope.records import Segment  # noqa: E402
from stepscope.speed.segments import segments  # noqa: E402


def sizes(models: Any, optimizers: Any = ()) -> dict[str, int]:
    """Pageable bytes by segment."""
    return {segment.name: segment.pageable for segment in segments(models, optimizers)}


def step(model: nn.Module, optimizer: Any, x: Any) -> None:
    """One training step that leaves its gradients."""
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def mlp(dtype: Any = None) -> nn.Module:
    """8 · 16 + 16 + 16 · 4 + 4 = 212 parameters in four tensors."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(dtype or torch.float32)


def test_adamw_holds_two_states_and_a_counter_for_each_tensor() -> None:
    """Parameters, gradients: 4 bytes each; state: twice that and one float32 a tensor."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    assert sizes(model, optimizer) == {"weights": 212 * 4}
    step(model, optimizer, torch.randn(3, 8))
    assert sizes(model, optimizer) == {"weights": 848, "gradients": 848, "optimizer": 2 * 848 + 4 * 4}


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (lambda p: torch.optim.SGD(p), 0),
        (lambda p: torch.optim.SGD(p, momentum=0.9), 848),
        (lambda p: torch.optim.Adagrad(p), 848 + 16),
        (lambda p: torch.optim.RMSprop(p), 848 + 16),
        (lambda p: torch.optim.Adam(p, amsgrad=True), 3 * 848 + 16),
        (lambda p: torch.optim.Adafactor(p), (16 + 8 + 16 + 4 + 16 + 4) * 4 + 16),
        (lambda p: torch.optim.Adam(p, lr=torch.tensor(1e-3)), 2 * 848 + 16 + 4),
    ],
    ids=["sgd", "momentum", "adagrad", "rmsprop", "amsgrad", "adafactor", "tensor-lr"],
)
def test_each_optimizer_holds_what_its_algorithm_needs(make: Any, state: int) -> None:
    """Whole moments, row and column sums, counters, and a learning rate that is a tensor."""
    model = mlp()
    optimizer = make(model.parameters())
    step(model, optimizer, torch.randn(3, 8))
    assert sizes(model, optimizer).get("optimizer", 0) == state


def test_lists_in_the_state_are_counted() -> None:
    """LBFGS keeps its history in lists: after two iterations one direction, one step, and five vectors beside."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(3, 8)).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    kept = optimizer.state[optimizer.param_groups[0]["params"][0]]
    found = {v.untyped_storage()._cdata: v.untyped_storage().nbytes() for v in kept.values() if torch.is_tensor(v)}
    for name in ("old_dirs", "old_stps", "ro"):
        found |= {v.untyped_storage()._cdata: v.untyped_storage().nbytes() for v in kept[name]}
    assert sizes(model, optimizer)["optimizer"] == sum(found.values()) > 2 * 848


def test_half_precision_is_half_the_bytes() -> None:
    """Item sizes are the tensors' own."""
    model = mlp(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, torch.randn(3, 8, dtype=torch.bfloat16))
    assert sizes(model, optimizer) == {"weights": 424, "gradients": 424, "optimizer": 2 * 424 + 16}


def test_tied_weights_views_and_shared_modules_count_once() -> None:
    """As do a model that is given twice and the one that wraps it."""
    embedding, head = nn.Embedding(100, 8), nn.Linear(8, 100, bias=False)
    head.weight = embedding.weight
    flat = torch.zeros(50)
    views = nn.ParameterList([nn.Parameter(flat[:20]), nn.Parameter(flat[20:])])
    model = nn.ModuleList([embedding, head, views])
    assert sizes([model, nn.Sequential(head), head]) == {"weights": 100 * 8 * 4 + 50 * 4}


def test_two_weights_at_two_addresses_count_twice() -> None:
    """Equal numbers are not the same memory."""
    assert sizes([nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)]) == {"weights": 2 * 64}


def test_buffers_frozen_parameters_and_several_optimizers() -> None:
    """A frozen layer has weights and neither gradients nor state; batch norm has three buffers."""
    frozen, norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
    frozen.requires_grad_(False)
    head = nn.Linear(8, 1)
    model = nn.Sequential(frozen, norm, head)
    optimizers = [torch.optim.Adam(head.parameters()), torch.optim.SGD(norm.parameters(), momentum=0.9)]
    model(torch.randn(4, 8)).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    assert sizes(model, optimizers) == {
        "weights": (72 + 16 + 9) * 4,
        "buffers": 2 * 8 * 4 + 8,
        "gradients": (16 + 9) * 4,
        "optimizer": 2 * 9 * 4 + 2 * 4 + 16 * 4,
    }


def test_gradients_that_are_none_hold_nothing_and_zeroed_ones_hold_all() -> None:
    """`set_to_none` decides."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters())
    step(model, optimizer, torch.randn(3, 8))
    optimizer.zero_grad(set_to_none=False)
    assert sizes(model, optimizer)["gradients"] == 848
    optimizer.zero_grad(set_to_none=True)
    assert "gradients" not in sizes(model, optimizer)


def test_a_parameter_outside_the_model_is_a_weight() -> None:
    """A temperature that the optimizer steps, for one."""
    model, temperature = mlp(), nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([*model.parameters(), temperature])
    assert sizes(model, optimizer) == {"weights": 848 + 4}


def test_a_layer_that_is_added_later_is_found() -> None:
    """Each call looks anew."""
    model = nn.Sequential(nn.Linear(4, 4))
    before = sizes(model)["weights"]
    model.append(nn.Linear(4, 4))
    assert sizes(model)["weights"] == 2 * before


def test_tensors_without_memory_hold_nothing() -> None:
    """On the meta device, fake, and not yet materialised."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with torch.device("meta"):
        meta = nn.Linear(1000, 1000)
    with FakeTensorMode():
        fake = nn.Linear(1000, 1000)
    assert sizes([meta, fake, nn.LazyLinear(10)]) == {}


def test_sparse_gradients_hold_values_and_indices() -> None:
    """An embedding's: three rows of four float32 and three int64."""
    model = nn.Embedding(1000, 4, sparse=True)
    model(torch.tensor([1, 5, 7])).sum().backward()
    assert sizes(model)["gradients"] == 3 * 4 * 4 + 3 * 8


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_compressed_tensors_hold_their_three_parts(layout: str) -> None:
    """Three pointers and two indices of int64, two values or two blocks of four."""
    pointers, indices = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    blocked = layout.startswith("b")
    values, size = (torch.ones(2, 2, 2), (4, 4)) if blocked else (torch.ones(2), (2, 2))
    model = nn.Module()
    model.register_buffer("matrix", getattr(torch, f"sparse_{layout}_tensor")(pointers, indices, values, size))
    assert sizes(model) == {"buffers": 3 * 8 + 2 * 8 + values.numel() * 4}


def test_a_subclass_that_keeps_its_data_in_attributes_holds_those() -> None:
    """The storage of its shell names a size and has none; with `__tensor_flatten__` the parts are its own word."""

    class Shell(torch.Tensor):
        @staticmethod
        def __new__(cls, data: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32)

        def __init__(self, data: Any) -> None:
            self.data8, self.scale = data, torch.ones(2)

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[0]

    class Flat(Shell):
        def __tensor_flatten__(self) -> Any:
            return ["data8"], None

    data = torch.zeros(100, dtype=torch.int8)
    for kind, expected in ((Shell, 100 + 8), (Flat, 100)):
        model = nn.Module()
        model.register_buffer("quantised", kind(data))
        assert sizes(model) == {"buffers": expected}


def test_a_subclass_that_watches_its_calls_sees_none() -> None:
    """Looking is no operation."""
    calls = []

    class Watched(nn.Parameter):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    model = nn.Module()
    model.weight = Watched(torch.zeros(4))
    model.weight.grad = torch.zeros(4)
    calls.clear()
    assert sizes(model) == {"weights": 16, "gradients": 16}
    assert calls == []


def test_a_sharded_parameter_holds_its_local_part(tmp_path: Any) -> None:
    """Of a matrix in two shards, this rank's."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Shard, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        model = nn.Module()
        local = DTensor.from_local(torch.zeros(4, 8), mesh, [Shard(0)], shape=torch.Size([8, 8]), stride=(8, 1))
        model.weight = nn.Parameter(local)
        assert sizes(model) == {"weights": 4 * 8 * 4}
    finally:
        dist.destroy_process_group()


def test_copy_on_write_stays_lazy() -> None:
    """Asking for an address would copy."""
    model = nn.Module()
    model.register_buffer("lazy", torch._lazy_clone(torch.zeros(64)))
    assert sizes(model) == {"buffers": 256}
    assert torch._C._is_cow_tensor(model.lazy)


@pytest.mark.filterwarnings("error")
def test_odd_optimizers_are_looked_at_in_silence() -> None:
    """No state, a state that is no dict, one that raises, wrappers, and attributes instead of a state."""

    class Bare:
        momentum = None

    class Listed:
        def __init__(self) -> None:
            self.state = [torch.zeros(4), "text", None, {"nested": (torch.zeros(2),)}]
            self.param_groups = None

    class Raising:
        @property
        def state(self) -> Any:
            raise RuntimeError("not yet")

    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self.optimizer = inner

    class Own:
        def __init__(self) -> None:
            self.momentum_buffers = [torch.zeros(8), torch.zeros(8)]

    model = mlp()
    inner = torch.optim.SGD(model.parameters(), momentum=0.9)
    step(model, inner, torch.randn(3, 8))
    found = sizes(model, [Bare(), Listed(), Raising(), Wrapper(inner), Own(), None, 3])
    assert found["optimizer"] == 16 + 8 + 848 + 64


def test_a_reference_circle_of_wrappers_ends() -> None:
    """Two optimizers that know each other."""
    model = mlp()
    first, second = (torch.optim.SGD(model.parameters(), momentum=0.9) for _ in range(2))
    first.other, second.other = second, first
    step(model, first, torch.randn(3, 8))
    assert sizes(model, first)["optimizer"] == 848


def test_segments_are_records_in_a_fixed_order() -> None:
    """Those that hold nothing are left out."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer, torch.randn(3, 2))
    found = segments(model, optimizer)
    assert all(isinstance(segment, Segment) for segment in found)
    assert [segment.name for segment in found] == ["weights", "gradients", "optimizer", "buffers"]
    assert not torch.cuda.is_initialized()
