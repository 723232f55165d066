"""What to do about each finding; the first three of data, transfer, memory and GPU memory are *MAE profiling*'s words.

ADVICE["transfer"]      # ('Use `pin_memory=True` in DataLoader', …)
"""

_DATA = (
    "Increase `num_workers` in DataLoader",
    "Use faster data generation (pre-computed vs on-the-fly)",
    "Optimize synthetic data generation algorithms",
)
_MEMORY = (
    "Reduce batch size",
    "Use gradient accumulation instead of larger batches",
    "Enable memory-efficient training options",
)

ADVICE: dict[str, tuple[str, ...]] = {
    "data_generation": _DATA,
    "input_wait": _DATA,
    "transfer": (
        "Use `pin_memory=True` in DataLoader",
        "Increase `num_workers` for parallel data loading",
        "Use faster storage (SSD vs HDD)",
        "Move batches with `.to(device, non_blocking=True)`",
    ),
    "memory": _MEMORY,
    "gpu_memory": (
        "Reduce batch size or model size",
        "Use gradient checkpointing",
        "Enable mixed precision training (AMP)",
    ),
    "container_memory": (
        *_MEMORY,
        "Raise the container's memory limit, or lower `num_workers`: each worker holds a copy of what it touches",
    ),
    "creep": (
        "Keep numbers of a loss, not the loss: `total += loss.detach()`, for a tensor holds its whole graph",
        "Look for lists and caches that grow with every step",
    ),
    "optimizer": (
        "Use `fused=True`, or `foreach=True`, in the optimizer",
        "Accumulate gradients over more batches, so that it steps less often",
    ),
    "launch": (
        "Use `torch.compile(model)`; with `mode='reduce-overhead'` CUDA graphs launch a whole step at once",
        "Increase the batch size: the host launches as many kernels for a large batch as for a small one",
        "Look for what waits for the device in the loop: `.item()`, `print(loss)`, `.cpu()`",
    ),
    "thermal": (
        "Look at the GPU's cooling: fans, airflow, dust, and what its neighbours do",
        "Lower its power limit (`nvidia-smi -pl`) until the temperature holds: a steady clock beats a falling one",
    ),
    "power": (
        "Look at the power limit (`nvidia-smi -q -d POWER`): raise it where that is allowed",
        "Use lower precision (BF16, FP8): the same work takes less power",
    ),
    "brake": ("The server's power supply holds the GPU back: have it looked at",),
    "clocks": ("Look at the clocks that are set (`nvidia-smi -q -d CLOCK`); `nvidia-smi -rgc` and `-rac` reset them",),
    "slow_step": (
        "Look at what the loop does every so many steps: logging, `.item()`, saving, garbage collection",
        "Use `persistent_workers=True` where the slow steps begin an epoch",
    ),
    "slow_data": (
        "Use `persistent_workers=True` where the slow steps begin an epoch",
        "Increase `num_workers` or `prefetch_factor` in DataLoader, so that slow batches are made ahead",
    ),
    "evaluation": (
        "Evaluate less often, or on a part of the data",
        "Evaluate in larger batches under `torch.inference_mode()`: no gradients are held",
    ),
    "checkpoint": (
        "Save less often",
        "Save in the background: `torch.distributed.checkpoint.async_save`",
    ),
    "drift": (
        "Look for what grows with the steps: a list of losses, a graph that is kept, a log that is written anew",
        "Look at the GPU's temperature and clock over the run: a card that warms up slows down",
    ),
    "cpu_quota": ("Raise the container's CPU quota, or lower `num_workers` and `torch.set_num_threads` to fit it",),
    "speed_of_light": ("Look at the phases: `stepscope show` and `docs/diagnosis.md` say where a step's time goes",),
}
