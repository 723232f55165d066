"""What the header says of the program that runs."""

import argparse
import enum
import os
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

from stepscope.config import Settings
from stepscope.errors import StepscopeError
from stepscope.header import header, launch_id, ranks, unique_name
from stepscope.plain import plain
from stepscope.records import Git


class Color(enum.Enum):
    """Something that JSON does not know."""

    RED = 1


@dataclass
class Optimizer:
    """A part of a configuration."""

    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)


@dataclass
class Config:
    """A configuration as people write them."""

    optimizer: Optimizer = field(default_factory=Optimizer)
    path: Path = Path("data")
    dtype: torch.dtype = torch.bfloat16


def test_a_configuration_may_be_of_any_make() -> None:
    """Dataclasses, namespaces, mappings; what JSON does not know as its text."""
    assert plain(Config()) == {
        "optimizer": {"lr": 0.1, "betas": [0.9, 0.95]},
        "path": "data",
        "dtype": "torch.bfloat16",
    }
    assert plain(argparse.Namespace(a=1, b=None)) == {"a": 1, "b": None}
    assert plain(OrderedDict(a={1}, b=Color.RED)) == {"a": [1], "b": "Color.RED"}


def test_numbers_and_names_of_other_kinds_stay_what_they_are() -> None:
    """numpy's scalars, and texts and numbers of a class of their own."""

    class Optimizer(enum.StrEnum):
        ADAM = "adam"

    given = {"lr": np.float32(0.5), "n": np.int64(3), "on": np.bool_(True), "name": np.str_("x"), "o": Optimizer.ADAM}
    assert plain(given) == {"lr": 0.5, "n": 3, "on": True, "name": "x", "o": "adam"}
    assert [type(value) for value in plain(given).values()] == [float, int, bool, str, str]


def test_a_configuration_without_end_is_an_error() -> None:
    """Rather than a crash."""
    config: dict[str, object] = {}
    config["itself"] = config
    with pytest.raises(StepscopeError, match="200 levels"):
        plain(config)


def test_names_are_unique_and_can_be_said() -> None:
    """Two words, the time, two digits."""
    names = {unique_name() for _ in range(50)}
    assert len(names) > 40
    assert all(len(name.split("-")) == 5 for name in names)


def test_the_state_of_the_code_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit and whether it has changes, of the program's folder; nothing outside a repository."""

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.check_output(["git", "-C", str(tmp_path), *who, *arguments], text=True).strip()

    script = tmp_path / "train.py"
    script.write_text("1")
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert header(Settings()).git is None
    git("init", "-q")
    git("add", "train.py")
    git("commit", "-qm", "a")
    assert header(Settings()).git == Git(commit=git("rev-parse", "HEAD"), dirty=False)
    script.write_text("2")
    assert header(Settings()).git == Git(commit=git("rev-parse", "HEAD"), dirty=True)


def test_a_launchers_ranks_are_taken_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank alone means nothing; what is set goes first."""
    monkeypatch.setenv("RANK", "3")
    assert ranks(Settings()) == (0, 1)
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert ranks(Settings()) == (3, 8)
    assert ranks(Settings(rank=1, world_size=2)) == (1, 2)


def test_the_ranks_of_one_launch_share_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without speaking to each other; another launch has another."""
    monkeypatch.setenv("MASTER_PORT", "29500")
    first = launch_id(8)
    assert first == launch_id(8)
    monkeypatch.setenv("MASTER_PORT", "29501")
    assert launch_id(8) not in (first, None)
    assert launch_id(1) is None


def test_versions_are_those_of_what_is_loaded() -> None:
    """Nothing is imported for it."""
    found = header(Settings()).versions or {}
    assert found["torch"] == torch.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert header(Settings()).pid == os.getpid()
