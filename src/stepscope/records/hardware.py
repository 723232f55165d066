"""The records of the machine: GPUs, memory, the host, and what the hardware could reach."""

from typing import Annotated, Any

from msgspec import Struct

from .base import Number, StepRecord, about


class Gpu(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="gpu", tag_field="log"):
    """State of one GPU."""

    id: Annotated[int | None, about("index of the GPU")] = None
    clock: Annotated[int | None, about("current clock", "MHz", "min")] = None
    max_clock: Annotated[int | None, about("highest clock", "MHz", "min")] = None
    fan: Annotated[Number | None, about("fan speed, 0 when passively cooled", "%", "max")] = None
    power: Annotated[Number | None, about("power draw", "mW", "sum")] = None
    power_limit: Annotated[Number | None, about("configured power limit", "mW", "sum")] = None
    temperature: Annotated[Number | None, about("temperature", "°C", "max")] = None
    temp_slowdown: Annotated[Number | None, about("temperature at which it throttles", "°C", "min")] = None
    gpu_util: Annotated[Number | None, about("time in which a kernel ran", "%", "mean")] = None
    mem_util: Annotated[Number | None, about("time in which memory was read or written", "%", "mean")] = None
    throttle: Annotated[str | None, about("reasons for throttling, worst first; empty when none")] = None
    dram_free: Annotated[int | None, about("free memory", "bytes", "min")] = None
    pcie_rx: Annotated[Number | None, about("received over PCIe", "bytes/s", "sum")] = None
    pcie_tx: Annotated[Number | None, about("sent over PCIe", "bytes/s", "sum")] = None
    nvlink_rx: Annotated[Number | None, about("received over NVLink", "bytes/s", "sum")] = None
    nvlink_tx: Annotated[Number | None, about("sent over NVLink", "bytes/s", "sum")] = None
    memory_temperature: Annotated[Number | None, about("temperature of the memory", "°C", "max")] = None
    ecc_errors: Annotated[int | None, about("uncorrected memory errors since the driver was loaded", "", "sum")] = None
    remapped_rows: Annotated[int | None, about("rows of memory that were replaced because of errors", "", "sum")] = None
    xid: Annotated[int | None, about("the newest XID error since the record before, of any process")] = None


class SpeedOfLight(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="sol", tag_field="log"):
    """What the hardware could reach at best."""

    blocks: Annotated[Number | None, about("operations in the transformer blocks", "FLOP", "same")] = None
    lm_head: Annotated[Number | None, about("operations in the LM head", "FLOP", "same")] = None
    attention: Annotated[Number | None, about("operations in attention", "FLOP", "same")] = None
    tps: Annotated[Number | None, about("theoretical peak throughput", "tokens/s", "same")] = None
    tf32_peak: Annotated[float | None, about("peak in TF32", "TFLOP/s", "same")] = None
    bf16_peak: Annotated[float | None, about("peak in BF16", "TFLOP/s", "same")] = None
    fp16_peak: Annotated[float | None, about("peak in FP16", "TFLOP/s", "same")] = None
    fp8_peak: Annotated[float | None, about("peak in FP8", "TFLOP/s", "same")] = None
    dtype: Annotated[str | None, about("number format that the operations run in: tf32, bf16, fp16, fp8")] = None
    id: Annotated[int | None, about("index of the GPU, where they differ")] = None
    fp4_peak: Annotated[float | None, about("peak in FP4", "TFLOP/s", "same")] = None
    fp32_peak: Annotated[float | None, about("peak in FP32, of a CPU", "TFLOP/s", "same")] = None
    bandwidth: Annotated[float | None, about("memory bandwidth", "GB/s", "same")] = None
    per: Annotated[str | None, about("what the operations are counted for: token or sample")] = None
    other: Annotated[Number | None, about("operations in everything else", "FLOP", "same")] = None
    seconds: Annotated[float | None, about("theoretical time for one token or sample, on all GPUs", "s", "same")] = None
    model_flop: Annotated[Number | None, about("operations, attention counted without its mask", "FLOP", "same")] = None
    hardware_flop: Annotated[Number | None, about("the same with recomputation", "FLOP", "same")] = None
    gpus: Annotated[int | None, about("number of GPUs that share the work", "", "same")] = None
    device: Annotated[str | None, about("name of the GPU or CPU whose peaks these are")] = None
    source: Annotated[str | None, about("counted, closed form, or given")] = None


class Segment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory of one purpose, by where it lies."""

    name: Annotated[str, about("segment: weights, gradients, optimizer, activations, lora, qlora, …")]
    device: Annotated[int, about("device memory", "bytes", "sum")] = 0
    managed: Annotated[int, about("CUDA managed memory", "bytes", "sum")] = 0
    pinned: Annotated[int, about("pinned host memory", "bytes", "sum")] = 0
    pageable: Annotated[int, about("pageable host memory", "bytes", "sum")] = 0


class Allocator(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="allocator", tag_field="log"):
    """Memory by segment."""

    stats: Annotated[list[Segment] | None, about("allocated memory of each segment")] = None
    id: Annotated[int | None, about("index of the GPU")] = None


class GpuModel(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="gpu-model", tag_field="log"):
    """What a GPU is."""

    name: Annotated[str | None, about("name of the model")] = None
    sm_count: Annotated[int | None, about("streaming multiprocessors")] = None
    major: Annotated[int | None, about("compute capability, major")] = None
    minor: Annotated[int | None, about("compute capability, minor")] = None
    memory: Annotated[int | None, about("memory in all", "bytes")] = None
    free: Annotated[int | None, about("free memory at the start", "bytes")] = None
    l2_size: Annotated[int | None, about("L2 cache", "bytes")] = None
    uuid: Annotated[str | None, about("UUID")] = None
    ecc: Annotated[bool | None, about("whether ECC is on")] = None
    cuda_driver: Annotated[int | None, about("version of the CUDA driver, 13000 is 13.0")] = None
    cuda_runtime: Annotated[int | None, about("version of the CUDA runtime, 13000 is 13.0")] = None
    id: Annotated[int | None, about("index of the GPU")] = None


class GpuMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How full one GPU is of this process's tensors."""

    id: Annotated[int, about("index of the GPU")]
    allocated: Annotated[int, about("memory that tensors hold", "bytes", "max")]
    total: Annotated[int, about("memory of the GPU", "bytes", "min")]
    reserved: Annotated[int | None, about("memory that the allocator holds", "bytes", "max")] = None
    utilization: Annotated[float | None, about("allocated of the total", "%", "max")] = None
    pressure: Annotated[float | None, about("the same as a share", "0-1", "max")] = None
    bottleneck: Annotated[bool | None, about("whether it is above its limit")] = None


class System(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="system", tag_field="log"):
    """State of the host, as far as this process may use it."""

    cpu_percent: Annotated[float | None, about("CPU in use, of what may be used", "%", "max")] = None
    cpus: Annotated[float | None, about("CPUs that may be used: cores, or a container's quota", "", "same")] = None
    cpu_throttled: Annotated[float | None, about("share of periods in which the quota ran out", "0-1", "max")] = None
    process_cpu_percent: Annotated[
        float | None, about("CPU of this process and its children; 100 is one core", "%", "sum")
    ] = None
    ram_percent: Annotated[float | None, about("RAM in use, of what may be used", "%", "max")] = None
    ram_available: Annotated[int | None, about("RAM that is left", "bytes", "min")] = None
    ram_total: Annotated[int | None, about("RAM that may be used: the machine's, or a container's limit", "bytes")] = (
        None
    )
    ram_limit: Annotated[int | None, about("the container's memory limit, where it has one", "bytes", "min")] = None
    ram_limit_percent: Annotated[float | None, about("memory in use, of the container's limit", "%", "max")] = None
    process_memory: Annotated[int | None, about("resident memory of this process", "bytes", "sum")] = None
    children_memory: Annotated[int | None, about("resident memory of its children", "bytes", "sum")] = None
    children: Annotated[int | None, about("child processes: loader workers and others", "", "sum")] = None
    disk_read: Annotated[float | None, about("read from disks", "bytes/s", "max")] = None
    disk_write: Annotated[float | None, about("written to disks", "bytes/s", "max")] = None
    network_in: Annotated[float | None, about("received over networks", "bytes/s", "max")] = None
    network_out: Annotated[float | None, about("sent over networks", "bytes/s", "max")] = None
    memory_pressure: Annotated[float | None, about("RAM in use as a share", "0-1", "max")] = None
    bottleneck_memory: Annotated[bool | None, about("whether it is above its limit")] = None
    gpus: Annotated[list[GpuMemory] | None, about("memory that this process's tensors hold on each GPU")] = None


class Memory(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="memory", tag_field="log"):
    """Memory at the end of a step: of the allocator of one GPU, or of the process on the host."""

    id: Annotated[int | None, about("index of the GPU; left out for the host")] = None
    allocated: Annotated[int | None, about("memory that tensors hold", "bytes", "max")] = None
    peak_allocated: Annotated[
        int | None, about("most of it so far, or since the program reset its counter", "bytes", "max")
    ] = None
    reserved: Annotated[int | None, about("memory that the allocator holds", "bytes", "max")] = None
    peak_reserved: Annotated[
        int | None, about("most of it so far, or since the program reset its counter", "bytes", "max")
    ] = None
    retries: Annotated[int | None, about("allocations that had to free the cache first, so far", "", "sum")] = None
    ooms: Annotated[int | None, about("allocations that failed, so far", "", "sum")] = None
    resident: Annotated[int | None, about("resident memory of the process", "bytes", "max")] = None


class OutOfMemory(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="oom", tag_field="log"):
    """An allocation that failed, and what held the memory."""

    id: Annotated[int | None, about("index of the GPU; left out for the host")] = None
    asked: Annotated[int | None, about("memory that was asked for", "bytes")] = None
    free: Annotated[int | None, about("free memory", "bytes")] = None
    allocated: Annotated[int | None, about("memory that tensors held", "bytes")] = None
    reserved: Annotated[int | None, about("memory that the allocator held", "bytes")] = None
    message: Annotated[str | None, about("what the allocator said")] = None
    phase: Annotated[str | None, about("phase in which it failed")] = None
    stats: Annotated[list[Segment] | None, about("memory of each segment")] = None
    last_steps: Annotated[Any, about("the steps before, newest last", free_form=True)] = None
    snapshot: Annotated[str | None, about("file of the allocator's snapshot, where one was asked for")] = None
