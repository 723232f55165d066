"""GPUs through NVML, on a scripted library: what they tell, what they do not, and what they do when they break."""

import os
import time

import pynvml
import pytest

from stepscope.hardware.nvml import Nvml
from stepscope.hardware.torch_gpus import TorchGpu
from stepscope.records import Gpu, GpuModel, fields

from .scripted_nvml import (
    ENERGY,
    MEMORY_TEMPERATURE,
    NVLINK_RX,
    NVLINK_TX,
    PCIE_RX,
    PCIE_TX,
    ScriptedNvml,
    fault,
    gpu,
)

A, B, C = (f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "abc")
ERRORS = sorted(value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_"))
GONE = {1, 9, 15, 16, 18, 28}
NEVER = {2, 3, 4, 13, 25, 26}
COUNTED = {"power", "pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx"}
UNASKED = {"time", "step", "id", "xid"}


class Time:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def _all_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def opened(*gpus, **options):
    """The reader, its library and its clock."""
    library, clock = ScriptedNvml(*gpus), Time()
    return Nvml(library, **{"clock": clock, "torch": lambda: None, **options}), library, clock


def test_every_field_of_the_record_is_read():
    """What a healthy GPU tells stands in its record, in the record's units."""
    nvml, _, _ = opened(gpu(xids=[13, 48]))
    (record,) = nvml.read()
    assert record == Gpu(
        id=0,
        clock=1755,
        max_clock=1980,
        fan=40,
        power=300_000,  # no interval yet: a glimpse
        power_limit=700_000,
        temperature=61,
        temp_slowdown=87,
        gpu_util=98,
        mem_util=55,
        throttle="",
        dram_free=50 << 30,
        memory_temperature=70,
        ecc_errors=0,
        remapped_rows=3,
        xid=48,
    )
    assert set(nvml.missing) == {"pcie_rx", "pcie_tx"}  # one reading is no rate
    assert not nvml.troubles


def test_power_and_rates_are_means_over_the_interval():
    """750 J in 1.5 s are 500 W, whatever the power is at this moment; NVLink counts in KiB."""
    nvml, library, clock = opened(gpu(**{"nvmlDeviceGetPowerUsage": 1}))
    nvml.read()
    clock.now += 1.5
    library.gpus[0] |= {ENERGY: 750_000, NVLINK_TX: 3_000_000, NVLINK_RX: 1_500_000}
    (record,) = nvml.read()
    assert record.power == pytest.approx(500_000)
    assert record.nvlink_tx == pytest.approx(2_000_000 * 1024)
    assert record.nvlink_rx == pytest.approx(1_000_000 * 1024)


def test_an_energy_counter_that_starts_again_is_replaced_by_a_glimpse():
    """A driver that was reloaded counts from nothing: no negative power."""
    nvml, library, clock = opened(gpu(**{"nvmlDeviceGetPowerUsage": 250_000}))
    library.gpus[0][ENERGY] = 10**9
    nvml.read()
    clock.now, library.gpus[0][ENERGY] = clock.now + 1, 5
    assert nvml.read()[0].power == 250_000


def test_pcie_rates_come_from_the_byte_counters():
    """40 GB/s come in and 1.2 GB/s go out, through counters that come round nine times a second."""
    nvml, library, clock = opened(gpu())
    nvml.read()
    for tick in range(1, 26):
        clock.now = 100 + tick * 0.04
        library.gpus[0] |= {PCIE_RX: int(40e9 * tick * 0.04) % 2**32, PCIE_TX: int(1.2e9 * tick * 0.04) % 2**32}
        nvml._tick()
    (record,) = nvml.read()
    assert record.pcie_rx == pytest.approx(40e9, rel=1e-6)
    assert record.pcie_tx == pytest.approx(1.2e9, rel=1e-6)
    assert "pcie_rx" not in nvml.missing


def test_pcie_counters_that_were_read_too_seldom_are_left_out_with_the_reason():
    """A rate that could be any of several is none."""
    nvml, library, clock = opened(gpu())
    nvml.read()
    clock.now, library.gpus[0][PCIE_RX] = clock.now + 1, 12345
    assert nvml.read()[0].pcie_rx is None
    assert "within 61 ms" in nvml.missing["pcie_rx"]


def test_the_counters_are_read_in_the_background_as_often_as_needed():
    """A thread of its own ticks from `start_ticking` to `close`."""
    nvml, library, _ = opened(gpu(), clock=time.monotonic)
    nvml.start_ticking()
    seen = library.called["nvmlDeviceGetFieldValues"]
    until = time.monotonic() + 5
    while library.called["nvmlDeviceGetFieldValues"] < seen + 3 and time.monotonic() < until:
        time.sleep(0.01)
    nvml.close()
    after = library.called["nvmlDeviceGetFieldValues"]
    assert after >= seen + 3
    assert library.called["nvmlShutdown"] == 1
    assert nvml.read() == []


def test_a_passively_cooled_gpu_has_fan_zero():
    """Of all that is not supported, the fan alone is written as a number."""
    nvml, _, _ = opened(gpu(nvmlDeviceGetFanSpeed=fault(3)))
    assert nvml.read()[0].fan == 0
    assert "fan" not in nvml.missing


def test_a_fan_that_cannot_be_read_is_not_zero():
    """Another error says nothing about fans."""
    nvml, _, _ = opened(gpu(nvmlDeviceGetFanSpeed=fault(4)))
    assert nvml.read()[0].fan is None
    assert nvml.missing["fan"] == "Insufficient Permissions"


SOURCES = {
    "nvmlDeviceGetClockInfo": {"clock"},
    "nvmlDeviceGetMaxClockInfo": {"max_clock"},
    "nvmlDeviceGetPowerManagementLimit": {"power_limit"},
    "nvmlDeviceGetTemperature": {"temperature"},
    "nvmlDeviceGetTemperatureThreshold": {"temp_slowdown"},
    "nvmlDeviceGetCurrentClocksEventReasons": {"throttle"},
    "nvmlDeviceGetMemoryInfo": {"dram_free"},
    "nvmlDeviceGetTotalEccErrors": {"ecc_errors"},
    "nvmlDeviceGetRemappedRows": {"remapped_rows"},
    "nvmlDeviceGetUtilizationRates": {"gpu_util", "mem_util"},
    "nvmlDeviceRegisterEvents": {"xid"},
    MEMORY_TEMPERATURE: {"memory_temperature"},
    NVLINK_RX: {"nvlink_rx"},
}


@pytest.mark.parametrize("source", SOURCES, ids=str)
@pytest.mark.parametrize("error", ERRORS)
def test_any_error_of_any_call_leaves_out_its_field_and_nothing_else(source, error):
    """No exception leaves; the reason is kept; a GPU that is gone is said, what may come back is said once."""
    healthy, _, _ = opened(gpu())
    nvml, library, clock = opened(gpu(**{"xids": []}))
    library.gpus[0][source] = fault(error)
    (expected,), (record,) = healthy.read(), nvml.read()
    clock.now += 1
    (again,) = nvml.read()
    if error in GONE:
        assert again == Gpu(id=0)
        assert len(nvml.troubles) == 1
        assert "GPU 0 does not answer any more" in nvml.troubles[0]
        return
    known = set(fields("gpu")) - SOURCES[source] - COUNTED - UNASKED
    assert {name: getattr(record, name) for name in known} == {name: getattr(expected, name) for name in known}
    assert all(getattr(record, name) is None for name in SOURCES[source])
    assert next(iter(SOURCES[source] - {"mem_util"})) in nvml.missing
    assert len(nvml.troubles) == (0 if error in NEVER else 1)


@pytest.mark.parametrize("error", sorted(NEVER))
def test_what_is_not_supported_is_asked_for_once(error):
    """A field that this GPU does not have costs one call in the whole run."""
    nvml, library, _ = opened(gpu(nvmlDeviceGetTotalEccErrors=fault(error)))
    for _ in range(5):
        nvml.read()
    assert library.called["nvmlDeviceGetTotalEccErrors"] == 1


def test_what_failed_for_a_moment_comes_back():
    """A busy driver's timeout is said once, and the next answer stands in the record."""
    nvml, library, _ = opened(gpu(nvmlDeviceGetTemperature=fault(10)))
    assert nvml.read()[0].temperature is None
    assert nvml.read()[0].temperature is None
    library.gpus[0]["nvmlDeviceGetTemperature"] = 55
    assert nvml.read()[0].temperature == 55
    assert "temperature" not in nvml.missing
    assert nvml.troubles == ["GPU 0 did not tell its temperature: Timeout"]


def test_a_newer_call_stands_in_for_one_that_the_driver_lost():
    """A function that is gone is not asked for again where another gives the same."""
    nvml, _, _ = opened(gpu(nvmlDeviceGetTemperature=fault(13), nvmlDeviceGetTemperatureV=58))
    assert [nvml.read()[0].temperature, nvml.read()[0].temperature] == [58, 58]
    assert "temperature" not in nvml.missing


def test_a_binding_that_raises_anything_is_survived():
    """Not NVML's error but the binding's own: left out, said once."""
    nvml, _, _ = opened(gpu(nvmlDeviceGetMemoryInfo=ValueError("strange"), nvmlDeviceGetFieldValues=OSError("odd")))
    (record,) = nvml.read()
    assert (record.dram_free, record.power, record.clock) == (None, 300_000, 1755)
    assert nvml.missing["dram_free"] == "strange"


def test_one_gpu_that_falls_off_the_bus_does_not_hide_the_others():
    """Its id stays, its fields are left out, and it is asked nothing more."""
    nvml, library, clock = opened(gpu(A), gpu(B))
    nvml.read()
    for answer in library.gpus[1]:
        library.gpus[1][answer] = fault(15)
    clock.now += 1
    first, second = nvml.read()
    assert (first.clock, second) == (1755, Gpu(id=1))
    calls = library.called.total()
    clock.now += 1
    nvml.read()
    alone, single, its_clock = opened(gpu(A))
    alone.read()
    its_clock.now += 1
    before = single.called.total()
    alone.read()
    assert library.called.total() - calls == single.called.total() - before
    assert nvml.troubles == ["GPU 1 does not answer any more: GPU is lost"]
    nvml.close()


def test_a_reason_names_its_gpus_where_they_differ():
    """What both lack is said plainly, what one lacks with its number."""
    lacking = {"nvmlDeviceGetTotalEccErrors": fault(3)}
    nvml, _, _ = opened(gpu(A, **lacking), gpu(B, nvmlDeviceGetTemperatureThreshold=fault(3), **lacking))
    nvml.read()
    assert nvml.missing["ecc_errors"] == "Not Supported"
    assert nvml.missing["temp_slowdown"] == "Not Supported (GPU 1)"


@pytest.mark.parametrize(
    ("setting", "uuids"),
    [
        (None, [A, B, C]),
        ("2,0", [C, A]),
        (f"{C},{A}", [C, A]),
        ("GPU-bbbb", [B]),
        ("1,7,0", [B]),
        ("1,1", []),
        ("", []),
        ("-1", []),
        ("0,x", [A]),
    ],
)
def test_ids_are_torchs(monkeypatch, setting, uuids):
    """CUDA_VISIBLE_DEVICES renumbers GPUs, by index or by UUID; NVML knows nothing of it."""
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    nvml, _, _ = opened(gpu(A), gpu(B), gpu(C))
    assert [(model.id, model.uuid) for model in nvml.models()] == list(enumerate(uuids))
    assert bool(nvml.reason) == (not uuids)


def test_torchs_own_order_is_the_one_that_counts():
    """CUDA puts the fastest GPU first: once torch is at work, its UUIDs decide."""
    known = None
    nvml, _, _ = opened(gpu(A, nvmlDeviceGetTemperature=40), gpu(B, nvmlDeviceGetTemperature=80), torch=lambda: known)
    assert [record.temperature for record in nvml.read()] == [40, 80]
    known = [TorchGpu(uuid=B, sm_count=132, l2_size=50 << 20, cuda_runtime=13000), TorchGpu(uuid=A, sm_count=108)]
    assert [record.temperature for record in nvml.read()] == [80, 40]
    assert [(model.uuid, model.sm_count) for model in nvml.models()] == [(B, 132), (A, 108)]


def test_uuids_that_nobody_has_change_nothing():
    """Where torch and NVML do not agree at all, NVML's order stays."""
    nvml, _, _ = opened(gpu(A), gpu(B), torch=lambda: [TorchGpu(uuid=C), TorchGpu(uuid=A)])
    assert [model.uuid for model in nvml.models()] == [A, B]
    assert not nvml.troubles


def test_only_the_named_gpus_are_read():
    """One process of many reads its own GPU, under torch's number."""
    nvml, _, _ = opened(gpu(A), gpu(B), gpu(C), only=[1])
    assert [(record.id, nvml.models()[0].uuid) for record in nvml.read()] == [(1, B)]


def test_the_model_says_what_the_gpu_is():
    """Name, capability, memory, ECC and versions; what torch alone knows comes from torch."""
    torch = [TorchGpu(uuid=A, sm_count=132, l2_size=50 << 20, cuda_runtime=12080)]
    nvml, _, _ = opened(gpu(A), torch=lambda: torch)
    assert nvml.models() == [
        GpuModel(
            id=0,
            name="NVIDIA H100 80GB HBM3",
            sm_count=132,
            major=9,
            minor=0,
            memory=80 << 30,
            free=50 << 30,
            l2_size=50 << 20,
            uuid=A,
            ecc=True,
            cuda_driver=13000,
            cuda_runtime=12080,
        )
    ]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetCount"])
def test_a_machine_without_gpus_gives_a_reason_and_no_records(function, error):
    """No library, no driver, no permission: everything works and is empty."""
    library = ScriptedNvml(gpu(), **{function: fault(error)})
    nvml = Nvml(library, torch=lambda: None)
    assert nvml.reason.startswith("NVML: ")
    assert (nvml.read(), nvml.models(), nvml.missing, nvml.troubles) == ([], [], {}, [])
    nvml.start_ticking()
    nvml.close()
    nvml.close()


def test_this_machine_opens_and_closes():
    """With the real library, whether there is a GPU or not."""
    nvml = Nvml.open()
    assert len(nvml.read()) == len(nvml.models())
    assert bool(nvml.reason) != bool(nvml.read())
    nvml.close()


def test_a_gpu_that_cannot_be_opened_does_not_hide_the_others():
    """It is said once and left out; the others keep their numbers."""
    nvml, _, _ = opened(gpu(A), gpu(B, handle=fault(4)), gpu(C))
    assert [record.id for record in nvml.read()] == [0, 2]
    assert nvml.troubles == ["GPU 1 cannot be read: Insufficient Permissions"]


def test_the_harmful_calls_are_never_made():
    """What blocks for 21 ms and what has killed runs is left alone."""
    nvml, library, clock = opened(gpu())
    for _ in range(3):
        nvml.read()
        nvml.models()
        clock.now += 1
    assert not {"nvmlDeviceGetPcieThroughput", "nvmlDeviceSetCpuAffinity"} & set(library.called)


def test_what_does_not_change_is_asked_once():
    """Highest clock, limits and thresholds cost one call in the whole run."""
    nvml, library, _ = opened(gpu())
    for _ in range(4):
        nvml.read()
    static = ["nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetTemperatureThreshold"]
    assert [library.called[name] for name in static] == [1, 1, 1]
    assert library.called["nvmlDeviceGetClockInfo"] == 4


def test_a_forked_child_reads_nothing():
    """NVML is not to be used across a fork: no records there, and no shutdown of the parent's."""
    nvml, library, _ = opened(gpu())
    child = os.fork()
    if child == 0:
        nothing = nvml.read() == [] and nvml.models() == []
        nvml.close()
        os._exit(0 if nothing and not library.called["nvmlShutdown"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(nvml.read()) == 1
