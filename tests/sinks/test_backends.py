"""The backends by name: what is missing is said at the call, and nothing is imported there."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope import config
from stepscope.errors import BadValue, MissingExtra, UnknownSetting
from stepscope.records import Header, Step
from stepscope.sinks import backends
from stepscope.sinks.backends import BACKENDS, check_backend, close_all, connect
from stepscope.sinks.background import Background
from stepscope.sinks.throttle import Throttle
from stepscope.tags import ALWAYS_BY_GPU

from .read_back import tensorboard_points, wandb_rows


def settings(folder: Path, **changes: Any) -> Any:
    """What a run is set to."""
    return config.settings({"output_dir": str(folder), "mode": "offline", **changes}, environ={})


def test_the_settings_the_names_and_the_backends_know_the_same() -> None:
    """One cannot be set that does not exist, or has no names."""
    assert set(config.BACKENDS) == set(BACKENDS) == set(ALWAYS_BY_GPU)


def test_an_unknown_backend_is_an_error() -> None:
    """That names the nearest."""
    with pytest.raises(UnknownSetting, match="did you mean 'tensorboard'"):
        check_backend("tensorbord")


def test_a_missing_package_is_an_error_at_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setattr(backends, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'stepscope\[wandb\]'"):
        connect("wandb", settings(tmp_path))


def test_an_aim_server_does_not_go_with_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to do instead is said."""
    monkeypatch.setattr(backends, "find_spec", lambda _: True)
    with pytest.raises(BadValue, match="give a folder"):
        connect("aim", settings(tmp_path, aim_repo="aim://host:53800"))


def test_nothing_is_imported_at_the_call(tmp_path: Path) -> None:
    """A backend takes a second to import, in a thread of its own."""
    program = (
        "import sys\nfrom types import SimpleNamespace\nfrom stepscope.sinks.backends import connect\n"
        "s = SimpleNamespace(mode='offline', aim_repo=None, output_dir=sys.argv[1])\n"
        "for name in ('wandb', 'tensorboard'): connect(name, s)\n"
        "print([name for name in ('wandb', 'tensorboard', 'numpy', 'plotly') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("name", "mode", "environment", "limited"),
    [
        ("wandb", "online", {}, True),
        ("wandb", "offline", {}, False),
        ("wandb", "online", {"WANDB_MODE": "offline"}, False),
        ("tensorboard", "online", {}, False),
    ],
)
def test_only_wandb_online_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str, environment: dict[str, str], limited: bool
) -> None:
    """Nothing else has a limit."""
    monkeypatch.setattr(os, "environ", {**os.environ, **environment})
    monkeypatch.setitem(BACKENDS, name, lambda *_: SimpleNamespace(write=print, close=print))
    backend = connect(name, settings(tmp_path, mode=mode))(Header(id="a"), lambda *_: None)
    backend.close(10)
    assert isinstance(backend, Throttle if limited else Background)


def test_the_settings_reach_the_backends(tmp_path: Path) -> None:
    """Two at once, each at its place, and both say where they are."""
    said: list[Any] = []
    wanted = settings(tmp_path, wandb_project="mine", wandb_name="first", tensorboard_dir=str(tmp_path / "tb"))
    opened = [connect(n, wanted)(Header(id="a1"), pytest.fail, said.append) for n in ("wandb", "tensorboard")]
    for backend in opened:
        backend.write(Step(step=1, loss=2.0))
    assert close_all(opened, 30) == 0
    (folder,) = [log.parent for log in tmp_path.glob("wandb/offline-run-*/run-a1.wandb")]
    assert [row["train/loss"] for row in wandb_rows(folder)] == [2.0]
    assert [point.value for point in tensorboard_points(tmp_path / "tb")] == [2.0]
    assert sorted(map(str, said)) == sorted([str(tmp_path / "tb"), str(folder)])
