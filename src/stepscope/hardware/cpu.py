"""What this machine's CPU is called.

cpu_name()     # 'AMD EPYC 9575F 64-Core Processor'
"""

import platform
from pathlib import Path


def cpu_name(root: Path = Path("/")) -> str:
    """The model, or the architecture where nothing names it."""
    try:
        for line in (root / "proc/cpuinfo").read_text(errors="replace").splitlines():
            label, _, name = line.partition(":")
            if label.strip() == "model name" and name.strip():
                return " ".join(name.split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"
