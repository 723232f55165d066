"""A run with a bit of everything, and what each backend must hold of it, written down by hand.

records, points = mixed_run(2000)
points["wandb"]      # [("train/loss", 0, 10.0), …]
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from stepscope.records import (
    Allocator,
    Dataset,
    End,
    Eval,
    Event,
    Gpu,
    GpuModel,
    Header,
    Metrics,
    Moe,
    Record,
    Segment,
    SpeedOfLight,
    Step,
)

NAN, INFINITY = float("nan"), float("inf")
HEADER = Header(
    time="2026-01-15T10:30:00.000000",
    id="a1b2c3",
    name="tidy-otter",
    project="mixed",
    config={"lr": 2e-4, "layers": 12},
)


class Point(NamedTuple):
    """A number as a backend holds it."""

    tag: str
    step: int
    value: Any


class Said(NamedTuple):
    """A record, and what it is in each backend."""

    record: Record
    wandb: tuple[Point, ...] = ()
    aim: tuple[Point, ...] = ()
    tensorboard: tuple[Point, ...] = ()


def everywhere(record: Record, *points: tuple[str, Any]) -> Said:
    """A record that is named the same everywhere."""
    found = tuple(Point(tag, record.step, value) for tag, value in points)
    return Said(record, found, found, found)


def mixed_run(count: int) -> tuple[list[Record], dict[str, list[Point]]]:
    """`count` records, and by backend every tag, step and value that must be there."""
    said = [next(parts) for parts in [_parts()] for _ in range(count - 1)]
    said.append(Said(End(time=at(count), step=count, status="finished")))
    schemes = ("wandb", "aim", "tensorboard")
    return [s.record for s in said], {scheme: [p for s in said for p in getattr(s, scheme)] for scheme in schemes}


def at(step: int) -> str:
    """The time at a step: one a second."""
    return f"2026-01-15T{10 + step // 3600:02d}:{step // 60 % 60:02d}:{step % 60:02d}.500000"


def _parts() -> Iterator[Said]:
    yield Said(HEADER)
    yield Said(Dataset(time=at(0), split="train", files=2, tokens=329663, seed=42))
    yield Said(GpuModel(time=at(0), id=0, name="H100", sm_count=132))
    yield Said(GpuModel(time=at(0), id=1, name="H100", sm_count=132))
    yield everywhere(
        SpeedOfLight(time=at(0), blocks=3.6e9, tps=156000, bf16_peak=989.4, fp8_peak=-1.0),  # -1: unknown
        ("sol/blocks", 3.6e9),
        ("sol/tps", 156000),
        ("sol/bf16_peak", 989.4),
    )
    for id_ in (0, 1):
        yield _memory(0, id_)
    for step in range(10_000):
        if step % 10 == 0:
            yield from (_gpu(step, id_) for id_ in (0, 1))
        yield _step(step)
        if step % 7 == 0:
            yield _moe(step)
        if step % 3 == 0:
            values = {"acc": step / 7, "mine/late": INFINITY if step % 30 == 0 else -1.5, "ok": step % 2 == 0}
            yield everywhere(
                Metrics(time=at(step), step=step, values=values),
                *[(name, int(value) if isinstance(value, bool) else value) for name, value in values.items()],
            )
        if step % 50 == 1:  # the evaluation of the step before
            yield everywhere(
                Eval(time=at(step), step=step - 1, epoch=0.5, eval_tokens=32768, duration_ms=256, loss=2.1),
                *[("eval/epoch", 0.5), ("eval/eval_tokens", 32768), ("eval/duration_ms", 256), ("eval/loss", 2.1)],
                ("eval/tokens_per_second", 128000.0),
            )
        if step % 200 == 150:
            yield everywhere(
                Event(time=at(step), step=step, severity="warning", rule="spike", message="norm", advice="clip"),
                ("event/spike", "norm: clip"),
            )


def _step(step: int) -> Said:
    loss = NAN if step % 100 == 40 else 10 / (step + 1)
    inline: dict[str, Any] = {}
    points: list[tuple[str, Any]] = []
    if step % 5 == 0:
        inline = {"moe_aux_loss": 0.02 + step, "moe_load_imbalance": 1.5}
        points = [("moe/aux_loss", 0.02 + step), ("moe/load_imbalance", 1.5)]
    return everywhere(
        Step(
            time=at(step), step=step, epoch=step / 100, step_tokens=16384, duration_ms=128, loss=loss, lr=1e-3, **inline
        ),
        *[("train/epoch", step / 100), ("train/step_tokens", 16384), ("train/duration_ms", 128), ("train/loss", loss)],
        *[("train/lr", 1e-3), ("train/tokens_per_second", 128000.0)],
        *points,
    )


def _moe(step: int) -> Said:
    """What the step has said already does not come again."""
    inline = step % 5 == 0
    return everywhere(
        Moe(time=at(step), step=step, aux_loss=0.02 + step, z_loss=0.001, expert_utilization=0.9, load_imbalance=1.5),
        *([] if inline else [("moe/aux_loss", 0.02 + step)]),
        ("moe/z_loss", 0.001),
        ("moe/expert_utilization", 0.9),
        *([] if inline else [("moe/load_imbalance", 1.5)]),
    )


def _gpu(step: int, id_: int) -> Said:
    record = Gpu(
        time=at(step),
        step=step,
        id=id_,
        clock=1800 + id_,
        fan=0,
        power=350000,
        temperature=-1,  # unknown to a foreign tracker
        throttle="power cap" if step % 20 == 0 else "",
        dram_free=8 * 2**30 + id_ * 2**20,
        pcie_rx=2**30,
    )
    numbers: list[tuple[str, Any]] = [
        (f"gpu/{id_}/clock", 1800 + id_),
        (f"gpu/{id_}/fan", 0),
        (f"gpu/{id_}/power", 350000),
        (f"gpu/{id_}/dram_free", 8192.0 + id_),
        (f"gpu/{id_}/pcie_rx", 1024.0),
        (f"gpu/{id_}/throttled", int(step % 20 == 0)),
    ]
    said = everywhere(record, *numbers)
    reason = (Point(f"gpu/{id_}/throttle", step, "power cap"),) if step % 20 == 0 else ()
    return said._replace(wandb=said.wandb + reason)


def _memory(step: int, id_: int) -> Said:
    """Two GPUs are known by now, so each has its own name."""
    stats = [Segment(name="weights", device=4 * 2**30), Segment(name="optimizer", device=2**30, pinned=2**31)]
    return everywhere(
        Allocator(time=at(step), step=step, id=id_, stats=stats),
        (f"allocator/{id_}/weights_mib", 4096.0),
        (f"allocator/{id_}/optimizer_mib", 1024.0),
        (f"allocator/{id_}/optimizer_pinned_mib", 2048.0),
    )
