"""Every GPU test and GPU figure on a machine that has nothing but torch and what is carried: `make gpu`.

Packages that the machine lacks are looked for in `.carry/`, unpacked wheels side by side:

    pip download --no-deps --python-version 3.12 --platform manylinux2014_x86_64 --only-binary=:all: \\
        msgspec pytest iniconfig pluggy packaging pygments psutil nvidia-ml-py
    for wheel in *.whl; do python -m zipfile -e $wheel .carry/; done

Those that are needed are msgspec and pytest; without psutil and nvidia-ml-py what they tell is left out, and said.
All of it takes some minutes: GPT-2 is compiled once for the tables that need it.
"""

import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARKS = [f"benchmarks.{name}" for name in ("gpu_log_call", "gpu_watch", "gpu_device_time", "gpu_memory")]


def main() -> int:
    """Run the tests, then print the tables."""
    sys.path[:0] = [str(ROOT / ".carry"), str(ROOT / "src"), str(ROOT)]
    import pytest
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device here: the GPU tests skip, the GPU tables stay empty")
    failed = pytest.main(["-m", "gpu", "-q", "-rs", "-p", "no:cacheprovider", str(ROOT / "tests" / "gpu")])
    if torch.cuda.is_available():
        print(f"\nmeasured on one {torch.cuda.get_device_name()}, torch {torch.__version__}")
        for name in BENCHMARKS:
            import_module(name).main()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
