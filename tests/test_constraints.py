"""constraints.txt pins all that pyproject.toml asks for, and names versions only."""

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
LINES = [line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
PINNED = {normal: version for name, _, version in (line.partition("==") for line in LINES) if (normal := name.lower())}


def asked_for() -> set[str]:
    """The packages that pyproject.toml names, those of the extra `aim` left out."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    every = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    every += [package for extra, packages in extras.items() if extra != "aim" for package in packages]
    return {re.split(r"[^\w.-]", package)[0].lower() for package in every} - {"stepscope"}


def test_every_package_is_pinned() -> None:
    """A fresh environment gets the versions that the tests ran with; Aim has an environment of its own."""
    assert asked_for() >= {"hatchling", "msgspec", "torch", "wandb", "pytest", "ruff"}
    assert not asked_for() - set(PINNED)


def test_only_versions_are_named() -> None:
    """No host, path or build of one machine, and none of the packages that torch brings for CUDA."""
    assert not [line for line in LINES if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    of_cuda = (name for name in PINNED if name.startswith(("nvidia", "cuda", "triton")))
    assert set(of_cuda) == {"nvidia-ml-py"}  # which reads GPUs, and brings nothing
    assert PINNED["torch"] == "2.13.0"
