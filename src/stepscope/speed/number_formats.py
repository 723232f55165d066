"""Which number format an operation runs in: the name of the hardware's peak that bounds it.

number_format(torch.bfloat16, "cuda", "matmul")     # 'bf16'
number_format(torch.float32, "cuda", "matmul")      # 'tf32' where torch may use it, else 'fp32'
"""

import torch

NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}


def number_format(dtype: torch.dtype | None, device: str, kind: str = "matmul") -> str:
    """The format's name; an 8-bit float is fp8, a 4-bit one fp4."""
    if dtype is None or dtype is torch.float32:
        return "tf32" if device == "cuda" and _tf32(kind) else "fp32"
    name = str(dtype).removeprefix("torch.")
    if name.startswith("float8"):
        return "fp8"
    if name.startswith("float4"):
        return "fp4"
    return NAMES.get(dtype, name)


def _tf32(kind: str) -> bool:
    """Whether torch may compute in TF32; read where newer versions keep it, since older names raise when mixed."""
    settings = torch.backends.cudnn.conv if kind == "convolution" and hasattr(torch.backends.cudnn, "conv") else None
    settings = torch.backends.cuda.matmul if settings is None and kind != "convolution" else settings
    precision = getattr(settings, "fp32_precision", None)
    if precision not in (None, "none"):
        return bool(precision == "tf32")
    if kind == "convolution":
        return bool(torch.backends.cudnn.allow_tf32)
    return bool(torch.backends.cuda.matmul.allow_tf32)
