"""The backends by name, each behind its own queue and thread.

    open_wandb = connect("wandb", settings)       # raises MissingExtra, here and now, when it is not installed
    backend = open_wandb(header, on_trouble)      # returns at once; the backend is made in its own thread
    backend.write(record)
    close_all([backend], deadline_s=3.5)

Nothing is imported before `connect` is called, and no backend before its thread runs.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol

from ..errors import BadValue, MissingExtra, UnknownSetting, nearest
from ..records import Header
from . import wandb_service
from .background import EXIT_S, Background, OnTrouble, close_all, nothing
from .sink import Backend, Sink
from .throttle import Throttle

__all__ = ["BACKENDS", "Opener", "check_backend", "close_all", "connect", "make_backend"]


class Settings(Protocol):
    """What the backends read of a run's settings."""

    @property
    def output_dir(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def wandb_project(self) -> str | None: ...
    @property
    def wandb_name(self) -> str | None: ...
    @property
    def aim_experiment(self) -> str | None: ...
    @property
    def aim_repo(self) -> str | None: ...
    @property
    def aim_name(self) -> str | None: ...
    @property
    def tensorboard_dir(self) -> str | None: ...


def make_wandb(settings: Settings, header: Header) -> Sink:
    """The W&B run of an attempt."""
    from .wandb import Wandb

    return Wandb(
        header,
        project=settings.wandb_project or settings.project,
        name=settings.wandb_name or settings.name,
        mode=settings.mode,
        folder=settings.output_dir,
        finish_timeout_s=EXIT_S - 0.5,
    )


def make_aim(settings: Settings, header: Header) -> Sink:
    """The Aim run of an attempt."""
    from .aim import Aim

    return Aim(
        header,
        experiment=settings.aim_experiment or settings.project,
        name=settings.aim_name or settings.name,
        repo=settings.aim_repo or settings.output_dir,
    )


def make_tensorboard(settings: Settings, header: Header) -> Sink:
    """The event file of an attempt."""
    from .tensorboard import TensorBoard

    return TensorBoard(settings.tensorboard_dir or os.path.join(settings.output_dir, "tensorboard"))


BACKENDS: dict[str, Callable[[Settings, Header], Sink]] = {
    "wandb": make_wandb,
    "aim": make_aim,
    "tensorboard": make_tensorboard,
}
ABANDON: dict[str, Callable[[], Any]] = {"wandb": wandb_service.kill}


def check_backend(name: str) -> None:
    """Raise when there is no such backend, or its package is missing; imports nothing."""
    if name not in BACKENDS:
        raise UnknownSetting(f"unknown backend {name!r}{nearest(name, BACKENDS)}")
    if find_spec(name) is None:
        raise MissingExtra(name)


def make_backend(name: str, settings: Settings, header: Header) -> Sink:
    """The bare backend: what it does may take long, and may raise."""
    check_backend(name)
    return BACKENDS[name](settings, header)


class Opener(Protocol):
    """Opens a backend for a run."""

    def __call__(
        self, header: Header, on_trouble: OnTrouble, on_ready: Callable[[str | None], Any] = nothing
    ) -> Backend: ...


def connect(name: str, settings: Settings) -> Opener:
    """What opens a backend, once it is clear that it can be had. `on_ready` is told where the run can be seen."""
    check_backend(name)
    import concurrent.futures.thread  # noqa: F401 - backends need it, and it cannot be imported once the exit has begun

    repo = settings.aim_repo or ""
    if name == "aim" and settings.mode == "offline" and repo.startswith("aim://"):
        raise BadValue(f"aim_repo {repo} is on the network and mode is offline: give a folder")

    def opened(header: Header, on_trouble: OnTrouble, on_ready: Callable[[str | None], Any] = nothing) -> Backend:
        background = Background(
            lambda: make_backend(name, settings, header),
            name,
            on_trouble,
            abandon=ABANDON.get(name, nothing),
            on_ready=on_ready,
        )
        is_limited = (
            name == "wandb" and settings.mode == "online" and os.environ.get("WANDB_MODE", "online") == "online"
        )
        return Throttle(background, say=background.say, name=name) if is_limited else background

    return opened
