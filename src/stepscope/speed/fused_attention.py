"""Attention that hides in one operation, written out as the two matmuls that it stands for.

    with fake_mode, tally, WrittenOut(tally):
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)    # two matmuls, half the pairs

Torch's counter knows no fused kernel of the CPU, and of no kernel which pairs its mask allows.
"""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.overrides import TorchFunctionMode

from .masks import Mask, added_mask, attended, narrowed
from .tally import Tally

PRODUCT = torch._C._nn.scaled_dot_product_attention
MOST_PAIRS = 1 << 26
ROWS = 1 << 22  # pairs that are looked at together


class WrittenOut(TorchFunctionMode):  # type: ignore[misc]  # torch is not followed
    """Takes the place of scaled-dot-product and flex attention."""

    def __init__(self, tally: Tally):
        super().__init__()
        self._tally = tally

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is PRODUCT:
            return self._product(*args, **kwargs)
        if type(func).__name__ == "FlexAttentionHOP":
            return self._flex(*args, **kwargs)
        return func(*args, **kwargs)

    def __enter__(self) -> "WrittenOut":
        # The mode rests inside functions that torch has written in Python, and in what checkpointing runs again.
        def product(query: Any, *rest: Any, **named: Any) -> Any:
            return (self._product if isinstance(query, FakeTensor) else PRODUCT)(query, *rest, **named)

        functional: Any = torch.nn.functional
        self._before, functional.scaled_dot_product_attention = functional.scaled_dot_product_attention, product
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        functional: Any = torch.nn.functional
        functional.scaled_dot_product_attention = self._before

    def _product(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        if enable_gqa:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        mask = Mask()
        if is_causal:
            queries, keys = query.shape[-2], key.shape[-2]
            mask = Mask(share=attended(queries, keys) / (queries * keys))
        elif attn_mask is not None:
            mask = self._given(attn_mask)
        return self._written(query, key, value, mask)

    def _given(self, given: Any) -> Mask:
        """The pairs of a mask that was handed over: true ones, or those that are not very low."""
        if type(given).__name__ == "CausalBias":
            queries, keys = given.seq_len_q, given.seq_len_kv
            hidden_before = keys - queries if "LOWER_RIGHT" in str(given.variant) else 0
            seen = sum(min(i + 1 + hidden_before, keys) for i in range(queries) if i + 1 + hidden_before > 0)
            return Mask(share=seen / (queries * keys))
        if given.dtype is torch.bool:
            return narrowed(Mask(), self._tally.value(given))
        return added_mask(Mask(), given, self._tally.known)

    def _written(self, query: Any, key: Any, value: Any, mask: Mask) -> Any:
        scores = torch.matmul(query, key.transpose(-2, -1))
        if (work := self._tally.scores_of(scores)) is not None:
            work.mask = mask
        out = torch.matmul(torch.softmax(scores, -1).to(value.dtype), value)
        # in memory as the fused kernels leave it: code that follows may take a view of that
        return out.transpose(-3, -2).contiguous().transpose(-3, -2) if out.dim() > 2 else out

    def _flex(self, query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, *rest: Any, **named: Any) -> Any:
        if key.shape[-3] != query.shape[-3]:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        out = self._written(query, key, value, self._blocks(query, key, block_mask))
        return out, query[..., 0].float(), query[..., 0].float()

    def _blocks(self, query: Any, key: Any, block_mask: Any) -> Mask:
        """The pairs of a block mask, counted with the function that it was made of."""
        batch, heads = block_mask[2].shape[:2]
        queries, keys = query.shape[-2], key.shape[-2]
        if batch * heads * queries * keys > MOST_PAIRS:
            return Mask(known=False)
        try:
            seen = self._seen(block_mask[-1], batch, heads, queries, keys, block_mask[2])
        except Exception:  # noqa: BLE001 - a mask that reads what is not known here
            return Mask(known=False)
        return Mask(share=seen / (batch * heads * queries * keys))

    def _seen(self, allows: Any, batch: int, heads: int, queries: int, keys: int, blocks: Any) -> int:
        seen, step = 0, max(1, ROWS // keys)
        for b in range(batch):
            for h in range(heads):
                for first in range(0, queries, step):
                    seen += self._rows(allows, b, h, range(first, min(first + step, queries)), keys, blocks)
        return seen

    def _rows(self, allows: Any, b: int, h: int, rows: range, keys: int, blocks: Any) -> int:
        if isinstance(blocks, FakeTensor):  # made during this pass: what it reads is known beside it
            q = torch.arange(rows.start, rows.stop)[:, None]
            seen = self._tally.value(allows(torch.tensor(b), torch.tensor(h), q, torch.arange(keys)[None]).sum())
        else:
            with unset_fake_temporarily():
                q = torch.arange(rows.start, rows.stop, device=blocks.device)[:, None]
                places = [torch.tensor(i, device=blocks.device) for i in (b, h)]
                seen = allows(*places, q, torch.arange(keys, device=blocks.device)[None]).expand(len(rows), keys).sum()
        if seen is None:
            raise ValueError("the mask reads what is not known")
        return int(seen.item())
