"""What every sink owes: it takes any record of any kind, ignores what it does not know, and may be closed twice."""

import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from stepscope.records import KINDS, Git, GpuMemory, GpuPeak, Header, Record, Segment, Spent, StepRecord, fields
from stepscope.sinks.background import Background
from stepscope.sinks.console import Console
from stepscope.sinks.jsonfile import JsonFile
from stepscope.sinks.memory import Memory
from stepscope.sinks.tee import Tee
from stepscope.sinks.throttle import Throttle

HOSTILE = 'a"b\\c\n\x00\ud800 / % é 🦦'
FULL: dict[str, Any] = {
    "config": {"lr": 1e-3, HOSTILE: [HOSTILE, None, math.nan, {"deep": (1, True)}]},
    "git": Git(commit="c0ffee", dirty=True),
    "versions": {"python": "3.11"},
    "argv": ["train.py", HOSTILE],
    "stats": [Segment(name=HOSTILE, device=1, pinned=2)],
    "file_tokens": [(HOSTILE, 12)],
    "values": {"a/b": 1.5, HOSTILE: math.nan, "ok": True},
    "evidence": {"norms": [1.0, math.inf]},
    "host_ms": {HOSTILE: 1.5},
    "device_ms": {HOSTILE: math.nan},
    "phases": [Spent(name=HOSTILE, ms=1.5, count=0), Spent(name="forward_pass", ms=2.5)],
    "max_gpu_memory": [GpuPeak(id=1, allocated=1)],
    "gpus": [GpuMemory(id=1, allocated=1, total=2)],
    "last_steps": [{"step": 1, HOSTILE: math.nan}],
}


class Later(StepRecord, frozen=True, kw_only=True, tag="later", tag_field="log"):
    """A kind that no sink knows."""

    depth: float = 1.5


def make_wandb(folder: Path) -> Any:
    from stepscope.sinks.wandb import Wandb

    return Wandb(Header(id="contract"), mode="offline", folder=str(folder))


def make_tensorboard(folder: Path) -> Any:
    from stepscope.sinks.tensorboard import TensorBoard

    return TensorBoard(str(folder))


def make_aim(folder: Path) -> Any:
    from stepscope.sinks.aim import Aim

    return Aim(Header(id="contract"), repo=str(folder))


def background() -> Background:
    return Background(Memory, "memory", lambda *trouble: pytest.fail(str(trouble)))


SINKS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: Memory(),
    "tee": lambda _: Tee(Memory(), Memory()),
    "console": lambda _: Console(1),
    "background": lambda _: background(),
    "throttle": lambda _: Throttle(background()),
    "jsonfile": lambda folder: JsonFile.create(folder / "training.json"),
    "tensorboard": make_tensorboard,
    "wandb": make_wandb,
    "aim": make_aim,
}


@pytest.fixture(params=sorted(SINKS))
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each sink in turn."""
    if request.param == "aim" and not find_spec("aim"):
        pytest.skip("Aim has an environment of its own: see test_aim_environment.py")
    return SINKS[request.param](tmp_path)


def full(kind: str) -> Record:
    """A record with every field filled."""
    return KINDS[kind](**{name: FULL.get(name, _some(info.type)) for name, info in fields(kind).items()})


def _some(type_: Any) -> Any:
    kind = str(type_)
    return True if "bool" in kind else 1 if "int" in kind else math.nan if "float" in kind else HOSTILE


def test_a_sink_takes_any_record_and_closes_twice(sink: Any) -> None:
    """Full ones, empty ones, and kinds that come later."""
    for kind in KINDS:
        sink.write(full(kind))
        sink.write(KINDS[kind]())
    if not isinstance(sink, JsonFile):  # the one that must know what it writes
        sink.write(Later(step=2))
    sink.close()
    sink.close()
