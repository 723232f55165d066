"""From where on something is worth saying: the thresholds of all rules.

    verdicts(case, Limits(data_generation=0.2))      # stricter about the wait for data

The first four are those of *MAE profiling*; each of the others says why it is what it is.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds; shares are of one."""

    data_generation: float = 0.30
    """Wait in `next(loader)`, of a step's time."""
    memory: float = 0.85
    """RAM in use."""
    gpu_memory: float = 0.90
    """Memory that tensors hold, of a GPU's."""
    transfer: float = 0.10
    """Time to move a batch to the device, of a step's."""

    steps: int = 8
    """Fewer steps after the warm-up say nothing."""
    worth_ms: float = 0.1
    """Less than that a step is no bottleneck; a good fetch in the loop's own process takes as much."""
    handover_ms: float = 0.4
    """A shorter wait is no bottleneck: taking a batch of 128 kB from a worker was measured at 0.3 to 0.5 ms."""
    transfer_left: float = 0.02
    """What a pinned transfer still takes of a step: it cannot be saved."""
    input_wait: float = 0.15
    """Time that the device waits for a batch; a fetch of a tenth of a short step is healthy."""
    optimizer: float = 0.20
    """The update is one pass over the parameters: a fused one takes some 5 % of a step, so 20 % is four times that."""
    optimizer_left: float = 0.05
    """What a fused update still takes."""
    device_idle: float = 0.50
    """Share of the phases at whose end the device had run dry: from half on, the host sets the pace."""
    input_small: float = 0.10
    """A device that waits longer than that for its batches is not idle because of launches."""
    outside: float = 0.10
    """Evaluation, pictures or checkpoints, of the wall time."""
    throttled: float = 0.10
    """Share of the readings in which the clock was held back."""
    clock: float = 0.80
    """Of the highest clock: busy GPUs at their power limit run at about that."""
    busy: float = 50.0
    """Percent of the time with a kernel: an idle GPU clocks down, and may."""
    readings: int = 3
    """Fewer readings of a GPU say nothing."""
    cpu_quota: float = 0.05
    """Share of periods in which a container's CPU quota ran out."""
    drift: float = 0.10
    """Growth of the step time over the run."""
    drift_steps: int = 200
    """Over as many steps at least."""
    slow_factor: float = 1.5
    """A slow step takes so many times the steps around it."""
    slow_cost: float = 0.05
    """What slow steps that come in a fixed rhythm cost, of all time."""
    slow_cost_irregular: float = 0.10
    """The same where they do not: a shared machine has some."""
    creep: float = 0.05
    """Growth of the memory that is still held at the end of a step."""
    creep_bytes: int = 16 << 20
    """And at least as much: allocators and interpreters move by some megabytes."""
    creep_steps: int = 100
    """Over as many steps at least."""
    speed_of_light: float = 60.0
    """Percent of what the hardware could reach; sustained below it, something holds the run back."""
    excellent: float = 80.0
    """And from here on it is called excellent."""
