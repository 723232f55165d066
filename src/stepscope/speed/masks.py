"""How many pairs of query and key a mask allows.

    attended(1024)                              # causal: 524,800 of 1,048,576
    attended(1024, window=256)                  # causal, the query itself and the 255 keys before it
    attended(1024, documents=(300, 724))        # packed documents that do not see each other

Attention costs what its mask allows; kernels leave out the rest, or could.
"""

from functools import lru_cache
from typing import Any

import msgspec
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .known_values import Known

LOW = -1e4  # a score below is masked: half precision's own lowest is -65504


@lru_cache(256)
def attended(
    queries: int, keys: int | None = None, window: int | None = None, documents: tuple[int, ...] | None = None
) -> int:
    """The pairs of a causal mask, query i seeing the keys up to i; optionally the nearest few, or its own document."""
    if documents is not None:
        return sum(attended(length, window=window) for length in documents)
    keys = queries if keys is None else keys
    window = queries if window is None else window
    return sum(max(0, min(i + 1, keys) - max(0, i + 1 - window)) for i in range(queries))


class Mask(msgspec.Struct, frozen=True):
    """What is known of the pairs that a score matrix keeps."""

    allowed: Any = None  # a boolean tensor that broadcasts to the scores; None: all of them
    share: float | None = None  # given as such, where no tensor is needed to know it
    known: bool = True

    @property
    def kept(self) -> float | None:
        """The share of pairs that count, None when it is not known."""
        if not self.known:
            return None
        if self.share is not None:
            return self.share
        return 1.0 if self.allowed is None else self.allowed.float().mean(dtype=torch.float64).item()


def allowed_after(name: str, args: tuple[Any, ...], scores: Any, mask: Mask, known: Known) -> Mask:
    """The mask after one more operation on the scores."""
    if name in ("aten::masked_fill", "aten::masked_fill_") and args[0] is scores:
        return narrowed(mask, known.value(args[1]), inverted=True)
    if name == "aten::where" and len(args) == 3:
        return narrowed(mask, known.value(args[0]), inverted=args[2] is scores)
    if name in ("aten::add", "aten::add_") and isinstance(args[0], torch.Tensor) and isinstance(args[1], torch.Tensor):
        return added_mask(mask, args[1] if args[0] is scores else args[0], known)
    return mask


def added_mask(mask: Mask, added: Any, known: Known) -> Mask:
    """The mask after a tensor was added to the scores: one that holds very low values hides pairs."""
    value = known.value(added)
    if value is None:  # a bias that is learned hides nothing; a mask that was too large to read hides what it likes
        return Mask(known=False) if known.too_large else mask
    if not value.is_floating_point():
        return mask
    with unset_fake_temporarily():
        low = value <= LOW
    return narrowed(mask, low, inverted=True) if _any(low) else mask


def narrowed(mask: Mask, allowed: Any, inverted: bool = False) -> Mask:
    """The pairs that both a mask and another one allow; unknown where the other one is."""
    if allowed is None or not mask.known:
        return Mask(known=False)
    with unset_fake_temporarily():
        allowed = (allowed == 0) if inverted else (allowed != 0)
        both = allowed if mask.allowed is None else mask.allowed & allowed
    return Mask(allowed=both, share=mask.share)


def _any(values: Any) -> bool:
    with unset_fake_temporarily():
        return bool(values.any())
