"""Which pairs of query and key count: causal, windowed, packed, given as a mask, or not known."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from stepscope.speed.flops import of_step
from stepscope.speed.masks import attended
from stepscope.speed.shapes import keep

from .flop_models import Attention, Packed, gpt, llama

IDS = torch.randint(1, 256, (2, 32), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("queries", "keys", "window"), [(7, 7, None), (7, 7, 3), (5, 9, None), (9, 5, 4), (6, 6, 99)])
def test_attended_counts_the_pairs_of_a_mask(queries, keys, window):
    """The closed form is the number of ones in the mask itself."""
    row, column = torch.arange(queries)[:, None], torch.arange(keys)[None]
    mask = (column <= row) & (row - column < (window or queries))
    assert attended(queries, keys, window) == int(mask.sum())


def test_documents_do_not_see_each_other():
    """Packed documents are triangles along the diagonal."""
    assert attended(10, documents=(3, 7)) == 3 * 4 // 2 + 7 * 8 // 2


def test_a_window_is_read_from_the_mask():
    """The mask that a model makes of positions is known, although nothing is computed."""
    flops = of_step(llama(window=8), (IDS,))
    assert flops.attention == flops.attention_dense * attended(32, window=8) / 32**2


def test_attention_that_is_written_out_has_the_same_mask():
    """Scores, a fill and a softmax count as the fused operation does."""
    written = of_step(gpt(attention=lambda: Attention(written_out=True)), (IDS,))
    assert written.attention == of_step(gpt(), (IDS,)).attention


def test_packed_documents_are_read_from_the_ids():
    """The ids say where a document ends, and so which pairs count."""
    ids = IDS.clone()
    ids[0, 9] = ids[1, 19] = 0
    flops = of_step(Packed(), (ids,))
    pairs = attended(32, documents=(10, 22)) + attended(32, documents=(20, 12))
    assert flops.attention == pytest.approx(flops.attention_dense * pairs / (2 * 32**2), rel=1e-12)


def test_what_was_kept_of_an_input_gives_the_same():
    """The input can be gone: its shapes, and the values of ids, are enough."""
    ids = IDS.clone()
    ids[0, 9] = 0
    before = of_step(Packed(), (ids,))
    args, kwargs = keep(((ids,), {}))
    ids.fill_(1)
    assert of_step(Packed(), args, kwargs) == before
    image = torch.zeros(4, 3, 16, 16)
    (kept,) = keep((image,))
    assert kept.is_meta
    assert of_step(nn.Conv2d(3, 8, 3), (kept,)) == of_step(nn.Conv2d(3, 8, 3), (image,))


class OneHead(nn.Module):
    """Attention with whatever mask it is given."""

    def __init__(self):
        super().__init__()
        self.heads, self.bias = nn.MultiheadAttention(16, 2, batch_first=True), nn.Parameter(torch.zeros(8, 8))

    def forward(self, x, mask=None, need_weights=False):
        return self.heads(x, x, x, attn_mask=mask, need_weights=need_weights)[0]


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_mask_that_is_given_counts(kind, need_weights):
    """A mask of either kind, in the fused operation and in the one that shows its weights."""
    hidden = torch.ones(8, 8, dtype=torch.bool).triu(1)
    mask = hidden if kind == "bool" else torch.zeros(8, 8).masked_fill(hidden, float("-inf"))
    flops = of_step(OneHead(), (torch.zeros(2, 8, 16),), {"mask": mask, "need_weights": need_weights})
    assert flops.attention == pytest.approx(flops.attention_dense * 36 / 64, rel=1e-12)
    assert flops.attention_dense == 12 * 8 * 8 * 16


def test_a_learned_bias_hides_nothing():
    """What is added to scores and depends on weights is a bias."""

    class Biased(OneHead):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=self.bias)

    flops = of_step(Biased(), (torch.zeros(2, 8, 16, requires_grad=True),))
    assert flops.attention == flops.attention_dense == 12 * 8 * 8 * 16


def test_a_mask_that_is_not_known_is_not_guessed():
    """A boolean mask that depends on weights: attention is unknown, the dense count is not."""

    class Chosen(OneHead):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=self.bias > 0)

    flops = of_step(Chosen(), (torch.zeros(2, 8, 16, requires_grad=True),))
    assert flops.attention is None
    assert flops.attention_dense > 0
    assert "attention" not in flops.by_dtype


@pytest.mark.parametrize("inside", [False, True])
def test_flex_attention_counts_its_mask(inside):
    """Its pairs are those of the function that its blocks were made of, wherever it was made."""

    def near(b, h, q, k):
        return (k <= q) & (q - k < 100)

    class Flex(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(16, 16)
            self.blocks = None if inside else self.mask()

        def mask(self):
            return create_block_mask(near, None, None, 256, 256, device="cpu")

        def forward(self, x):
            with torch.no_grad():  # the CPU's kernel has no backward pass
                x = flex_attention(x, x, x, block_mask=self.blocks or self.mask())
            return self.out(x)

    x = torch.zeros(2, 2, 256, 16)
    flops = of_step(Flex(), (x,))
    dense = 4 * 2 * 256 * 256 * 16  # for a sample, forward
    assert flops.attention_dense == dense
    assert flops.attention == dense * attended(256, window=100) / 256**2
