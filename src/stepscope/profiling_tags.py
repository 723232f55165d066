"""The names of *MAE profiling*: `profiling/…` of a profile, an epoch and the host, in seconds, percent and GB.

    list(profiling(Profile(mean_ms=142.0)))      # [('batch_time_avg', 0.142), ('batches_per_second', 7.04…), …]

A GB is 2**30 bytes, as the document's own program counts it. What is unknown is None.
"""

from collections.abc import Iterator

from .records import Epoch, Profile, Spent, System

GB = 1 << 30
FETCH = "data_generation"

Named = tuple[str, float | None]


def profiling(record: Profile | Epoch | System) -> Iterator[Named]:
    """The numbers of a record under the document's names."""
    if isinstance(record, Profile):
        yield from _profile(record)
    elif isinstance(record, Epoch):
        yield from _epoch(record)
    else:
        yield from _system(record)


def _profile(record: Profile) -> Iterator[Named]:
    mean = record.mean_ms
    yield "batch_time_avg", _seconds(mean)
    yield "batch_time_std", _seconds(record.std_ms)
    yield from ((f"batch_time_{p}", _seconds(getattr(record, f"{p}_ms"))) for p in ("p50", "p95", "p99"))
    yield "batches_per_second", 1000 / mean if mean else None
    for phase in record.phases or []:
        if phase.count:
            yield f"timing_{phase.name}_avg", phase.ms / phase.count / 1000
    yield "data_generation_time", _seconds(record.data_generation_ms)
    yield "data_transfer_time", _seconds(record.data_transfer_ms)
    yield "data_generation_worker_time", _seconds(record.worker_ms)
    yield "input_wait_time", _seconds(record.input_wait_ms)
    yield "data_gen_percentage", record.data_gen_percentage
    yield "transfer_percentage", record.transfer_percentage
    yield "bottleneck_data_generation", _flag(record.bottleneck_data_generation)
    yield "data_gen_bottleneck_severity", record.data_gen_bottleneck_severity
    yield "watching_percentage", None if record.share is None else 100 * record.share


def _epoch(record: Epoch) -> Iterator[Named]:
    total = record.total_ms
    yield "epoch_total_time", _seconds(total)
    yield "epoch_throughput_batches_per_hour", throughput(record)
    for name, _, percent in shares(record):
        yield f"epoch_{name}_percentage", percent
    yield "epoch_max_ram_usage", record.max_ram_percent
    for gpu in record.max_gpu_memory or []:
        yield f"epoch_max_gpu_{gpu.id}_memory", gpu.allocated / GB


def _system(record: System) -> Iterator[Named]:
    yield "cpu_usage_percent", record.cpu_percent
    yield "ram_usage_percent", record.ram_percent
    yield "ram_available_gb", None if record.ram_available is None else record.ram_available / GB
    yield "memory_pressure", record.memory_pressure
    yield "bottleneck_memory", _flag(record.bottleneck_memory)
    for gpu in record.gpus or []:
        yield f"gpu_{gpu.id}_memory_allocated_gb", gpu.allocated / GB
        yield f"gpu_{gpu.id}_memory_utilization", gpu.utilization
        yield f"gpu_{gpu.id}_memory_pressure", gpu.pressure
        yield f"bottleneck_gpu_{gpu.id}_memory", _flag(gpu.bottleneck)


def throughput(record: Epoch) -> float | None:
    """Batches an hour, all of the epoch counted."""
    batches = record.batches or record.steps
    return batches / record.total_ms * 3_600_000 if batches and record.total_ms else None


def shares(record: Epoch) -> list[tuple[str, float, float]]:
    """Phase, milliseconds and percent of the epoch, longest first and `other` last; together all of it."""
    if not record.total_ms:
        return []
    top: list[Spent] = [phase for phase in record.phases or [] if "/" not in phase.name]
    found = [(phase.name, phase.ms) for phase in sorted(top, key=lambda phase: -phase.ms)]
    if record.other_ms is not None:
        found.append(("other", record.other_ms))
    return [(name, ms, 100 * ms / record.total_ms) for name, ms in found]


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _flag(value: bool | None) -> float | None:
    return None if value is None else int(value)
