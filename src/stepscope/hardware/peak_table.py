"""What GPUs can reach at best by their makers' datasheets: dense TFLOP/s by number format, memory bandwidth in GB/s.

    TABLE[0]        # Row(peaks=Peaks(name="B300", bf16=2250.0, …), needs=[{"b300"}], may={"sxm", …})

Tensor cores accumulate in FP32, as training does. Datasheets often print the figure "with sparsity": that is twice
the dense one. Where a datasheet has no figure, it is multiprocessors × boost clock × operations a clock, and the
source says "derived". `needs` are words that a name must have, `may` those that it may have beside them.
"""

from typing import NamedTuple

from .peak import Peaks


class Row(NamedTuple):
    """A GPU, and the names by which it goes."""

    peaks: Peaks
    needs: list[set[str]]  # any of them
    may: set[str]


def _row(
    names: str,
    may: str,
    source: str,
    bf16: float | None,
    bandwidth: float | None,
    fp32: float | None,
    fp8: float | None = None,
    fp4: float | None = None,
    tf32: float | None = None,
    fp16: float | None = None,
) -> Row:
    """`names` are separated by bars, the first is the one that is shown; TF32 runs at half the rate of BF16."""
    shown, *others = names.split("|")
    needs = [set(name.lower().split()) for name in [shown, *others]]
    tf32 = tf32 if tf32 is not None or bf16 is None else bf16 / 2
    peaks = Peaks(shown, tf32, bf16, fp16 if fp16 is not None else bf16, fp8, fp4, fp32, bandwidth, source)
    return Row(peaks, needs, set(may.split()))


# names, further words, source, then: BF16, bandwidth, FP32 without tensor cores, FP8, FP4
BLACKWELL = [
    _row("GB300", "", "GB300 NVL72 datasheet, per GPU", 2500, 8000, 80, 5000, 15000),
    _row("B300", "sxm ac 288gb hbm3e", "HGX B300 datasheet", 2250, 8000, 75, 4500, 13500),
    _row("GB200", "186gb 192gb hbm3e", "GB200 NVL72 datasheet, per GPU", 2500, 8000, 80, 5000, 10000),
    _row("B200", "sxm 180gb 192gb hbm3e", "DGX B200 datasheet", 2250, 8000, 75, 4500, 9000),
    _row("GB10", "", "derived, at GeForce's rate", 59.4, 273, 29.7, 118.8, 475.4),
    _row("RTX PRO 6000 Blackwell Server", "96gb", "RTX Blackwell PRO whitepaper", 503.8, 1597, 120, 1007.6, 2015.2),
    _row(
        "RTX PRO 6000 Blackwell Workstation", "96gb", "RTX Blackwell PRO whitepaper", 503.8, 1792, 125, 1007.6, 2015.2
    ),
    _row(
        "RTX PRO 6000 Blackwell MaxQ",
        "workstation 96gb",
        "RTX Blackwell PRO whitepaper",
        438.9,
        1792,
        110,
        877.8,
        1755.7,
    ),
    _row("RTX 5090", "32gb", "RTX Blackwell whitepaper", 209.5, 1792, 104.8, 419, 1676),
    _row("RTX 5080", "16gb", "RTX Blackwell whitepaper", 112.6, 960, 56.3, 225.1, 900.4),
    _row("RTX 5070 Ti", "16gb", "RTX Blackwell whitepaper", 87.9, 896, 43.9, 175.8, 703),
    _row("RTX 5070", "12gb", "RTX Blackwell whitepaper", 61.7, 672, 30.9, 123.5, 493.9),
    _row("RTX 5060 Ti", "8gb 16gb", "derived", 47.4, 448, 23.7, 94.8, 379.2),
    _row("RTX 5060", "8gb", "derived", 38.3, 448, 19.2, 76.7, 306.8),
]

HOPPER = [
    _row("GH200 480GB", "hbm3 96gb", "GH200 datasheet", 989.4, 4000, 67, 1978.9),
    _row("GH200 144GB|GH200 144G", "hbm3e", "GH200 datasheet", 989.4, 4900, 67, 1978.9),
    _row("H200 NVL", "141gb hbm3e", "H200 datasheet", 835.5, 4800, 60, 1671),
    _row("H200", "sxm 141gb hbm3e", "H200 datasheet", 989.4, 4800, 66.9, 1978.9),
    _row("H100 SXM|H100 HBM3", "sxm hbm3 80gb", "H100 datasheet", 989.4, 3350, 66.9, 1978.9),
    _row("H100 NVL", "94gb hbm3", "H100 datasheet", 835.5, 3938, 60, 1671),
    _row("H100 PCIe", "80gb hbm2e", "H100 datasheet", 756, 2039, 51.2, 1513),
    _row("H800 PCIe", "80gb hbm2e", "H800 datasheet", 756, 2039, 51.2, 1513),
    _row("H800", "sxm 80gb hbm3", "H800 datasheet", 989.4, 3350, 66.9, 1978.9),
    _row("H20", "96gb hbm3", "H20 datasheet", 148, 4000, 44, 296),
]

ADA = [
    _row("L40S", "48gb", "L40S datasheet", 362.1, 864, 91.6, 733, tf32=183),
    _row("L40", "48gb", "L40 datasheet", 181, 864, 90.5, 362),
    _row("L20", "48gb", "L20 datasheet", 119.5, 864, 59.8, 239),
    _row("L4", "24gb", "L4 datasheet", 121, 300, 30.3, 242.5),
    _row("RTX 6000 Ada", "48gb", "RTX 6000 Ada datasheet", 364.2, 960, 91.1, 728.5),
    _row("RTX 5880 Ada", "48gb", "RTX 5880 Ada datasheet", 277.1, 960, 69.3, 554.2),
    _row("RTX 5000 Ada", "32gb", "RTX 5000 Ada datasheet", 261.1, 576, 65.3, 522.2),
    _row("RTX 4500 Ada", "24gb", "RTX 4500 Ada datasheet", 158.5, 432, 39.6, 317),
    _row("RTX 4000 Ada", "20gb", "RTX 4000 Ada datasheet", 106.9, 360, 26.7, 213.8),
    _row("RTX 2000 Ada", "16gb", "RTX 2000 Ada datasheet", 48, 224, 12, 96),
    _row("RTX 4090", "24gb", "Ada whitepaper", 165.2, 1008, 82.6, 330.3),
    _row("RTX 4080 SUPER", "16gb", "derived", 104.4, 736, 52.2, 208.9),
    _row("RTX 4080", "16gb", "Ada whitepaper", 97.5, 717, 48.7, 194.9),
    _row("RTX 4070 Ti SUPER", "16gb", "derived", 88.2, 672, 44.1, 176.4),
    _row("RTX 4070 Ti", "12gb", "Ada whitepaper", 80.2, 504, 40.1, 160.4),
    _row("RTX 4070 SUPER", "12gb", "derived", 71, 504, 35.5, 141.9),
    _row("RTX 4070 Laptop", "8gb", "derived", 40.1, 256, 20, 80.2),
    _row("RTX 4070", "12gb", "Ada whitepaper", 58.3, 504, 29.1, 116.6),
    _row("RTX 4060 Ti", "8gb 16gb", "derived", 44.1, 288, 22.1, 88.2),
    _row("RTX 4060", "8gb", "derived", 30.2, 272, 15.1, 60.4),
]

AMPERE = [
    _row("A100 SXM 80GB", "", "A100 datasheet", 312, 2039, 19.5),
    _row("A100 PCIe 80GB", "", "A100 datasheet", 312, 1935, 19.5),
    _row("A100 40GB", "sxm pcie", "A100 datasheet", 312, 1555, 19.5),
    _row("A100", "sxm pcie 80gb", "A100 datasheet", 312, None, 19.5),
    _row("A800 SXM 80GB", "", "A800 datasheet", 312, 2039, 19.5),
    _row("A800 PCIe 80GB", "", "A800 datasheet", 312, 1935, 19.5),
    _row("A800", "sxm pcie 80gb", "A800 datasheet", 312, None, 19.5),
    _row("A40", "48gb", "A40 datasheet", 149.7, 696, 37.4),
    _row("A30", "24gb", "A30 datasheet", 165, 933, 10.3),
    _row("A10G", "24gb", "A10G datasheet", 70, 600, 35),
    _row("A10", "24gb", "A10 datasheet", 125, 600, 31.2),
    _row("A2", "16gb", "A2 datasheet", 18, 200, 4.5),
    _row("RTX A6000", "48gb", "RTX A6000 datasheet", 154.8, 768, 38.7),
    _row("RTX A5500", "24gb", "RTX A5500 datasheet", 136.4, 768, 34.1),
    _row("RTX A5000", "24gb", "RTX A5000 datasheet", 111.1, 768, 27.8),
    _row("RTX A4500", "20gb", "RTX A4500 datasheet", 94.6, 640, 23.7),
    _row("RTX A4000", "16gb", "RTX A4000 datasheet", 76.7, 448, 19.2),
    _row("RTX A2000", "6gb 12gb", "RTX A2000 datasheet", 31.9, 288, 8),
    _row("RTX 3090 Ti", "24gb", "Ampere whitepaper", 80, 1008, 40),
    _row("RTX 3090", "24gb", "Ampere whitepaper", 71, 936, 35.6),
    _row("RTX 3080 Ti", "12gb", "Ampere whitepaper", 68.2, 912, 34.1),
    _row("RTX 3080", "10gb", "Ampere whitepaper", 59.5, 760, 29.8),
    _row("RTX 3070 Ti", "8gb", "Ampere whitepaper", 43.5, 608, 21.7),
    _row("RTX 3070", "8gb", "Ampere whitepaper", 40.6, 448, 20.3),
    _row("RTX 3060 Ti", "8gb", "derived", 32.4, 448, 16.2),
    _row("RTX 3060", "12gb", "derived", 25.5, 360, 12.7),
]

# no BF16 and no TF32
BEFORE = [
    _row("V100 SXM", "16gb 32gb", "V100 datasheet", None, 900, 15.7, fp16=125),
    _row("V100 PCIe", "16gb 32gb", "V100 datasheet", None, 900, 14, fp16=112),
    _row("T4", "16gb", "T4 datasheet", None, 320, 8.1, fp16=65),
    _row("Quadro RTX 8000", "48gb", "Turing whitepaper", None, 672, 16.3, fp16=130.5),
    _row("Quadro RTX 6000", "24gb", "Turing whitepaper", None, 672, 16.3, fp16=130.5),
    _row("RTX 2080 Ti", "11gb", "Turing whitepaper", None, 616, 13.4, fp16=53.8),
]

TABLE: tuple[Row, ...] = (*BLACKWELL, *HOPPER, *ADA, *AMPERE, *BEFORE)
