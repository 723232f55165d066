"""Memory by segment on a real allocator: closed forms, its sum, its peak, and nothing that the program could notice."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from stepscope.speed.memory import MemoryWatch  # noqa: E402
from stepscope.speed.out_of_memory import is_out_of_memory, out_of_memory  # noqa: E402
from stepscope.speed.segments import segments  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

DEVICE = "cuda"
LAYERS, WIDTH, HEADS, VOCABULARY, CONTEXT = 12, 768, 12, 50257, 1024
# embeddings, of which the first is the head too; 12 d² + 13 d a block; the last norm: GPT-2's 124,439,808
PARAMETERS = (VOCABULARY + CONTEXT) * WIDTH + LAYERS * (12 * WIDTH**2 + 13 * WIDTH) + 2 * WIDTH
TENSORS = 2 + LAYERS * 12 + 2


class Block(nn.Module):
    """Attention and MLP, as GPT-2 has them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        """Residual twice."""
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """124M, with the head tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any, targets: Any) -> Any:
        """The loss."""
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class Loop:
    """GPT-2 on random tokens in bf16 autocast with fused AdamW."""

    def __init__(self, batch: int = 8, compile: bool = False) -> None:
        torch.manual_seed(0)
        self.model = GPT2().to(DEVICE)
        self.run: Any = torch.compile(self.model) if compile else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)
        self.ids = torch.randint(0, VOCABULARY, (batch, CONTEXT), device=DEVICE)

    def step(self, watch: MemoryWatch | None = None, keep: bool = False) -> None:
        """One step; the gradients go at its end, unless they are to be kept."""
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = self.run(self.ids, self.ids)
        if watch is not None:
            watch.after_forward(loss)
        loss.backward()
        if watch is not None:
            watch.before_optimizer()
        self.optimizer.step()
        if not keep:
            self.optimizer.zero_grad()
        if watch is not None:
            watch.end_of_step()


@pytest.fixture(autouse=True)
def _empty_gpu() -> Iterator[None]:
    """Nothing of another test is left, here or after."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.empty_cache()


def by_name(found: Any) -> dict[str, int]:
    """Device bytes by segment."""
    return {segment.name: segment.device for segment in found}


def test_gpt2_at_rest_adds_up_to_the_allocator() -> None:
    """Each segment equals its closed form; what nobody claims is small."""
    loop = Loop()
    for _ in range(3):
        loop.step(keep=True)
    found = by_name(segments(loop.model, loop.optimizer))
    assert PARAMETERS == 124_439_808
    assert found["weights"] == found["gradients"] == PARAMETERS * 4
    assert found["optimizer"] == 2 * PARAMETERS * 4 + 4 * TENSORS
    allocated = torch.cuda.memory_allocated()
    in_use = sum(size for name, size in found.items() if name not in ("fragmentation", "cached"))
    assert abs(in_use - allocated) <= 0.01 * allocated
    assert found["other"] <= 0.03 * allocated
    assert sum(found.values()) == torch.cuda.memory_reserved()


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("batch", [2, 8])
def test_activations_are_the_peaks_rise(batch: int, compile: bool) -> None:
    """Within 5 % of what resetting the counter shows, which the watch never does; other stays below 3 %."""
    loop = Loop(batch, compile)
    watch = MemoryWatch(loop.model, loop.optimizer)
    for _ in range(4):
        loop.step(watch)
    found = by_name(watch.allocator()[0].stats)
    assert found["weights"] == found["gradients"] == PARAMETERS * 4
    assert found["optimizer"] == 2 * PARAMETERS * 4 + 4 * TENSORS
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast(DEVICE, torch.bfloat16):
        loss = loop.run(loop.ids, loop.ids)
    loss.backward()
    rise = torch.cuda.max_memory_allocated() - before
    assert abs(found["activations"] - rise) <= 0.05 * rise
    assert found["other"] <= 0.03 * torch.cuda.max_memory_allocated()


COUNTERS = [f"{name}.all.{part}" for name in ("allocated_bytes", "reserved_bytes") for part in ("current", "peak")]


def test_a_watched_run_cannot_be_told_from_another() -> None:
    """Weights to the bit, and the counters of the allocator; the first run only warms the libraries."""
    results = []
    for watched in (False, False, True):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        loop = Loop(batch=1)
        watch = MemoryWatch(loop.model, loop.optimizer, every_s=0) if watched else None
        with sdpa_kernel(SDPBackend.MATH):  # the backward pass of flash attention is not deterministic
            for _ in range(5):
                loop.step(watch)
        stats = torch.cuda.memory_stats()
        counters = [stats[name] for name in [*COUNTERS, "allocation.all.allocated", "allocated_bytes.all.allocated"]]
        results.append((torch.nn.utils.parameters_to_vector(loop.model.parameters()).detach().cpu(), counters))
        del loop, watch
    assert torch.equal(results[1][0], results[2][0])
    assert results[1][1] == results[2][1]


def test_a_sampled_step_never_waits_for_the_device() -> None:
    """Every step is sampled here."""
    loop = Loop(batch=1)
    loop.step()
    watch = MemoryWatch(loop.model, loop.optimizer, every_s=0)
    torch.cuda.set_sync_debug_mode("error")
    for _ in range(5):
        loop.step(watch)
        watch.memory()
        watch.gpu_memory()
    assert watch.failure is None


def test_levels_are_those_that_torch_tells() -> None:
    """Allocated, its peak, reserved, and the share of the whole GPU."""
    ballast = torch.empty(2**28, dtype=torch.uint8, device=DEVICE)
    watch = MemoryWatch(nn.Linear(2, 2))
    gpu, host = watch.memory(step=3)
    assert (gpu.id, gpu.allocated) == (ballast.device.index, torch.cuda.memory_allocated())
    assert gpu.peak_allocated == torch.cuda.max_memory_allocated()
    assert (gpu.reserved, gpu.peak_reserved) == (torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved())
    assert (gpu.ooms, host.id) == (torch.cuda.memory_stats()["num_ooms"], None)
    (full,) = watch.gpu_memory()
    total = torch.cuda.get_device_properties(0).total_memory
    assert (full.allocated, full.total, full.bottleneck) == (gpu.allocated, total, False)
    assert full.utilization == pytest.approx(100 * gpu.allocated / total)


def test_pinned_pageable_and_device_memory_are_apart() -> None:
    """Each buffer under the place where it lies."""
    model = nn.Module()
    model.register_buffer("device", torch.zeros(1000, device=DEVICE))
    model.register_buffer("pinned", torch.zeros(1000).pin_memory())
    model.register_buffer("pageable", torch.zeros(1000))
    buffers = next(segment for segment in segments(model) if segment.name == "buffers")
    assert (buffers.device, buffers.pinned, buffers.pageable) == (4000, 4000, 4000)


def test_a_real_failed_allocation(tmp_path: Path) -> None:
    """Asked and allocated as the allocator says them; the snapshot is written; training can go on."""
    loop = Loop(batch=1)
    watch = MemoryWatch(loop.model, loop.optimizer)
    loop.step(watch)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(2**44, dtype=torch.uint8, device=DEVICE)
    assert is_out_of_memory(caught.value)
    record = out_of_memory(caught.value, watch.now(), snapshot_folder=tmp_path)
    assert (record.id, record.asked) == (0, 2**44)
    assert record.free is not None
    assert record.allocated == pytest.approx(torch.cuda.memory_allocated(), rel=0.02)
    assert by_name(record.stats)["weights"] == PARAMETERS * 4
    assert record.snapshot is not None
    assert Path(record.snapshot).stat().st_size > 0
    loop.step(watch)


def test_four_and_eight_bit_weights_on_the_device() -> None:
    """bitsandbytes, real: closed forms of weights, scales and code books, and of a paged 8-bit optimizer's state."""
    bnb = pytest.importorskip("bitsandbytes")
    four = bnb.nn.Linear4bit(1024, 4096, bias=False, quant_type="nf4", compress_statistics=False).to(DEVICE)
    eight = bnb.nn.Linear8bitLt(1024, 4096, bias=False, has_fp16_weights=False).to(DEVICE)
    size = 1024 * 4096
    assert by_name(segments(four))["qlora"] == size // 2 + size // 64 * 4 + 16 * 4
    assert by_name(segments(eight))["qlora"] == size + 4096 * 4
    eight(torch.randn(2, 1024, device=DEVICE, dtype=torch.float16))
    assert by_name(segments(eight))["qlora"] == size + 4096 * 4
    model = nn.Linear(1024, 4096, bias=False).to(DEVICE)
    optimizer = bnb.optim.PagedAdamW8bit(model.parameters())
    model(torch.randn(2, 1024, device=DEVICE)).sum().backward()
    optimizer.step()
    state = next(segment for segment in segments(model, optimizer) if segment.name == "optimizer")
    assert state.managed >= 2 * size


def test_nothing_wakes_cuda() -> None:
    """A program on the CPU of a machine that has a GPU keeps it asleep."""
    program = (
        "import torch; from stepscope.speed.memory import MemoryWatch\n"
        "model = torch.nn.Linear(4, 4); watch = MemoryWatch(model)\n"
        "loss = model(torch.ones(1, 4)).sum(); watch.after_forward(loss); loss.backward(); watch.before_optimizer()\n"
        "watch.end_of_step(); assert watch.allocator() and not watch.gpu_memory() and watch.memory()\n"
        "assert watch.now() and not torch.cuda.is_initialized()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env=environment)
