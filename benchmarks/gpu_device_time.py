"""Whether a phase's device time is right: against torch.profiler, from its first kernel's start to its last one's end.

    python -m benchmarks.gpu_device_time

The same steps of GPT-2 124M are watched and profiled at once. A kernel belongs to the phase in which the host has
launched it, whatever thread that was: the profiler's own mark on the device leaves out what autograd's thread
launches. Phases below a millisecond are left out; they are mostly the distance between two kernels.
"""

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .report import fresh_folder, options, table, verdict

BAR = 0.03
LEAST_MS = 1.0
FIRST, STEPS = 4, 10
MARK = "phase:"  # before the names of our own marks in the trace
ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
LAUNCHES = {"cuda_runtime", "cuda_driver"}


class Span(NamedTuple):
    """A phase on the host, in the trace's microseconds."""

    step: int
    name: str
    begin: float
    end: float


def main() -> None:
    """Print the table, or say that there is no device."""
    asked = options(__doc__)
    import torch

    if not torch.cuda.is_available():
        print("gpu_device_time: no CUDA device here; not measured")
        return
    measure(3 if asked.quick else STEPS)


def measure(steps: int) -> None:
    """The table."""
    folder = fresh_folder("gpu_device_time")
    ours, trace = profiled(folder, steps)
    theirs = kernel_times(trace)
    print("\nDevice time of a phase beside torch.profiler's kernels, GPT-2 124M, compiled\n")
    head = ["phase", "stepscope ms", "profiler ms", "median difference", "largest", "steps", "bar", ""]
    print(table(head, rows(ours, theirs)))


def profiled(folder: Path, steps: int) -> tuple[dict[tuple[int, str], float], list[dict[str, Any]]]:
    """What stepscope says of each step and phase, and the trace of the same steps."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import stepscope

    from .gpt2 import gpt2

    training, parts = gpt2(), gpt2().parts()
    with stepscope.TrainingRunLogger(folder / "training.json", verbosity=-2) as run:
        scope = stepscope.watch(training.model, training.optimizer, run, card=False)
        loop = enumerate(scope.loader(training.batches(FIRST + steps)), 1)

        def step() -> None:
            number, training.host = next(loop)
            with scope.step():
                for name, part in parts:
                    with scope.phase(name), torch.profiler.record_function(f"{MARK}{number}:{name}"):
                        part()

        for _ in range(FIRST):
            step()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
        scope.close()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    found = stepscope.read_run(folder / "training.json").records("phases")
    ours = {(record.step, name): ms for record in found for name, ms in (record.device_ms or {}).items()}
    return ours, json.loads((folder / "trace.json").read_text())["traceEvents"]


def kernel_times(trace: Iterable[dict[str, Any]]) -> dict[tuple[int, str], float]:
    """Milliseconds from the first kernel's start to the last one's end, by step and phase."""
    events = [event for event in trace if event.get("ph") == "X"]
    spans = sorted(_span(e) for e in events if e.get("cat") == "user_annotation" and e["name"].startswith(MARK))
    work: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        if event.get("cat") in ON_DEVICE:
            times = (event["ts"], event["ts"] + event["dur"])
            work.setdefault(event["args"]["correlation"], []).append(times)
    launches = sorted((e["ts"], e["args"]["correlation"]) for e in events if e.get("cat") in LAUNCHES and "args" in e)
    found: dict[tuple[int, str], float] = {}
    for span in spans:
        times = [t for at, number in launches if span.begin <= at <= span.end for t in work.get(number, [])]
        if times:
            found[span.step, span.name] = (max(end for _, end in times) - min(begin for begin, _ in times)) / 1000
    return found


def _span(event: dict[str, Any]) -> Span:
    number, _, name = event["name"].removeprefix(MARK).partition(":")
    return Span(int(number), name, event["ts"], event["ts"] + event["dur"])


def rows(ours: dict[tuple[int, str], float], theirs: dict[tuple[int, str], float]) -> list[list[str]]:
    """A row for each phase that is long enough, in the order in which they come."""
    names = list(dict.fromkeys(name for _, name in theirs))
    return [row for name in names if (row := _row(name, ours, theirs))]


def _row(name: str, ours: dict[tuple[int, str], float], theirs: dict[tuple[int, str], float]) -> list[str] | None:
    both = [(ours.get(at), ms) for at, ms in sorted(theirs.items()) if at[1] == name]
    if statistics.median(ms for _, ms in both) < LEAST_MS:
        return None
    known = [(mine, ms) for mine, ms in both if mine is not None]
    if len(known) < len(both):
        return [name, f"missing in {len(both) - len(known)}", "", "", "", f"{len(both)}", "", verdict(False)]
    off = [mine / ms - 1 for mine, ms in known]
    typical, largest = statistics.median(off), max(off, key=abs)
    times = [f"{statistics.median(values):.3f}" for values in zip(*known, strict=True)]
    differences = [f"{typical:+.2%}", f"{largest:+.2%}"]
    return [name, *times, *differences, f"{len(known)}", f"≤ {BAR:.0%}", verdict(abs(typical) <= BAR)]


if __name__ == "__main__":
    main()
