"""Peaks that are measured: the arithmetic on a scripted clock, no traces left, the file that remembers."""

import json

import pytest

torch = pytest.importorskip("torch")

from stepscope.hardware import measured_peaks  # noqa: E402
from stepscope.hardware.cpu import cpu_name  # noqa: E402
from stepscope.hardware.cpu_peaks import RUNS, cache_file, cpu_peaks  # noqa: E402
from stepscope.hardware.measured_peaks import measure  # noqa: E402
from stepscope.hardware.peaks import Peaks  # noqa: E402


class Machine:
    """A CPU of a given speed: its products move a clock on, and count how large they were."""

    def __init__(self, monkeypatch, tflops, busy=1.0):
        self.now, self.sizes, self.flops = 0.0, set(), tflops * 1e12
        monkeypatch.setattr(measured_peaks, "_random", lambda count, size, *_: [Matrix(self, size)] * count)
        monkeypatch.setattr(measured_peaks.time, "perf_counter", lambda: self.now)
        threads = torch.get_num_threads()
        monkeypatch.setattr(measured_peaks.time, "process_time", lambda: self.now * threads * busy)


class Matrix:
    """A matrix of that machine."""

    def __init__(self, machine, size):
        self.machine, self.size = machine, size

    def __matmul__(self, other):
        self.machine.sizes.add(self.size)
        self.machine.now += 2 * self.size**3 / self.machine.flops


@pytest.mark.parametrize("tflops", [1e-3, 0.05, 10.0])
def test_the_rate_is_operations_by_time(monkeypatch, tflops):
    """2 n³ operations in the time that they take; products grow with the machine, the time that all take does not."""
    machine = Machine(monkeypatch, tflops)
    peaks = measure("cpu")
    assert peaks.fp32 == pytest.approx(tflops, rel=1e-6)
    assert peaks.bf16 == pytest.approx(tflops, rel=1e-6)
    assert machine.now < 0.3
    assert max(machine.sizes) == {1e-3: 256, 0.05: 512, 10.0: 4096}[tflops]


def test_a_busy_machine_has_no_figure(monkeypatch):
    """Where the threads had half of their cores at best, what was reached is no peak."""
    Machine(monkeypatch, 0.05, busy=0.5)
    assert (measure("cpu").fp32, measure("cpu").bf16) == (None, None)


def test_this_cpu_is_measured_and_nothing_of_torchs_is_changed():
    """Random numbers, threads, gradients and precision are what they were."""
    torch.manual_seed(7)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    with torch.autocast("cpu"):
        peaks = measure("cpu")
        assert torch.is_autocast_enabled("cpu")
    assert torch.equal(state, torch.get_rng_state())
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (threads, precision)
    assert torch.is_grad_enabled()
    assert peaks.fp32 is None or peaks.fp32 > 1e-4  # None on a machine that is busy just now
    assert peaks.name == f"{cpu_name()}, {threads} threads"
    assert (peaks.source, peaks.fp8, peaks.bandwidth) == ("measured", None, None)


def scripted(*rates):
    """A measurement that gives these FP32 rates one after the other, and counts."""
    left = iter(rates)
    return lambda device: Peaks("cpu", fp32=next(left), bf16=0.5, source="measured")


def test_the_best_of_the_first_runs_is_kept(tmp_path):
    """A machine that was busy at first is not slow for ever; after that nothing is measured."""
    cache, measured = tmp_path / "deep/peaks.json", scripted(0.001, 0.2, 0.15)
    assert [cpu_peaks(cache, measured).fp32 for _ in range(RUNS)] == [0.001, 0.2, 0.2]
    assert cpu_peaks(cache, measured).fp32 == 0.2


def test_a_run_without_a_figure_does_not_count(tmp_path):
    """A busy machine is measured again in the next run."""
    cache, measured = tmp_path / "peaks.json", scripted(None, 0.2, None, 0.1, 0.1)
    assert [cpu_peaks(cache, measured).fp32 for _ in range(5)] == [None, 0.2, 0.2, 0.2, 0.2]
    assert cpu_peaks(cache, scripted()).fp32 == 0.2


def test_another_number_of_threads_is_another_figure(tmp_path, monkeypatch):
    """Two threads reach what one does not."""
    cache = tmp_path / "peaks.json"
    for _ in range(RUNS):
        cpu_peaks(cache, scripted(0.2))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 999)
    assert cpu_peaks(cache, scripted(0.9)).fp32 == 0.9
    assert len(json.loads(cache.read_text())) == 2


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"KEY": 3}', '{"KEY": {"runs": 3}}', '{"KEY": {"runs": 3, "peaks": {"fp32": 1}}}'],
)
def test_a_file_that_makes_no_sense_is_measured_anew(tmp_path, content):
    """Whatever stands there, and it is mended."""
    cache = tmp_path / "peaks.json"
    cache.write_text(content.replace("KEY", f"{cpu_name()}, {torch.get_num_threads()} threads"))
    assert cpu_peaks(cache, scripted(0.25)).fp32 == 0.25
    assert 0.25 in [entry["peaks"]["fp32"] for entry in json.loads(cache.read_text()).values()]


@pytest.mark.parametrize("number", ["Infinity", "NaN", "-1.0", "0.0", '"fast"'])
def test_a_figure_that_makes_no_sense_is_measured_anew(tmp_path, number):
    """No peak is zero, infinite or text."""
    cache, key = tmp_path / "peaks.json", f"{cpu_name()}, {torch.get_num_threads()} threads"
    cache.write_text(f'{{"{key}": {{"runs": 3, "peaks": {{"name": "x", "fp32": {number}}}}}}}')
    assert cpu_peaks(cache, scripted(0.25)).fp32 == 0.25


def test_a_file_that_cannot_be_written_costs_nothing_but_time(tmp_path):
    """A read-only home is not an error."""
    (tmp_path / "file").write_text("")
    assert cpu_peaks(tmp_path / "file" / "peaks.json", scripted(0.25)).fp32 == 0.25


def test_the_file_lies_where_caches_lie(monkeypatch, tmp_path):
    """In the user's own folder for such things; a user without a home has one all the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_file() == tmp_path / "stepscope" / "peaks.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert cache_file().is_absolute()


def test_the_cpu_has_a_name(tmp_path):
    """The kernel's model name, or the architecture."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nmodel name\t: Some  CPU @ 3GHz\n")
    assert cpu_name(tmp_path) == "Some CPU @ 3GHz"
    assert cpu_name(tmp_path / "nowhere")
