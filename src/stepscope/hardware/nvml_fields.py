"""What NVML is asked for, field by field: the call for each, and how its answer reads.

    LIVE["clock"](pynvml, handle)                          # 1980
    values_of(pynvml, handle, VALUES)                      # {'energy': 812003112, …}, or an error in its place

The slow calls are left alone: nvmlDeviceGetPcieThroughput blocks for 21 ms (measured on an H200), and
nvmlDeviceSetCpuAffinity, which other monitors call, throws in containers and has killed runs.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .throttle import reasons

Call = Callable[[Any, Any], Any]
Calls = Call | tuple[Call, ...]  # where there are several, the next is asked if the driver does not know the one before

# what does not change is asked once
STATIC: dict[str, Calls] = {
    "max_clock": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "power_limit": lambda nvml, gpu: nvml.nvmlDeviceGetPowerManagementLimit(gpu),
    "temp_slowdown": lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(
        gpu, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    ),
}

LIVE: dict[str, Calls] = {
    "clock": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "temperature": (
        lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
        lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU),
    ),
    "throttle": (
        lambda nvml, gpu: reasons(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
        lambda nvml, gpu: reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),  # before CUDA 12
    ),
    "dram_free": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).free,
    "ecc_errors": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(
        gpu, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    ),
    "remapped_rows": lambda nvml, gpu: sum(nvml.nvmlDeviceGetRemappedRows(gpu)[:2]),
}

MODEL: dict[str, Calls] = {
    "name": lambda nvml, gpu: text(nvml.nvmlDeviceGetName(gpu)),
    "memory": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total,
    "free": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).free,
    "uuid": lambda nvml, gpu: text(nvml.nvmlDeviceGetUUID(gpu)),
    "ecc": lambda nvml, gpu: bool(nvml.nvmlDeviceGetEccMode(gpu)[0]),
    "cuda_driver": lambda nvml, gpu: nvml.nvmlSystemGetCudaDriverVersion_v2(),
}

# Counters and sensors that come together in one call: NVML's number of the field, and of the link.
ALL_LINKS = 0xFFFFFFFF  # summed
ENERGY, MEMORY_TEMPERATURE, NVLINK_TX, NVLINK_RX, PCIE_TX, PCIE_RX = 83, 82, 138, 139, 197, 198
VALUES: dict[str, tuple[int, int]] = {
    "energy": (ENERGY, 0),
    "memory_temperature": (MEMORY_TEMPERATURE, 0),
    "nvlink_tx": (NVLINK_TX, ALL_LINKS),
    "nvlink_rx": (NVLINK_RX, ALL_LINKS),
}
PCIE_VALUES: dict[str, tuple[int, int]] = {"pcie_tx": (PCIE_TX, 0), "pcie_rx": (PCIE_RX, 0)}

# of NVML's value types, in their order
UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

# A lane's bytes a second by generation, after encoding: what bounds how fast a byte counter can grow.
LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


def values_of(nvml: Any, gpu: Any, wanted: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """The values of several fields by one call; where one has none, the error that says why."""
    answers = nvml.nvmlDeviceGetFieldValues(gpu, list(wanted.values()))
    return {name: _value(nvml, answer) for name, answer in zip(wanted, answers, strict=True)}


def _value(nvml: Any, answer: Any) -> Any:
    if answer.nvmlReturn:
        return nvml.NVMLError(answer.nvmlReturn)
    return getattr(answer.value, UNION[answer.valueType])


def fastest_link(nvml: Any, gpu: Any) -> float | None:
    """The most bytes a second that the GPU's PCIe link can carry one way; None for a generation of tomorrow."""
    lane = LANE.get(nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu))
    return lane and lane * float(nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu))


def registered(nvml: Any, gpu: Any) -> Any:
    """A set of events that collects the GPU's XID errors from now on."""
    events = nvml.nvmlEventSetCreate()
    try:
        nvml.nvmlDeviceRegisterEvents(gpu, nvml.nvmlEventTypeXidCriticalError, events)
    except BaseException:
        nvml.nvmlEventSetFree(events)
        raise
    return events


def next_event(nvml: Any, events: Any) -> int:
    """The number of the next XID error that is there already; where there is none, NVML says that by a timeout."""
    return int(nvml.nvmlEventSetWait_v2(events, 0).eventData)


def text(answer: Any) -> str:
    """A name; older bindings give bytes."""
    return answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
