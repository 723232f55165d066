"""Records as lines of text, each column in its width.

    step(Step(step=100, …), trend="\\\\", spike=False, percent=12.5, eta_s=8100.0)
    # :: step     100 [ 12.5%] \\ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms | eta 02h15m

A number that is too wide loses decimals before it breaks its column; one that is not known is `n/a`, as wide.
"""

from collections.abc import Iterator
from math import isfinite

from ..profiling_tags import shares
from ..profiling_tags import throughput as batches_per_hour
from ..records import Allocator, Dataset, Epoch, Eval, Event, Gpu, GpuModel, Metrics, Moe, Number, SpeedOfLight, Step

MIB = 1 << 20
DTYPES = ("tf32", "bf16", "fp16", "fp8", "fp4", "fp32")
OPERATIONS = (("Blocks:", "blocks"), ("LM-Head:", "lm_head"), ("Attention:", "attention"))


def number(value: Number | None, width: int, decimals: int, sign: str = "") -> str:
    """A number in its column: fewer decimals, then an exponent, where it would not fit."""
    if value is None:
        return f"{'n/a':>{width}}"
    if not isfinite(value):
        return f"{value:{sign}{width}f}"
    small = 0 < abs(value) < 0.5 * 10**-decimals
    for places in [] if small else range(decimals, -1, -1):
        shown = f"{value:{sign}{width}.{places}f}"
        if len(shown) <= width:
            return shown
    for places in (2, 1, 0):
        mantissa, _, exponent = f"{value:{sign}.{places}e}".partition("e")
        shown = f"{mantissa}e{int(exponent)}"
        if len(shown) <= width:
            break
    return f"{shown:>{width}}"


def throughput(tokens_per_second: float | None) -> str:
    """Tokens a second in six places: `125.3k`, `  1.25M`, ` 999.0`."""
    if tokens_per_second is None:
        return f"{'n/a':>6}"
    for limit, scale, unit, places in ((999.95, 1, "", 1), (999_950, 1e3, "k", 1), (1e9, 1e6, "M", 2)):
        if tokens_per_second < limit:
            return f"{number(tokens_per_second / scale, 6 - len(unit), places)}{unit}"
    return f"{number(tokens_per_second / 1e9, 5, 2)}B"


def milliseconds(duration_ms: Number | None) -> str:
    """A duration in eight places: `  156 ms`, `  0.4 ms`, `  123 s `."""
    if duration_ms is None or not isfinite(duration_ms):
        return f"{'n/a':>5} ms"
    if duration_ms >= 99_999.5:
        return f"{duration_ms / 1000:5.0f} s "
    return f"{duration_ms:5.1f} ms" if 0 < duration_ms < 9.95 and duration_ms % 1 else f"{duration_ms:5.0f} ms"


def eta(seconds: float) -> str:
    """Time that is left, in six places: `12m30s`, `02h15m`, `3d 04h`."""
    if seconds < 3599.5:
        return f"{round(seconds) // 60:02d}m{round(seconds) % 60:02d}s"
    minutes = round(seconds / 60)
    hours = minutes // 60
    return f"{hours:02d}h{minutes % 60:02d}m" if hours < 100 else f"{hours // 24}d {hours % 24:02d}h"


def duration(seconds: float) -> str:
    """A time that has passed, as a person says it."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def step(
    record: Step, trend: str, spike: bool, percent: float | None, eta_s: float | None = None, verbose: bool = False
) -> str:
    """The line of a training step."""
    done = f"{percent:5.1f}%" if percent is not None else f"{'n/a':>6}"
    parts = [
        f":: step {record.step:7d} [{done}] {trend} loss {number(record.loss, 6, 4)}",
        f"norm {'!' if spike else ' '}{number(record.norm, 6, 4)}",
        f"{throughput(record.tokens_per_second)} tps",
        milliseconds(record.duration_ms),
    ]
    if record.moe_aux_loss is not None or record.moe_load_imbalance is not None:
        parts += [f"aux {number(record.moe_aux_loss, 6, 4)}", f"imbal {number(record.moe_load_imbalance, 4, 2)}"]
    if record.sol is not None:
        parts.append(f"sol {number(record.sol, 4, 1)}")
    if verbose and record.share is not None:
        parts.append(f"watch {100 * record.share:4.2f}%")
    if eta_s is not None:
        parts.append(f"eta {eta(eta_s)}")
    return " | ".join(parts)


def evaluation(record: Eval, gap: float | None) -> str:
    """The line of an evaluation."""
    return " | ".join(
        [
            f">> eval                      loss {number(record.loss, 6, 4)}",
            f"gap {number(gap, 7, 4, '+')}",
            f"{throughput(record.tokens_per_second)} tps",
            milliseconds(record.duration_ms),
        ]
    )


def moe(record: Moe) -> str:
    """The line of a router's health."""
    return " | ".join(
        [
            f"[M] step {record.step:5d}",
            f"aux {number(record.aux_loss, 6, 4)}",
            f"z {number(record.z_loss, 6, 4)}",
            f"util {number(record.expert_utilization, 4, 2)}",
            f"imbal {number(record.load_imbalance, 4, 2)}",
        ]
    )


def _whole(value: Number | None, width: int, scale: float = 1) -> str:
    return f"{round(value / scale):{width}d}" if value is not None and isfinite(value) else f"{'n/a':>{width}}"


def gpu(record: Gpu, memory: int | None) -> str:
    """The line of a GPU's state."""
    used = memory - record.dram_free if memory is not None and record.dram_free is not None else None
    throttle = f" | throttled: {record.throttle}" if record.throttle else ""
    return (
        f"[G] step {record.step:5d} [gpu {_whole(record.id, 2)}] | power {_whole(record.power, 4, 1000)} W   "
        f"| temp {_whole(record.temperature, 3)} /{_whole(record.temp_slowdown, 3)}°C "
        f"| clock {_whole(record.clock, 4)} MHz | Mem Usage {_whole(used, 1, MIB)} MiB "
        f"| PCI↓{_whole(record.pcie_rx, 5, MIB)} MiB/s | PCI↑{_whole(record.pcie_tx, 5, MIB)} MiB/s{throttle}"
    )


def gpu_model(record: GpuModel) -> Iterator[str]:
    """The block of what a GPU is."""
    yield f"[System {record.id or 0}]"
    yield f"  Device {record.id or 0}: {record.name or 'n/a'}"
    yield f"  CUDA version: driver {_cuda(record.cuda_driver)}, runtime {_cuda(record.cuda_runtime)}"
    used = record.memory - record.free if record.memory is not None and record.free is not None else None
    yield f"  Memory: {_whole(used, 1, MIB)} MiB / {_whole(record.memory, 1, MIB)} MiB"


def _cuda(version: int | None) -> str:
    return f"{version // 1000}.{version % 1000 // 10}" if version else "n/a"


def speed_of_light(record: SpeedOfLight) -> Iterator[str]:
    """The block of what the hardware could reach."""
    peaks = {name: peak for name in DTYPES if (peak := getattr(record, f"{name}_peak")) is not None}
    used = record.dtype if record.dtype in peaks else None
    shown = [used] if used else list(peaks)
    dtype = used or (shown[0] if len(shown) == 1 else None)
    yield "[Speed of Light]"
    for name in shown:
        yield f"  Peak {name.upper()}: {' ' * (4 - len(name))}{peaks[name]:8.1f} TFLOP/s"
    for label, field in OPERATIONS if record.per != "sample" else (("Model:", "other"),):
        yield f"  {label:<11}{_flop(getattr(record, field))}" + (f"   in {dtype}" if dtype else "")
    if record.per == "sample":
        yield f"  SOL:       {_whole(1 / record.seconds if record.seconds else None, 9)} samples/s"
    else:
        yield f"  SOL:       {_whole(record.tps, 9)} tok/s"


def _flop(value: Number | None) -> str:
    if value is None:
        return f"{'n/a':>8} GFLOP"
    return f"{value / 1e9:8.1f} GFLOP" if value >= 1e8 else f"{value / 1e6:8.1f} MFLOP"


def allocator(record: Allocator) -> Iterator[str]:
    """The table of memory by segment."""
    yield "[Allocator State]" + (f" gpu {record.id}" if record.id is not None else "")
    yield f"{'in MiB':>18}  Device | Managed | Pinned | Pageable"
    for s in record.stats or []:
        device, managed, pinned, pageable = (size // MIB for size in (s.device, s.managed, s.pinned, s.pageable))
        yield f"{s.name:>16}: {device:7d} | {managed:7d} | {pinned:6d} | {pageable:8d}"


def tokens(count: int | None) -> str:
    """A number of tokens in five places: ` 329k`, ` 1.5M`, `  20M`; cut, not rounded."""
    if count is None:
        return "  n/a"
    if count < 1000:
        return f"{count:5d}"
    for scale, unit in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "B"), (1_000_000_000_000, "T")):
        if count < 1000 * scale or unit == "T":
            tenths = count // (scale // 10)
            short = unit != "k" and count < 20 * scale
            return f"{tenths / 10:4.1f}{unit}" if short else f"{count // scale:4d}{unit}"
    raise AssertionError


def dataset(record: Dataset, first: bool, files: bool) -> Iterator[str]:
    """The rows of a split; its files where asked for."""
    if first:
        yield "[Dataset]"
    yield f" {(record.split or 'data') + ':':<6} {tokens(record.tokens)} tokens"
    for name, count in (record.file_tokens or []) if files else []:
        yield f"   {name} : {count:10d}"


def _short(value: Number) -> str:
    return str(value) if isinstance(value, int) else number(value, 6, 4).strip()


def metrics(record: Metrics, most: int) -> str:
    """The first few numbers of a step that has no line of its own."""
    shown = [f"{name} {_short(value)}" for name, value in list(record.values.items())[:most]]
    more = [f"+{len(record.values) - most} more"] if len(record.values) > most else []
    return f":: step {record.step:7d}   " + " | ".join(shown + more)


def epoch(record: Epoch) -> Iterator[str]:
    """The summary of an epoch, as *MAE profiling* prints it."""
    yield f"=== Epoch {record.epoch} Profiling Summary ==="
    yield f"Total time: {_seconds(record.total_ms, 2)}"
    yield f"Avg batch time: {_seconds(record.mean_ms, 3)}"
    rate = batches_per_hour(record)
    yield f"Throughput: {'n/a' if rate is None else f'{rate:.1f}'} batches/hour"
    yield ""
    yield "📊 Time Breakdown:"
    for name, ms, percent in shares(record):
        shown = "other/overhead" if name == "other" else name
        yield f"  {shown:<25}: {percent:4.1f}% ({ms / 1000:5.2f}s)"
    yield "=" * 50


def _seconds(ms: float | None, places: int) -> str:
    return "n/a" if ms is None else f"{ms / 1000:.{places}f}s"


def event(record: Event) -> Iterator[str]:
    """An event with much to say: what happened, then a line for each advice."""
    yield f"!! {record.severity}: {record.message}"
    yield from (f"   → {advice}" for advice in (record.advice or "").split("; ") if advice)
