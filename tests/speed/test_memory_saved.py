"""What autograd saves for backward equals closed forms, and looking at it changes nothing."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from stepscope.speed.saved import saved_for_backward  # noqa: E402
from stepscope.speed.segments import held  # noqa: E402

B, D, H = 32, 16, 64  # samples, features, hidden


def saved(loss: Any, model: Any = ()) -> int | None:
    """Pageable bytes that are saved, without the model's own."""
    found = saved_for_backward(loss, held(model).keys)
    return None if found is None else found[None, "pageable"]


def test_a_linear_layer_saves_its_input() -> None:
    """The weight is the model's; the sum saves nothing."""
    layer = nn.Linear(D, H)
    assert saved(layer(torch.randn(B, D)).sum(), layer) == B * D * 4


def test_a_frozen_layer_saves_no_input() -> None:
    """Its weight needs no gradient."""
    layer = nn.Linear(D, H).requires_grad_(False)
    x = torch.randn(B, D, requires_grad=True)
    assert saved(layer(x).sum(), layer) == 0


def test_a_stack_saves_each_block_of_memory_once() -> None:
    """Linear, ReLU, Linear, squared mean: the input, ReLU's result (also the next layer's input), the output."""
    model = nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, D))
    assert saved(model(torch.randn(B, D)).square().mean(), model) == (B * D + B * H + B * D) * 4


def test_inputs_that_are_known_are_left_out() -> None:
    """Whoever knows the batch can name it."""
    model, x = nn.Linear(D, H), torch.randn(B, D)
    known = {*held(model).keys, x.untyped_storage()._cdata}
    assert saved_for_backward(model(x).sum(), known)[None, "pageable"] == 0


def test_attention_by_matrices_saves_what_its_formula_needs() -> None:
    """q and k for the scores, the probabilities once for softmax and product, v: no s² twice."""
    q, k, v = (torch.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))
    out = F.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
    assert saved(out.sum()) == (3 * 2 * 4 * 10 * 8 + 2 * 4 * 10 * 10) * 4


def test_fused_attention_saves_no_scores() -> None:
    """q, k, v, the output, and one float32 a row."""
    q, k, v = (torch.randn(2, 4, 128, 8, requires_grad=True) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v)
    assert out.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    assert saved(out.sum()) == (4 * 2 * 4 * 128 * 8 + 2 * 4 * 128) * 4


def test_a_recurrent_graph_is_walked_once() -> None:
    """Shared parts count once: tanh saves its result, which is the next step's input."""
    cell, h = nn.Linear(D, D, bias=False), torch.zeros(B, D)
    for _ in range(50):
        h = torch.tanh(cell(h))
    assert saved(h.sum() + h.mean(), cell) == (50 + 1) * B * D * 4


def test_a_function_of_the_users_own_is_looked_into() -> None:
    """What it saves, and what it keeps as an attribute."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x * 2)
            ctx.kept = torch.ones(7)
            return x * x

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * ctx.saved_tensors[0]

    assert saved(Square.apply(torch.randn(100, requires_grad=True)).sum()) == 400 + 28


def block(layers: nn.Module) -> Any:
    """A checkpointed run of layers that counts how often it ran."""

    def run(x: Any) -> Any:
        run.calls += 1  # type: ignore[attr-defined]
        return layers(x)

    run.calls = 0  # type: ignore[attr-defined]
    return run


def test_checkpointing_saves_inputs_and_is_not_recomputed() -> None:
    """Three blocks keep three inputs, one of which is the batch; nothing is unpacked."""
    blocks = [block(nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, D))) for _ in range(3)]
    x = torch.randn(B, D, requires_grad=True)
    out = x
    for one in blocks:
        out = checkpoint(one, out, use_reentrant=False, preserve_rng_state=False)
    assert saved(out.sum()) == 3 * B * D * 4
    assert [one.calls for one in blocks] == [1, 1, 1]


def test_offloaded_tensors_count_where_they_lie() -> None:
    """The hooks' own packing is counted, and not undone."""
    layer = nn.Linear(D, H)
    with torch.autograd.graph.save_on_cpu():
        loss = layer(torch.randn(B, D)).sigmoid().sum()
    assert saved(loss, layer) == (B * D + B * H) * 4


def test_what_hooks_hide_is_unknown() -> None:
    """A hook that puts tensors on a disk leaves nothing to count: no number is better than a small one."""
    unpacked = []

    def unpack(name: str) -> Any:
        unpacked.append(name)
        return torch.zeros(B, H)

    with torch.autograd.graph.saved_tensors_hooks(lambda _: "a file", unpack):
        loss = torch.randn(B, H, requires_grad=True).sigmoid().sum()
    assert saved(loss) is None
    assert unpacked == []


def test_a_graph_that_is_gone_saves_nothing_more() -> None:
    """After backward the buffers are free."""
    model = nn.Sequential(nn.Linear(D, H), nn.Sigmoid())
    loss = model(torch.randn(B, D)).sum()
    loss.backward()
    assert saved(loss, model) == 0


@pytest.mark.parametrize("loss", [None, 1.5, "loss", torch.zeros(()), torch.zeros((), requires_grad=True)])
def test_without_a_graph_nothing_is_known(loss: Any) -> None:
    """A number, a loss of no gradient, a leaf."""
    assert saved_for_backward(loss) is None


def test_a_graph_too_long_to_walk_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk has an end."""
    monkeypatch.setattr("stepscope.speed.saved.NODES", 10)
    x = torch.ones(3, requires_grad=True)
    for _ in range(20):
        x = x * 2
    assert saved(x.sum()) is None


def test_a_changed_tensor_is_counted_and_backward_still_raises() -> None:
    """torch's own check of an in-place change is neither tripped nor hidden."""
    x = torch.randn(8, requires_grad=True)
    y = x.sigmoid()
    loss = y.sum()
    y.detach().add_(0)
    y.data.add_(1)
    with torch.no_grad():
        y.add_(1)
    assert saved(loss) == 32
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
