"""What autograd has saved for the backward pass: a step's activations where no allocator keeps count.

    saved_for_backward(loss)     # {(None, "pageable"): 3145728}

The graph behind the loss is walked and each saved block of memory counted once. Nothing is unpacked: that would run
the hooks of activation checkpointing and of offloading. What their packing left is counted instead: the copy on the
host, or a checkpoint's own inputs. So the step computes what it would have computed, to the bit.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from torch import Tensor

from .storages import pieces, tensors

NODES = 100_000  # of a graph: a larger one takes longer to walk than a sample may
_NAMES: dict[type, list[str]] = {}  # of the saved tensors, by kind of node


def saved_for_backward(loss: Any, known: Collection[int] = ()) -> Counter[tuple[int | None, str]] | None:
    """Bytes by GPU (None is the host) and place, without the blocks that are known; None when that cannot be told."""
    if not isinstance(loss, Tensor) or loss.grad_fn is None:
        return None
    sizes: Counter[tuple[int | None, str]] = Counter()
    seen = set(known)
    for count, node in enumerate(_nodes(loss.grad_fn)):
        if count >= NODES:
            return None
        for saved in _saved(node):
            if saved is None:
                return None
            for piece in pieces(saved):
                if piece.key not in seen:
                    seen.add(piece.key)
                    sizes[piece.gpu, piece.place] += piece.size
    return sizes


def _nodes(root: Any) -> Iterator[Any]:
    """The nodes of an autograd graph, each once."""
    waiting, seen = [root], {root}
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _saved(node: Any) -> Iterator[Tensor | None]:
    """The tensors that a node keeps; None stands for one that this version of torch does not show."""
    for name in _names(node):
        value = getattr(node, name)
        for slot in value if isinstance(value, tuple) else (value,):
            yield from _content(slot)
    yield from tensors(getattr(node, "__dict__", None))  # what a Function of Python's keeps beside


def _names(node: Any) -> list[str]:
    kind = type(node)
    if kind not in _NAMES:
        _NAMES[kind] = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    return _NAMES[kind]


def _content(slot: Any) -> Iterator[Tensor | None]:
    """What lies in a saved tensor's place, packed as it is."""
    if not hasattr(type(slot), "unpack_hook"):
        yield None
    elif (hook := slot.unpack_hook) is None:
        yield from tensors(slot.data)
    else:
        yield from _packed(slot.data, hook)


def _packed(data: Any, hook: Any) -> Iterator[Tensor | None]:
    """What hooks put in a tensor's place: a copy elsewhere, or nothing, for a checkpoint keeps its inputs instead."""
    copies = list(tensors(data))
    cells = [cell.cell_contents for cell in getattr(hook, "__closure__", None) or ()]
    frames = [cell for cell in cells if hasattr(cell, "saved_args")]
    if not copies and not frames:
        yield None  # on a disk, or nowhere: it is not known
    yield from copies
    for frame in frames:
        yield from tensors([argument.data for argument in frame.saved_args])
