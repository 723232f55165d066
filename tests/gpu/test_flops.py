"""The operations of a step on a GPU: what kernels of the CPU have no backward pass for, and what must not wait."""

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.flop_counter import FlopCounterMode

from stepscope.speed.flops import of_step
from stepscope.speed.masks import attended

from ..speed.flop_models import Recurrent, gpt

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def ids():
    """A batch of tokens on the GPU."""
    return torch.randint(1, 256, (2, 32), device="cuda")


def test_the_count_is_that_of_torch_under_autocast():
    """The same operations as on the CPU, in the number format of autocast."""
    model, given = gpt().cuda(), ids()
    with torch.autocast("cuda", torch.bfloat16):
        flops = of_step(model, (given,))
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            model(given).sum().backward()
    assert round(flops.hardware_flop * flops.units) == counter.get_total_flops()
    assert set(flops.by_dtype["blocks"]) == {"bf16"}


def test_counting_puts_nothing_on_the_gpu():
    """No memory, no random number, no wait."""
    model, given = gpt().cuda(), ids()
    allocated, drawn = torch.cuda.memory_allocated(), torch.cuda.get_rng_state()
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.set_sync_debug_mode("error")
    try:
        of_step(model, (given,))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()) == (allocated, peak)
    assert torch.equal(torch.cuda.get_rng_state(), drawn)


def test_a_compiled_flex_attention_counts_its_mask_forward_and_backward():
    """Three times the forward pass, over the pairs of its block mask."""

    class Flex(nn.Module):
        def __init__(self):
            super().__init__()
            self.inputs = nn.Linear(16, 16)
            self.blocks = create_block_mask(lambda b, h, q, k: (k <= q) & (q - k < 100), None, None, 256, 256)
            self.attend = torch.compile(flex_attention)

        def forward(self, x):
            x = self.inputs(x)
            return self.attend(x, x, x, block_mask=self.blocks)

    flops = of_step(Flex().cuda(), (torch.zeros(2, 2, 256, 16, device="cuda"),))
    assert flops.attention_dense == 12 * 2 * 256 * 256 * 16
    assert flops.attention == flops.attention_dense * attended(256, window=100) / 256**2


def test_a_fused_lstm_counts_its_gates():
    """cuDNN's layer is one operation: its two weight matrices for each token."""
    flops = of_step(Recurrent().cuda(), (ids() % 100,))
    assert flops.blocks == 6 * 4 * 48 * ((32 + 48) + (48 + 48))
