"""How many floating-point operations a training step needs, counted on the model itself or by closed form.

    flops = of_step(model, (ids,), {})       # after the model has run once on this input; Flops for one token
    flops.blocks, flops.lm_head, flops.attention, flops.model_flop
    of_step(model, args, kwargs, autocast=autocast_now())    # where autocast is off again by the time of the call

Call it behind a real forward pass: what a model makes once and keeps (masks, rotary tables) is there then, and is made
of data. It runs on the host alone and takes tens of milliseconds for a small model, half a second for a large one.
"""

from typing import Any

from .counted import Autocast, autocast_now, count
from .decoder_sizes import flops_by_form
from .flop_groups import Flops, FlopsUnknown

__all__ = ["Autocast", "Flops", "FlopsUnknown", "autocast_now", "of_step"]


def of_step(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, autocast: Autocast | None = None
) -> Flops:
    """The operations of a training step; raises `FlopsUnknown` with what could not be counted."""
    kwargs = kwargs or {}
    state = autocast_now() if autocast is None else autocast
    try:
        return count(model, args, kwargs, state)
    except FlopsUnknown as unknown:
        why = str(unknown)
    except Exception as error:  # noqa: BLE001 - any line of the user's model may fail on tensors without data
        why = f"the model does not run on tensors without data ({type(error).__name__}: {_short(error)})"
    try:
        return flops_by_form(model, args, kwargs, state)
    except FlopsUnknown as unknown:
        raise FlopsUnknown(f"FLOPs unknown: {why}; and {unknown}") from None
    except Exception as error:  # noqa: BLE001 - a configuration may hold anything
        raise FlopsUnknown(f"FLOPs unknown: {why}; no closed form either ({_short(error)})") from None


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return lines[0][:160]
