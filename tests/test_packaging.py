"""What a user installs: the wheel holds the package and nothing else, and works with the core's dependencies alone."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import stepscope

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parent.parent
CONSTRAINTS = str(REPOSITORY / "constraints.txt")
MODULES = {path.relative_to(REPOSITORY / "src").as_posix() for path in (REPOSITORY / "src").rglob("*.py")}


def run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    """The output of a command, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python_with(folder: Path, *packages: str | Path) -> Path:
    """The interpreter of a new environment that holds these packages."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, *packages)
    return python


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and with the wheel that was built from that alone."""
    folder = tmp_path_factory.mktemp("dist")
    python = python_with(folder / "builder", "hatchling")
    run(python, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder)
    (sdist,) = folder.glob("*.tar.gz")
    run(python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sdist, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def python(dist: Path) -> Path:
    """An interpreter with the wheel and the core's dependencies."""
    (wheel,) = dist.glob("*.whl")
    return python_with(dist / "user", wheel)


def test_the_source_distribution_holds_the_package_alone(dist: Path) -> None:
    """Nothing of caches, runs, tests or editors comes along."""
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {name for name in names if name.startswith("src/")}
    assert sources == {f"src/{name}" for name in {*MODULES, "stepscope/py.typed"}}
    assert names - sources <= {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore"}


def test_the_wheel_holds_every_module_and_its_types(dist: Path) -> None:
    """All modules and py.typed are shipped, so that type checkers see the annotations."""
    (wheel,) = dist.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {*MODULES, "stepscope/py.typed"}


def test_the_core_brings_neither_torch_nor_numpy(python: Path) -> None:
    """The core's dependencies are few, and none of them is a framework or a backend."""
    listed = run(python, "-m", "pip", "list", "--format=freeze").lower().splitlines()
    packages = {line.partition("==")[0] for line in listed}
    assert {"stepscope", "msgspec", "typer", "rich", "pyyaml"} <= packages
    assert not packages & {"torch", "numpy", "wandb", "aim", "tensorboard", "plotly", "pyarrow"}


@pytest.mark.parametrize("command", [["bin/stepscope"], ["bin/python", "-m", "stepscope"]], ids=" ".join)
def test_the_command_is_installed(python: Path, tmp_path: Path, command: list[str]) -> None:
    """`stepscope` and `python -m stepscope` are there and name the version."""
    program = python.parent.parent / command[0]
    assert run(program, *command[1:], "--version", cwd=tmp_path).strip() == f"stepscope {stepscope.__version__}"


def test_a_run_is_written_and_read_with_the_core_alone(python: Path, tmp_path: Path) -> None:
    """Logging, reading and the commands work where neither torch nor numpy is installed."""
    program = """
import stepscope
with stepscope.init(project="core", output_dir="out", total_steps=3) as run:
    for step in range(1, 4):
        run.log_step(step, 0.1 * step, 1024, 100, 0.1, 3.0 / step, 1e-3)
print(list(stepscope.read_run("out/training.json").series("loss").values))
"""
    assert run(python, "-c", program, cwd=tmp_path).splitlines()[-1] == "[3.0, 1.5, 1.0]"
    assert "1.0" in run(python.parent / "stepscope", "show", "out/training.json", cwd=tmp_path)


def test_types_are_seen_by_a_type_checker(dist: Path, python: Path, tmp_path: Path) -> None:
    """A wrong call of an installed stepscope is an error in the user's type checker."""
    (tmp_path / "wrong.py").write_text("import stepscope\nstepscope.read_run(path=3)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", str(python), "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert 'Argument "path" to "read_run" has incompatible type' in done.stdout
