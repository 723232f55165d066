"""Whether memory by segment is right on a GPU: GPT-2 124M against closed forms, the allocator and its peak.

    python -m benchmarks.gpu_memory

At rest the segments are held against the bytes that parameters, gradients and optimizer state must have, and their sum
against `torch.cuda.memory_allocated()`; activations against the rise of the peak, which resetting the counter shows
and stepscope, which never resets it, has to work out.
"""

from typing import Any

from .report import options, table, verdict

BATCH, STEPS = 8, 4
SUM, OTHER, ACTIVATIONS = 0.01, 0.03, 0.05
MIB = 1 << 20


def main() -> None:
    """Print the table, or say that there is no device."""
    options(__doc__)
    import torch

    if not torch.cuda.is_available():
        print("gpu_memory: no CUDA device here; not measured")
        return
    print(f"\nMemory by segment, GPT-2 124M, {BATCH} × 1024 tokens, bf16 autocast, MiB\n")
    print(table(["what", "stepscope", "truth", "difference", "bar", ""], measured(torch)))


def measured(torch: Any) -> list[list[str]]:
    """The rows."""
    from stepscope.speed.memory import MemoryWatch
    from stepscope.speed.segments import segments

    from .gpt2 import CONTEXT, GPT2, VOCABULARY

    before = torch.cuda.memory_allocated()  # of the tables before this one
    model = GPT2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    ids = torch.randint(VOCABULARY, (BATCH, CONTEXT), device="cuda")
    watch = MemoryWatch(model, optimizer)

    def step(clear: bool = True) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(ids, ids)
        watch.after_forward(loss)
        loss.backward()
        watch.before_optimizer()
        optimizer.step()
        optimizer.zero_grad() if clear else None
        watch.end_of_step()

    for _ in range(STEPS):
        step()
    activations = {s.name: s.device for s in watch.allocator()[0].stats or []}["activations"]
    rest = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(clear=False)
    rise = torch.cuda.max_memory_allocated() - rest
    found = {s.name: s.device for s in segments(model, optimizer)}
    weights = sum(4 * p.numel() for p in model.parameters())
    states = 2 * weights + 4 * len([*model.parameters()])
    held = sum(size for name, size in found.items() if name not in ("fragmentation", "cached"))
    allocated = torch.cuda.memory_allocated()
    return [
        row("weights", found["weights"], weights, 0.0),
        row("gradients", found["gradients"], weights, 0.0),
        row("optimizer", found["optimizer"], states, 0.0),
        row("sum at rest", held, allocated, SUM),
        row("activations", activations, rise, ACTIVATIONS),
        other(found["other"] - before, allocated - before),
    ]


def row(what: str, found: int, truth: int, bar: float) -> list[str]:
    """One number beside the truth."""
    off = found / truth - 1
    asked = "equal" if not bar else f"≤ {bar:.0%}"
    return [what, f"{found / MIB:.2f}", f"{truth / MIB:.2f}", f"{off:+.2%}", asked, verdict(abs(off) <= bar)]


def other(found: int, allocated: int) -> list[str]:
    """What no segment claims, of what is allocated."""
    share = found / allocated
    return ["other", f"{found / MIB:.2f}", "", f"{share:.2%} of all", f"≤ {OTHER:.0%}", verdict(share <= OTHER)]


if __name__ == "__main__":
    main()
