"""What a backend holds, as the backend's own reader tells it.

wandb_points(folder)          # W&B's reader of its transaction log
tensorboard_points(folder)    # TensorBoard's EventAccumulator, without thinning
aim_points(repo, run_hash)    # Aim's SDK, after what `aim up` does with a finished run
"""

import json
import math
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from .mixed_run import Point

OWN = ("trainer/step", "_step", "_runtime", "_timestamp", "allocations")


def same(found: list[Point], wanted: list[Point], digits: int = 15) -> bool:
    """Whether two collections hold the same tags, steps and values, each as often, in any order."""
    return _counted(found, digits) == _counted(wanted, digits)


def difference(found: list[Point], wanted: list[Point], digits: int = 15) -> str:
    """The first few points that only one of the two has, for a failing test."""
    have, want = _counted(found, digits), _counted(wanted, digits)
    return f"missing {list((want - have).items())[:5]}, too much {list((have - want).items())[:5]}"


def _counted(points: list[Point], digits: int) -> Counter[tuple[str, int, str]]:
    return Counter((point.tag, point.step, _written(point.value, digits)) for point in points)


def _written(value: Any, digits: int) -> str:
    return value if isinstance(value, str) else f"{float(value):.{digits}g}"


def wandb_log(folder: Path) -> list[dict[str, Any]]:
    """Every record of a W&B run's transaction log, as `wandb leet inspect` reads it."""
    from wandb.util import get_core_path

    (file,) = folder.glob("*.wandb")
    command = [get_core_path(), "leet", "inspect", "--no-observability", "--json", "--run-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def wandb_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a W&B run."""
    return [record["history"]["item"] for record in wandb_log(folder) if record["type"] == "history"]


def wandb_points(folder: Path) -> list[Point]:
    """The numbers and texts of a W&B run's rows."""
    return [
        Point(tag, row["trainer/step"], _number(value))
        for row in wandb_rows(folder)
        for tag, value in row.items()
        if not tag.startswith(OWN)
    ]


def _number(value: Any) -> Any:
    """W&B's own files hold numbers that are not finite by name."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def wandb_config(folder: Path) -> dict[str, Any]:
    """The configuration of a W&B run."""
    config: dict[str, Any] = {}
    for record in wandb_log(folder):
        part = record.get("config") or (record.get("run") or {}).get("config") or {}
        config.update(part.get("update", {}))
    return config


def tensorboard_points(folder: Path) -> list[Point]:
    """The scalars and texts of a folder's event files."""
    events = accumulated(folder)
    scalars = [Point(tag, e.step, e.value) for tag in events.Tags()["scalars"] for e in events.Scalars(tag)]
    texts = [
        Point(tag, e.step, e.tensor_proto.string_val[0].decode())
        for tag in events.Tags()["tensors"]
        if tag.startswith("event/")
        for e in events.Tensors(tag)
    ]
    return scalars + texts


def accumulated(folder: Path) -> Any:
    """TensorBoard's reader of a folder, without thinning."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()


def single(points: list[Point]) -> list[Point]:
    """The points in single precision, which is what TensorBoard's scalars have."""
    import struct

    def rounded(value: Any) -> Any:
        if isinstance(value, str) or not math.isfinite(value):
            return value
        return struct.unpack("f", struct.pack("f", value))[0]

    return [point._replace(value=rounded(point.value)) for point in points]


def aim_run(repo: Path, run_hash: str) -> Any:
    """A finished run, once Aim has indexed it."""
    import aim
    from aim.sdk.index_manager import RepoIndexManager

    opened = aim.Repo.from_path(str(repo))
    RepoIndexManager.get_index_manager(opened).index(run_hash)
    opened.container_pool.clear()
    return opened.get_run(run_hash)


def aim_points(repo: Path, run_hash: str) -> list[Point]:
    """The numbers and texts of an Aim run."""
    from aim.storage.context import Context

    run = aim_run(repo, run_hash)
    points = []
    for metric in run.metrics():
        assert metric.context.to_dict() == {}
        steps, (values, *_) = metric.data.items_list()
        points += [Point(metric.name, step, value) for step, value in zip(steps, values, strict=True)]
    for name, context, _ in run.iter_sequence_info_by_type("aim.text"):
        texts = run.get_text_sequence(name, Context(context.to_dict()))
        points += [Point(name, step, text.data) for step, (text, *_) in texts.data.items()]
    return points
