"""The memory that a tensor lies in, whatever kind of tensor it is.

    for piece in pieces(tensor):
        piece.key, piece.place, piece.size      # (…, 94…), "device", 4096

Two tensors with the same key share their memory: tied weights, views, a gradient inside a bucket. A sharded tensor
gives its local part, a quantised or sparse one the parts it is made of; a tensor without memory of its own (meta,
fake) gives nothing. Looking never copies: a storage's address is not asked for, since that ends copy-on-write.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

PLAIN = frozenset((Tensor, torch.nn.Parameter, torch.nn.Buffer))
DEPTH = 5  # of lists and dicts that tensors are looked for in


class Piece(NamedTuple):
    """One block of memory: on which GPU (None is the host), and in which of the four places of a segment."""

    key: int
    gpu: int | None
    place: str
    size: int


def pieces(tensor: Tensor) -> Iterator[Piece]:
    """The blocks of memory that hold the tensor."""
    for part in (tensor,) if type(tensor) in PLAIN and tensor.layout is torch.strided else _parts(tensor):
        storage = part.untyped_storage()
        if (size := storage.nbytes()) and storage.device.type != "meta":
            gpu, place = where(part)
            yield Piece(storage._cdata, gpu, place, size)


def where(tensor: Tensor) -> tuple[int | None, str]:
    """The index of the GPU and the place; on the host the index is None."""
    if (device := tensor.device).type != "cpu":
        return device.index or 0, "device"
    if getattr(tensor, "is_paged", False):  # bitsandbytes marks so what it allocates for both sides
        return getattr(tensor, "page_deviceid", None), "managed"
    # is_pinned asks CUDA, and would wake it in a program that does not use it
    pinned = torch.cuda.is_initialized() and tensor.is_pinned()
    return None, "pinned" if pinned else "pageable"


def tensors(value: Any, depth: int = DEPTH) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and the values of dicts."""
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for inner in list(value.values()):
            yield from tensors(inner, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for inner in list(value):
            yield from tensors(inner, depth - 1)


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    """The plain tensors that a tensor is made of."""
    if hasattr(type(tensor), "__tensor_flatten__"):  # DTensor, nested and torchao's tensors say it themselves
        for name in tensor.__tensor_flatten__()[0]:
            yield from _parts(getattr(tensor, name))
    elif tensor.layout is torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    elif tensor.layout is torch.strided and not _is_shell(tensor):
        yield tensor
    elif tensor.layout is torch.strided:
        for inner in tensors(vars(tensor)):
            yield from _parts(inner)


def _is_shell(tensor: Tensor) -> bool:
    """Whether a subclass only names a shape and keeps its data in attributes: its storage says a size, and has none."""
    if type(tensor) in PLAIN or tensor.untyped_storage().device.type == "meta":
        return False
    try:
        return not tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return True
