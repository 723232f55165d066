"""The speed of light: theoretical time, throughput, and how near a step comes, worked by hand."""

import pytest
import torch

from stepscope.hardware.peaks import peaks_of
from stepscope.records import SpeedOfLight
from stepscope.sinks import text
from stepscope.speed.flop_groups import Flops
from stepscope.speed.number_formats import number_format
from stepscope.speed.speed_of_light import estimate, hfu, mfu, percent


class Table:
    """The dense peaks of a made-up GPU."""

    def __init__(self, **peaks):
        self.name, self.source, self.bandwidth = "GPU", "datasheet", 4800.0
        for name in ("tf32", "bf16", "fp16", "fp8", "fp4", "fp32"):
            setattr(self, name, peaks.get(name))


FLOPS = Flops(
    unit="token",
    units=4096,
    blocks=6e9,
    lm_head=2e9,
    attention=1e9,
    attention_dense=2e9,
    recompute=3e9,
    by_dtype={"blocks": {"bf16": 6e9}, "lm_head": {"tf32": 2e9}, "attention": {"bf16": 1e9}},
)
PEAKS = Table(tf32=500.0, bf16=1000.0, fp8=2000.0)
SECONDS = 7e9 / 1000e12 + 2e9 / 500e12


def test_each_group_takes_its_format_s_time():
    """7 GFLOP at 1000 TFLOP/s and 2 GFLOP at 500 are 11 µs a token, 90,909 tokens a second."""
    record = estimate(FLOPS, PEAKS, "GPU")
    assert record.seconds == pytest.approx(11e-6) == pytest.approx(SECONDS)
    assert record.tps == pytest.approx(1 / 11e-6)
    assert (record.blocks, record.lm_head, record.attention) == (6_000_000_000, 2_000_000_000, 1_000_000_000)
    assert (record.tf32_peak, record.bf16_peak, record.fp8_peak, record.fp16_peak) == (500.0, 1000.0, 2000.0, None)
    assert (record.dtype, record.per, record.device, record.gpus, record.source) == (
        "bf16",
        "token",
        "GPU",
        1,
        "counted",
    )
    assert (record.model_flop, record.hardware_flop) == (10_000_000_000, 13_000_000_000)


def test_gpus_share_the_work():
    """Eight GPUs reach eight times the throughput."""
    assert estimate(FLOPS, PEAKS, "GPU", gpus=8).tps == pytest.approx(8 / 11e-6)


def test_a_step_s_share_is_theoretical_over_actual_time():
    """4096 tokens need 45 ms; a step of 90 ms is at 50 %."""
    record = estimate(FLOPS, PEAKS, "GPU")
    assert percent(record, 4096, 2 * 4096 * 0.011) == pytest.approx(50.0)
    assert percent(record, 4096, 4096 * 0.011) == pytest.approx(100 * 4096 / (4096 * 11e-6) / record.tps)


def test_utilisation_of_model_and_hardware_are_two_numbers():
    """Against the main format's peak: 10 GFLOP a token without repetition, 13 with."""
    record = estimate(FLOPS, PEAKS, "GPU", gpus=2)
    assert mfu(record, 100, 1.0) == pytest.approx(100 * 10e9 * 100 / (1e-3 * 1000e12 * 2))
    assert hfu(record, 100, 1.0) == pytest.approx(100 * 13e9 * 100 / (1e-3 * 1000e12 * 2))


@pytest.mark.parametrize("duration", [None, 0, -1.0, float("nan"), float("inf")])
def test_a_duration_that_is_none_gives_no_share(duration):
    """Never 0 %, never infinite."""
    record = estimate(FLOPS, PEAKS, "GPU")
    assert percent(record, 10, duration) is mfu(record, 10, duration) is hfu(record, 10, duration) is None


@pytest.mark.parametrize("peaks", [None, Table(), Table(bf16=1000.0)])
def test_an_unknown_peak_leaves_the_operations(peaks):
    """Without one of the peaks that are needed there is no time, and no throughput; the operations are known."""
    record = estimate(FLOPS, peaks, "unheard of")
    assert (record.seconds, record.tps, record.blocks) == (None, None, 6_000_000_000)
    assert percent(record, 10, 1.0) is None


def test_unknown_attention_leaves_the_rest():
    """A mask that is not known: no time, the other groups stand."""
    flops = Flops(
        unit="token", units=1, blocks=6e9, attention=None, attention_dense=2e9, by_dtype={"blocks": {"bf16": 6e9}}
    )
    record = estimate(flops, PEAKS, "GPU")
    assert (record.attention, record.seconds, record.model_flop) == (None, None, 8_000_000_000)


def test_a_gpu_without_tf32_computes_in_fp32():
    """TF32 may be allowed on a GPU that has none."""
    flops = Flops(unit="sample", units=1, other=1e9, by_dtype={"other": {"tf32": 1e9}})
    assert estimate(flops, Table(fp32=10.0), "V100").seconds == pytest.approx(1e9 / 10e12)


def test_the_format_of_a_matmul_is_what_it_runs_in():
    """FP32 on a CPU is FP32; on CUDA it is TF32 where torch is told so."""
    assert number_format(torch.float32, "cpu") == "fp32"
    assert number_format(torch.bfloat16, "cuda") == "bf16"
    assert number_format(torch.float8_e4m3fn, "cuda") == "fp8"
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        assert number_format(torch.float32, "cuda") == "fp32"
        torch.set_float32_matmul_precision("high")
        assert number_format(torch.float32, "cuda") == "tf32"
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_record_prints_as_the_block():
    """The console's block of an estimate."""
    assert list(text.speed_of_light(estimate(FLOPS, PEAKS, "GPU"))) == [
        "[Speed of Light]",
        "  Peak BF16:   1000.0 TFLOP/s",
        "  Blocks:         6.0 GFLOP   in bf16",
        "  LM-Head:        2.0 GFLOP   in bf16",
        "  Attention:      1.0 GFLOP   in bf16",
        "  SOL:           90909 tok/s",
    ]


def test_the_record_goes_through_the_file():
    """Every field is one that the file holds."""
    record = estimate(FLOPS, PEAKS, "GPU")
    assert isinstance(record, SpeedOfLight)
    assert record.step == 0


def test_the_table_of_peaks_is_understood():
    """GPT-2 124M with 1024 tokens in BF16 on an H200: the block of the documentation."""
    spent = {"blocks": 509607936, "lm_head": 231800832, "attention": 56678400}
    formats = {group: {"bf16": flop} for group, flop in spent.items()}
    peaks = peaks_of("NVIDIA H200")
    record = estimate(Flops(unit="token", units=32768, by_dtype=formats, **spent), peaks, peaks.name)
    assert record.tps == pytest.approx(peaks.bf16 * 1e12 / 798_087_168)
    assert record.bandwidth == peaks.bandwidth
