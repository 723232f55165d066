"""The header of a run: what runs, where, and with what.

    header(settings({"project": "mae"}), config={"lr": 2e-4})     # Header(id='…', host='…', git=Git(…), …)

Reading the state of the code asks `git` once, for a second at most; nothing here imports a package.
"""

import hashlib
import os
import platform
import secrets
import socket
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from .clock import utc_now
from .config import Settings
from .errors import BadValue, show
from .records import Git, Header

PACKAGES = [
    "torch",
    "numpy",
    "transformers",
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "datasets",
    "triton",
    "flash_attn",
]
ADJECTIVES = [
    "amber",
    "brisk",
    "calm",
    "clear",
    "deft",
    "eager",
    "early",
    "fleet",
    "gentle",
    "keen",
    "lucid",
    "mellow",
    "nimble",
    "quiet",
    "steady",
    "swift",
]
NOUNS = [
    "badger",
    "comet",
    "falcon",
    "fjord",
    "glacier",
    "harbor",
    "heron",
    "lynx",
    "maple",
    "meadow",
    "otter",
    "pine",
    "raven",
    "river",
    "summit",
    "tern",
]


def header(
    settings: Settings, config: Any = None, run_id: str | None = None, name: str | None = None, attempt: int = 1
) -> Header:
    """The header of this process's run; `config` is plain JSON already."""
    rank, world_size = ranks(settings)
    return Header(
        time=utc_now(),
        id=run_id or launch_id(world_size) or secrets.token_hex(6),
        attempt=attempt,
        name=settings.name or name or unique_name(),
        project=settings.project,
        host=socket.gethostname(),
        pid=os.getpid(),
        rank=rank,
        world_size=world_size,
        utc_offset=datetime.now().astimezone().isoformat()[-6:],
        argv=list(sys.argv),
        config=config,
        git=_git(),
        versions=_versions(),
        total_steps=settings.total_steps,
        total_tokens=settings.total_tokens,
        total_epochs=settings.total_epochs,
    )


def ranks(settings: Settings) -> tuple[int, int]:
    """Rank and number of ranks: as set, else as the launcher says."""
    size = settings.world_size if settings.world_size is not None else _whole(os.environ.get("WORLD_SIZE"), 1)
    rank = settings.rank if settings.rank is not None else _whole(os.environ.get("RANK"), 0) if size > 1 else 0
    if not 0 <= rank < max(size, rank + (size == 1)):
        raise BadValue(f"rank {show(rank)} of {show(size)} ranks: it must be from 0 to world_size - 1")
    return rank, size


def launch_id(world_size: int) -> str | None:
    """What the ranks of one launch share without speaking to each other; None for a single process."""
    if world_size == 1:
        return None
    names = [
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
    ]
    parts = [os.environ.get(name, "") for name in names]
    if os.environ.get("LOCAL_WORLD_SIZE") == str(world_size):
        parts.append(str(os.getppid()))  # one launcher for all ranks
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isdigit() else default


def unique_name() -> str:
    """A name that a person can say, and that no other run has: `brisk-otter-20260115-103000-3f`."""
    words = f"{secrets.choice(ADJECTIVES)}-{secrets.choice(NOUNS)}"
    return f"{words}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(1)}"


def _git() -> Git | None:
    """Commit and state of the code, if git answers within a second."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0] or ".")) if sys.argv else "."
    command = [
        "git",
        "--no-optional-locks",
        "-C",
        folder,
        "status",
        "--porcelain=v2",
        "--branch",
        "--untracked-files=no",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    lines = done.stdout.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), None)
    if done.returncode or commit in (None, "(initial)"):
        return None
    return Git(commit=str(commit), dirty=any(not line.startswith("#") for line in lines))


def _versions() -> dict[str, str]:
    """Python's version, and those of the packages that the program has loaded by now."""
    from . import __version__

    found = {"python": platform.python_version(), "stepscope": __version__}
    for package in PACKAGES:
        version = getattr(sys.modules.get(package), "__version__", None)
        if version is not None:
            found[package] = str(version)
    return found
