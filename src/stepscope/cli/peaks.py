"""`stepscope peaks`: what GPUs can reach at best, and which of them is this machine's."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from ..errors import MissingExtra
from .files import Json
from .numbers import UNKNOWN
from .screen import Column, print_json, say, table

COLUMNS = [
    Column(" "),
    Column("DEVICE", folds=True),
    *(Column(name, right=True) for name in ("TF32", "BF16", "FP16", "FP8", "FP4", "FP32", "GB/S")),
    Column("SOURCE", spare=1),
]
NUMBERS = ("tf32", "bf16", "fp16", "fp8", "fp4", "fp32", "bandwidth")
HERE = "→"

Row = tuple[Any, bool]  # Peaks, and whether it is this machine's


def peaks(
    measured: Annotated[
        bool, typer.Option("--measure", help="Measure this machine's device by matrix products; takes about a second.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the peaks that a step's speed of light is measured by, this machine's marked with an arrow.

    Dense TFLOP/s by number format and GB/s of the memory, with the source of each row: datasheets often print twice
    as much, "with sparsity". A GPU that is not in the table is n/a; a CPU is measured.

    Exit code: 0.

    \b
    Example:
      stepscope peaks
      stepscope peaks --measure
      stepscope peaks --json | jq '.[] | select(.here)'
    """
    from ..hardware.peaks import TABLE

    own = list(_own(measured))
    names = {row.name for row, _ in own}
    rows: list[Row] = [*own, *((row.peaks, False) for row in TABLE if row.peaks.name not in names)]
    if as_json:
        print_json([asdict(row) | {"here": here} for row, here in rows])
    else:
        table(COLUMNS, (_cells(row, here) for row, here in rows))


def _own(measured: bool) -> Iterator[Row]:
    """The rows of this machine: its GPUs by their names, else its CPU; with what was measured below."""
    from ..hardware.peaks import Peaks, peaks_of

    names = _gpus()
    for name in dict.fromkeys(names):
        known = peaks_of(name)
        if known is None:
            say(f"no peaks are known of {name}: stepscope peaks --measure, or watch(…, peaks={{'bf16': …}})")
        yield known or Peaks(name), True
    if measured or not names:
        yield from _measured(bool(names), measured)


def _gpus() -> list[str]:
    from ..hardware.nvml import Nvml

    nvml = Nvml.open(ticking=False)
    try:
        return [model.name for model in nvml.models() if model.name]
    finally:
        nvml.close()


def _measured(gpu: bool, asked: bool) -> Iterator[Row]:
    from ..hardware.cpu import cpu_name
    from ..hardware.peaks import Peaks, cpu_peaks, measure

    try:
        import torch
    except ImportError as error:
        if asked:
            raise MissingExtra("torch", use="to measure a device") from error
        yield Peaks(cpu_name()), True
        return
    if gpu and torch.cuda.is_available():
        found = measure("cuda")
        yield replace(found, name=f"{found.name}, measured"), True
    elif not gpu:
        yield (measure("cpu") if asked else cpu_peaks()), True
    else:
        say("torch has no CUDA here, so the GPU cannot be measured")


def _cells(peaks: Any, here: bool) -> list[str]:
    numbers = [getattr(peaks, name) for name in NUMBERS]
    return [HERE if here else "", peaks.name, *map(_number, numbers), peaks.source or UNKNOWN]


def _number(value: float | None) -> str:
    """Four digits at most, for a CPU's fractions as for a GPU's thousands."""
    if value is None:
        return UNKNOWN
    return f"{value:.3g}" if value < 10 else f"{value:.1f}".removesuffix(".0")
