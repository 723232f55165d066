"""What NVML tells of a real GPU agrees with torch and with the arithmetic of its own counters."""

import time

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pynvml")

from stepscope.hardware.nvml import Nvml  # noqa: E402
from stepscope.hardware.peaks import measure, peaks_of  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

ALWAYS_KNOWN = {"clock", "max_clock", "power", "power_limit", "temperature", "gpu_util", "mem_util", "dram_free"}
ALWAYS_KNOWN |= {"fan", "throttle"}


@pytest.fixture
def nvml():
    """The GPUs of this machine, after torch has made its context."""
    torch.zeros(1, device="cuda")
    opened = Nvml.open()
    yield opened
    opened.close()


def work(seconds):
    """Matrix products for so long."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(10):
            a @ a
        torch.cuda.synchronize()


def test_the_model_is_what_torch_says(nvml):
    """Name, capability, multiprocessors and UUID of every GPU, under torch's numbers."""
    models = nvml.models()
    assert [model.id for model in models] == list(range(torch.cuda.device_count()))
    for model in models:
        known = torch.cuda.get_device_properties(model.id)
        assert (model.name, model.sm_count) == (known.name, known.multi_processor_count)
        assert (model.major, model.minor) == (known.major, known.minor)
        assert model.memory == pytest.approx(known.total_memory, rel=0.05)
        assert str(known.uuid) in model.uuid


def test_a_working_gpu_tells_its_state(nvml):
    """Busy, drawing more than at rest, below its limits; every gap has a reason."""
    nvml.read()
    work(2.0)
    record = nvml.read()[torch.cuda.current_device()]
    print(record, nvml.missing, nvml.troubles)
    assert not [name for name in ALWAYS_KNOWN if getattr(record, name) is None]
    assert record.gpu_util > 50
    assert 0 < record.clock <= record.max_clock
    assert 10_000 < record.power < 1.2 * record.power_limit
    unknown = {name for name in record.__struct_fields__ if getattr(record, name) is None}
    assert unknown <= set(nvml.missing) | {"xid"}
    assert not nvml.troubles


def test_pcie_rates_agree_with_what_was_copied(nvml):
    """Ten seconds' worth of copies to the device, by the byte counters: within what the protocol adds."""
    if not {"pcie_rx"} - set(nvml.missing) or nvml._ticker is None:
        pytest.skip("no byte counters here")
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")
    nvml.read()
    begin, copied = time.monotonic(), 0
    while time.monotonic() - begin < 2.0:
        device.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        copied += host.numel()
    record = nvml.read()[torch.cuda.current_device()]
    if record.pcie_rx is None:
        pytest.skip(nvml.missing["pcie_rx"])
    assert record.pcie_rx == pytest.approx(copied / (time.monotonic() - begin), rel=0.25)


def test_what_is_measured_stays_below_the_table():
    """Within reach of the datasheet, never beyond it; nothing of torch's is changed."""
    state, precision = torch.cuda.get_rng_state(), torch.get_float32_matmul_precision()
    begin = time.monotonic()
    measured, known = measure("cuda"), peaks_of(torch.cuda.get_device_name())
    print(measured, time.monotonic() - begin)
    assert torch.equal(state, torch.cuda.get_rng_state())
    assert torch.get_float32_matmul_precision() == precision
    if known is not None and known.bf16 is not None:
        assert 0.4 * known.bf16 < measured.bf16 < 1.05 * known.bf16
    if known is not None and known.bandwidth is not None:
        assert 0.5 * known.bandwidth < measured.bandwidth < 1.05 * known.bandwidth


def test_reading_makes_no_synchronisation(nvml):
    """NVML never waits for a stream."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        nvml.read()
        nvml.models()
    finally:
        torch.cuda.set_sync_debug_mode("default")
