"""The machine under a run: its GPUs, its host, and what they could reach at best.

    from stepscope.hardware.nvml import Nvml
    from stepscope.hardware.system import SystemReader
    from stepscope.hardware.peaks import peaks_of
    Nvml.open().read()                                # [Gpu(id=0, clock=1980, power=612000, throttle="", …)]
    SystemReader().read()                             # System(cpu_percent=34.5, ram_percent=61.2, …)
    peaks_of("NVIDIA H100 80GB HBM3").bf16            # 989.4

Another vendor's devices would be one more module with a `read()` that returns records.
"""
