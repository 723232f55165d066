"""The records of time: where each step's went, over some steps and over an epoch."""

from typing import Annotated

from msgspec import Struct

from .base import Number, StepRecord, about


class Spent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Time spent in one phase."""

    name: Annotated[str, about("the phase; `validation_epoch/forward_pass` is a part of `validation_epoch`")]
    ms: Annotated[float, about("time in all, that of its parts included", "ms", "max")]
    count: Annotated[int, about("how often it was entered", "", "sum")] = 1


class Phases(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="phases", tag_field="log"):
    """Where one step's time went: on the host's clock, and on the device's where there is one."""

    duration_ms: Annotated[float | None, about("the step, from the fetch of its batch on", "ms", "max")] = None
    host_ms: Annotated[dict[str, float] | None, about("host time by phase; `a/b` is a part of `a`", "ms", "max")] = None
    device_ms: Annotated[dict[str, float] | None, about("device time by phase", "ms", "max")] = None
    device_duration_ms: Annotated[float | None, about("the step on the device's clock", "ms", "max")] = None
    input_wait_ms: Annotated[float | None, about("time the device waited while a batch was fetched", "ms", "max")] = (
        None
    )
    worker_ms: Annotated[float | None, about("time that loader workers spent on its batches", "ms", "max")] = None
    batches: Annotated[int | None, about("batches fetched for it", "batches", "sum")] = None
    samples: Annotated[int | None, about("samples in them", "samples", "sum")] = None


class Profile(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="profile", tag_field="log"):
    """Where the time of the newest few steps went; `step` is the last of them."""

    first_step: Annotated[int | None, about("first of the steps")] = None
    steps: Annotated[int | None, about("how many steps", "steps", "same")] = None
    clock: Annotated[str | None, about("whose clock the phases are of: host or device")] = None
    mean_ms: Annotated[float | None, about("mean duration of a step", "ms", "max")] = None
    std_ms: Annotated[float | None, about("standard deviation of the durations", "ms", "max")] = None
    p50_ms: Annotated[float | None, about("median duration", "ms", "max")] = None
    p95_ms: Annotated[float | None, about("95th percentile", "ms", "max")] = None
    p99_ms: Annotated[float | None, about("99th percentile", "ms", "max")] = None
    phases: Annotated[list[Spent] | None, about("time by phase, in these steps and around them")] = None
    data_generation_ms: Annotated[float | None, about("mean wait of a step for its data", "ms", "max")] = None
    data_transfer_ms: Annotated[float | None, about("mean transfer time of a step", "ms", "max")] = None
    data_gen_percentage: Annotated[float | None, about("wait for data, of the steps' time", "%", "max")] = None
    transfer_percentage: Annotated[float | None, about("transfer, of the steps' time", "%", "max")] = None
    bottleneck_data_generation: Annotated[bool | None, about("whether the wait for data is above its limit")] = None
    data_gen_bottleneck_severity: Annotated[float | None, about("how much of a step is waiting", "0-1", "max")] = None
    input_wait_ms: Annotated[float | None, about("mean time the device waited for a batch", "ms", "max")] = None
    worker_ms: Annotated[float | None, about("mean time that loader workers spent on a batch", "ms", "mean")] = None
    device_idle: Annotated[
        float | None, about("share of the phases at whose end the device had nothing left to do", "0-1", "mean")
    ] = None
    share: Annotated[float | None, about("share of the time that watching cost", "0-1", "max")] = None


class GpuPeak(Struct, frozen=True, kw_only=True):
    """The most that was allocated on one GPU."""

    id: Annotated[int, about("index of the GPU")]
    allocated: Annotated[int, about("most memory allocated at once", "bytes", "max")]


class Epoch(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="epoch", tag_field="log"):
    """Where the time of an epoch went, what followed its last step included; `step` is that step."""

    epoch: Annotated[int | None, about("number of the epoch, from 1", "epochs", "same")] = None
    total_ms: Annotated[float | None, about("from its first fetch to the next epoch's", "ms", "max")] = None
    steps: Annotated[int | None, about("training steps", "steps", "same")] = None
    batches: Annotated[int | None, about("training batches", "batches", "sum")] = None
    samples: Annotated[int | None, about("training samples", "samples", "sum")] = None
    clock: Annotated[str | None, about("whose clock the phases are of: host or device")] = None
    mean_ms: Annotated[float | None, about("mean duration of a step", "ms", "max")] = None
    std_ms: Annotated[float | None, about("standard deviation of the durations", "ms", "max")] = None
    p50_ms: Annotated[float | None, about("median duration", "ms", "max")] = None
    p95_ms: Annotated[float | None, about("95th percentile", "ms", "max")] = None
    p99_ms: Annotated[float | None, about("99th percentile", "ms", "max")] = None
    phases: Annotated[list[Spent] | None, about("time by phase, all of the epoch")] = None
    other_ms: Annotated[float | None, about("time in no phase", "ms", "max")] = None
    input_wait_ms: Annotated[float | None, about("time that the device waited for batches", "ms", "max")] = None
    worker_ms: Annotated[float | None, about("time that loader workers spent", "ms", "sum")] = None
    max_ram_percent: Annotated[Number | None, about("most RAM in use", "%", "max")] = None
    max_gpu_memory: Annotated[list[GpuPeak] | None, about("most memory allocated on each GPU")] = None
