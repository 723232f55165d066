"""A stand-in for NVML's library: GPUs whose every answer is scripted, with NVML's own errors and constants.

nvml = ScriptedNvml(gpu(nvmlDeviceGetFanSpeed=fault(3)), gpu())
nvml.gpus[0]["nvmlDeviceGetTemperature"] = 61        # what it answers from now on
nvml.called                                          # Counter({'nvmlInit': 1, …})
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pynvml

ENERGY, MEMORY_TEMPERATURE, NVLINK_TX, NVLINK_RX, PCIE_TX, PCIE_RX = 83, 82, 138, 139, 197, 198
UNSIGNED, LONG = 1, 3  # NVML's value types


def fault(code: int) -> pynvml.NVMLError:
    """NVML's error of that code."""
    return pynvml.NVMLError(code)


def gpu(uuid: str = "GPU-11111111-0000-0000-0000-000000000000", **answers: Any) -> dict[Any, Any]:
    """A healthy GPU, and what it answers otherwise; an exception is raised, a number is a field's value."""
    return {
        "nvmlDeviceGetUUID": uuid,
        "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetMaxClockInfo": 1980,
        "nvmlDeviceGetClockInfo": 1755,
        "nvmlDeviceGetPowerManagementLimit": 700_000,
        "nvmlDeviceGetPowerUsage": 300_000,
        "nvmlDeviceGetTemperatureThreshold": 87,
        "nvmlDeviceGetTemperature": 61,
        "nvmlDeviceGetCurrentClocksEventReasons": 0,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 << 30, free=50 << 30, used=30 << 30),
        "nvmlDeviceGetTotalEccErrors": 0,
        "nvmlDeviceGetRemappedRows": (1, 2, 0, 0),
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=98, memory=55),
        "nvmlDeviceGetFanSpeed": 40,
        "nvmlDeviceGetEccMode": (1, 1),
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceRegisterEvents": None,
        "xids": [],
        ENERGY: 0,
        MEMORY_TEMPERATURE: 70,
        NVLINK_TX: 0,
        NVLINK_RX: 0,
        PCIE_TX: 0,
        PCIE_RX: 0,
        **answers,
    }


class ScriptedNvml:
    """The library: a handle is a GPU's dictionary itself."""

    def __init__(self, *gpus: dict[Any, Any], **answers: Any):
        self.gpus = list(gpus)
        self.answers = answers  # of functions that need no GPU
        self.called: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("NVML", "nvmlEventType")):
            return getattr(pynvml, name)
        if name.startswith("nvmlDevice"):
            return lambda gpu, *rest: self._answer(name, gpu[name] if name in gpu else fault(13))
        raise AttributeError(name)

    def _answer(self, name: str, answer: Any) -> Any:
        self.called[name] += 1
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def nvmlInit(self) -> None:
        self._answer("nvmlInit", self.answers.get("nvmlInit"))

    def nvmlShutdown(self) -> None:
        self._answer("nvmlShutdown", self.answers.get("nvmlShutdown"))

    def nvmlDeviceGetCount(self) -> int:
        return self._answer("nvmlDeviceGetCount", self.answers.get("nvmlDeviceGetCount", len(self.gpus)))

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return self._answer("nvmlSystemGetCudaDriverVersion_v2", 13000)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[Any, Any]:
        gpu = self.gpus[index]
        return self._answer("nvmlDeviceGetHandleByIndex", gpu.get("handle", gpu))

    def nvmlDeviceGetFieldValues(self, gpu: dict[Any, Any], wanted: list[tuple[int, int]]) -> list[Any]:
        self._answer("nvmlDeviceGetFieldValues", gpu.get("nvmlDeviceGetFieldValues"))
        return [_value(gpu[number]) for number, _ in wanted]

    def nvmlEventSetCreate(self) -> object:
        return self._answer("nvmlEventSetCreate", self.gpus[0])

    def nvmlEventSetFree(self, events: object) -> None:
        self._answer("nvmlEventSetFree", None)

    def nvmlEventSetWait_v2(self, events: dict[Any, Any], timeout_ms: int) -> Any:
        assert timeout_ms == 0
        xids = events["xids"]
        return self._answer("nvmlEventSetWait_v2", SimpleNamespace(eventData=xids.pop(0)) if xids else fault(10))


def _value(answer: Any) -> Any:
    if isinstance(answer, pynvml.NVMLError):
        return SimpleNamespace(nvmlReturn=answer.value, valueType=0, value=SimpleNamespace())
    kind = "uiVal" if answer < 1 << 32 else "ullVal"
    number = UNSIGNED if kind == "uiVal" else LONG
    return SimpleNamespace(nvmlReturn=0, valueType=number, value=SimpleNamespace(**{kind: answer}))
