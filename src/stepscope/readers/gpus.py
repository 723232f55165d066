"""The GPUs of a run, each summed up.

gpus(read_run("output/training.json"))[0].temperature     # 72: the highest that was seen
"""

import msgspec

from ..records import Gpu, GpuModel
from .run_file import Run

NOT_THROTTLED = {"", "none", "no cap", "not supported"}


class GpuSummary(msgspec.Struct, frozen=True):
    """One GPU over the run: mean use and power, the hottest and fullest moment, the last reason to throttle."""

    rank: int
    id: int | None
    name: str | None = None
    gpu_util: float | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    dram_free: float | None = None
    throttle: str | None = None


def gpus(run: Run) -> list[GpuSummary]:
    """Every GPU of every rank."""
    return [
        _gpu(rank, id_, [r for r in records if r.id == id_], names)
        for rank in sorted(run.ranks)
        for records in [[r for r in run.records("gpu", rank) if isinstance(r, Gpu)]]
        for names in [[r for r in run.records("gpu-model", rank) if isinstance(r, GpuModel)]]
        for id_ in dict.fromkeys(r.id for r in records)
    ]


def _gpu(rank: int, id_: int | None, records: list[Gpu], models: list[GpuModel]) -> GpuSummary:
    def known(field: str) -> list[float]:  # a foreign tracker writes -1 where it does not know
        return [value for r in records if (value := getattr(r, field)) is not None and value >= 0]

    def mean(field: str) -> float | None:
        values = known(field)
        return sum(values) / len(values) if values else None

    reasons = [r.throttle for r in records if r.throttle is not None and r.throttle not in NOT_THROTTLED]
    names = [m.name for m in models if m.id == id_ or len(models) == 1]
    return GpuSummary(
        rank=rank,
        id=id_,
        name=names[0] if names else None,
        gpu_util=mean("gpu_util"),
        power=mean("power"),
        power_limit=max(known("power_limit"), default=None),
        temperature=max(known("temperature"), default=None),
        dram_free=min(known("dram_free"), default=None),
        throttle=reasons[-1] if reasons else None,
    )
