"""What devices can reach at best: the table against arithmetic, names, and what a user gives."""

import pytest

from stepscope.errors import BadType, BadValue, StepscopeError, UnknownSetting
from stepscope.hardware.peaks import FORMATS, TABLE, Peaks, peaks_of

# Multiprocessors, boost clock in MHz, dense BF16 operations a clock and multiprocessor with FP32 accumulation (FP16
# before Ampere). Where a maker prints no boost clock (H100, RTX PRO, some Ada and small ones) it follows from the FP32
# rate, so that such a row is held against its own FP32 figure: a mix-up of dense and sparse, or of half and full rate,
# is still found, a wrong clock is not.
ARITHMETIC = {
    "V100 SXM": (80, 1530, 1024),
    "V100 PCIe": (80, 1380, 1024),
    "T4": (40, 1590, 1024),
    "Quadro RTX 8000": (72, 1770, 1024),
    "Quadro RTX 6000": (72, 1770, 1024),
    "RTX 2080 Ti": (68, 1545, 512),
    "A100": (108, 1410, 2048),
    "A100 40GB": (108, 1410, 2048),
    "A100 SXM 80GB": (108, 1410, 2048),
    "A100 PCIe 80GB": (108, 1410, 2048),
    "A30": (56, 1440, 2048),
    "A40": (84, 1740, 1024),
    "A10": (72, 1695, 1024),
    "A10G": (80, 1710, 512),
    "A2": (10, 1770, 1024),
    "RTX A6000": (84, 1800, 1024),
    "RTX A5500": (80, 1665, 1024),
    "RTX A5000": (64, 1695, 1024),
    "RTX A4500": (56, 1650, 1024),
    "RTX A4000": (48, 1560, 1024),
    "RTX A2000": (26, 1200, 1024),
    "RTX 3090 Ti": (84, 1860, 512),
    "RTX 3090": (82, 1695, 512),
    "RTX 3080 Ti": (80, 1665, 512),
    "RTX 3080": (68, 1710, 512),
    "RTX 3070 Ti": (48, 1770, 512),
    "RTX 3070": (46, 1725, 512),
    "RTX 3060 Ti": (38, 1665, 512),
    "RTX 3060": (28, 1777, 512),
    "L4": (58, 2040, 1024),
    "L40": (142, 2490, 512),
    "L40S": (142, 2520, 1024),
    "L20": (92, 2520, 512),
    "RTX 6000 Ada": (142, 2505, 1024),
    "RTX 5880 Ada": (110, 2460, 1024),
    "RTX 5000 Ada": (100, 2550, 1024),
    "RTX 4500 Ada": (60, 2580, 1024),
    "RTX 4000 Ada": (48, 2175, 1024),
    "RTX 2000 Ada": (22, 2130, 1024),
    "RTX 4090": (128, 2520, 512),
    "RTX 4080 SUPER": (80, 2550, 512),
    "RTX 4080": (76, 2505, 512),
    "RTX 4070 Ti SUPER": (66, 2610, 512),
    "RTX 4070 Ti": (60, 2610, 512),
    "RTX 4070 SUPER": (56, 2475, 512),
    "RTX 4070": (46, 2475, 512),
    "RTX 4070 Laptop": (36, 2175, 512),
    "RTX 4060 Ti": (34, 2535, 512),
    "RTX 4060": (24, 2460, 512),
    "H100 SXM": (132, 1830, 4096),
    "H100 PCIe": (114, 1620, 4096),
    "H200": (132, 1830, 4096),
    "RTX 5090": (170, 2407, 512),
    "RTX 5080": (84, 2617, 512),
    "RTX 5070 Ti": (70, 2452, 512),
    "RTX 5070": (48, 2512, 512),
    "RTX 5060 Ti": (36, 2572, 512),
    "RTX 5060": (30, 2497, 512),
    "RTX PRO 6000 Blackwell Workstation": (188, 2617, 1024),
    "RTX PRO 6000 Blackwell MaxQ": (188, 2280, 1024),
}
ROWS = {row.peaks.name: row.peaks for row in TABLE}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_a_peak_is_multiprocessors_times_clock_times_width(name):
    """The dense figure, within what a datasheet rounds: a figure with sparsity would be twice as much."""
    multiprocessors, clock, operations = ARITHMETIC[name]
    peaks = ROWS[name]
    reached = peaks.bf16 if peaks.bf16 is not None else peaks.fp16
    assert reached == pytest.approx(multiprocessors * clock * 1e6 * operations / 1e12, rel=0.02)


@pytest.mark.parametrize("peaks", ROWS.values(), ids=lambda peaks: peaks.name)
def test_a_row_holds_together(peaks):
    """Each narrower format doubles the rate, FP32 is slowest, and the source is named."""
    assert peaks.source
    assert peaks.bf16 in (None, peaks.fp16)
    if peaks.bf16 is not None:
        assert peaks.tf32 == pytest.approx(peaks.bf16 / 2, rel=0.02)
    if peaks.fp8 is not None:
        assert peaks.fp8 == pytest.approx(2 * peaks.bf16, rel=0.02)
    if peaks.fp4 is not None:
        assert 1.9 * peaks.fp8 < peaks.fp4 < 4.1 * peaks.fp8
    assert peaks.fp32 < peaks.fp16
    assert peaks.bandwidth is None or 100 < peaks.bandwidth < 10_000


NAMES = {
    "NVIDIA H100 80GB HBM3": 989.4,
    "H100-SXM5": 989.4,
    "h100 sxm": 989.4,
    "NVIDIA H100 PCIe": 756,
    "NVIDIA H100 NVL": 835.5,
    "NVIDIA H200": 989.4,
    "NVIDIA H200 NVL": 835.5,
    "NVIDIA GH200 480GB": 989.4,
    "NVIDIA GH200 144G HBM3e": 989.4,
    "NVIDIA H20": 148,
    "NVIDIA H800": 989.4,
    "NVIDIA H800 PCIe": 756,
    "NVIDIA B200": 2250,
    "NVIDIA GB200": 2500,
    "NVIDIA B300 SXM6 AC": 2250,
    "nvidia a100-sxm4-40gb": 312,
    "A100-SXM4-80GB": 312,
    "NVIDIA A100 80GB PCIe": 312,
    "NVIDIA A100-PCIE-40GB": 312,
    "A100_80G": 312,
    "NVIDIA A800-SXM4-80GB": 312,
    "NVIDIA A10": 125,
    "NVIDIA A10G": 70,
    "NVIDIA L4": 121,
    "NVIDIA L40": 181,
    "NVIDIA L40S": 362.1,
    "NVIDIA GeForce RTX 4070": 58.3,
    "NVIDIA GeForce RTX 4070 Ti": 80.2,
    "NVIDIA GeForce RTX 4070 Ti SUPER": 88.2,
    "NVIDIA GeForce RTX 4070 SUPER": 71,
    "NVIDIA GeForce RTX 4070 Laptop GPU": 40.1,
    "rtx4090": 165.2,
    "RTX3090Ti": 80,
    "NVIDIA GeForce RTX 5090": 209.5,
    "NVIDIA RTX A6000": 154.8,
    "NVIDIA RTX 6000 Ada Generation": 364.2,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 503.8,
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": 503.8,
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": 438.9,
    "NVIDIA GB10": 59.4,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_is_known_by_its_drivers_name_and_by_what_people_write(name):
    """The same row, however the words are joined."""
    assert peaks_of(name).bf16 == NAMES[name]


@pytest.mark.parametrize(
    ("name", "fp16"), [("Tesla V100-SXM2-32GB", 125), ("Tesla V100-PCIE-16GB", 112), ("Tesla T4", 65)]
)
def test_older_gpus_have_no_bf16(name, fp16):
    """What the hardware cannot do is None, not the rate of something else."""
    peaks = peaks_of(name)
    assert (peaks.fp16, peaks.bf16, peaks.tf32, peaks.fp8) == (fp16, None, None, None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "H100",  # three GPUs of different speed go by this
        "RTX 6000",  # so do two
        "NVIDIA",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA L4000",
        "NVIDIA T4G",
        "NVIDIA GeForce GTX 1080",
        "AMD Instinct MI300X",
        "Apple M3 Max",
        "B2000",
        "❄",
    ],
)
def test_an_unknown_gpu_is_unknown(name):
    """No name is near enough to be taken for another."""
    assert peaks_of(name) is None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.peaks.name)
def test_every_row_is_found_by_its_own_name(row):
    """No row hides another, and the driver's prefixes change nothing."""
    assert peaks_of(row.peaks.name) == row.peaks
    assert peaks_of(f"NVIDIA {row.peaks.name}".upper()) == row.peaks


def test_the_table_is_large_enough():
    """One row a GPU; variants of different speed have one each."""
    assert len(TABLE) == len(ROWS) >= 70


def test_the_user_knows_better():
    """What is given replaces the table's figure, the rest stays, and the source says so."""
    peaks = peaks_of("NVIDIA H200", override={"bf16": 785})
    assert (peaks.bf16, peaks.fp8, peaks.bandwidth) == (785.0, 1978.9, 4800)
    assert peaks.source == "given; else H200 datasheet"


def test_the_user_may_give_an_unknown_gpu():
    """Nothing but what is given is known of it."""
    assert peaks_of("Tesla K80", override={"fp32": 8.7}) == Peaks("Tesla K80", fp32=8.7, source="given")
    assert peaks_of("Tesla K80", override={}) is None


def test_the_user_may_give_several_gpus_by_name():
    """The entry whose name is this GPU's counts, however it is written."""
    override = {"h100-sxm5": {"bf16": 700}, "NVIDIA L40": {"bf16": 170}}
    assert peaks_of("NVIDIA L40", override).bf16 == 170
    assert peaks_of("NVIDIA L4", override).bf16 == 121
    assert peaks_of("H100 SXM", override).bf16 == 700


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ({"bf61": 1}, UnknownSetting),
        ({"bf16": "fast"}, BadType),
        ({"bf16": True}, BadType),
        ({"bf16": 0}, BadValue),
        ({"bf16": -5.0}, BadValue),
        ({"bandwidth": float("nan")}, BadValue),
        ({"NVIDIA H200": {"bf61": 1}}, UnknownSetting),
    ],
    ids=str,
)
def test_a_wrong_peak_is_refused(override, error):
    """The message names the value, and the nearest name."""
    with pytest.raises(error) as caught:
        peaks_of("NVIDIA H200", override)
    assert isinstance(caught.value, StepscopeError)
    assert "bf" in str(caught.value) or "bandwidth" in str(caught.value)


def test_every_format_has_a_column():
    """The formats of the table are the fields of the peaks."""
    assert set(FORMATS) < set(Peaks.__dataclass_fields__)
