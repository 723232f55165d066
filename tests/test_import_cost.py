"""What `import stepscope` and a logged step load: never torch, numpy, a backend or the command line's packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope

HEAVY = {"torch", "numpy", "wandb", "aim", "tensorboard", "plotly", "pyarrow", "rich", "typer", "click", "yaml"}

PROGRAMS = {
    "import": "import stepscope",
    "names": "import stepscope; stepscope.TrainingRunLogger, stepscope.init, stepscope.LogVerbosity",
    "read": "import stepscope; stepscope.read_run",
    "step": """
        import stepscope
        with stepscope.TrainingRunLogger("training.json") as run:
            run.log_step(1, 0.5, 1024, 100, 0.1, 2.5, 1e-3)
            run.log({"accuracy": 0.5}, step=1)
        print(stepscope.read_run("training.json").series("loss"))""",
}


def loaded(program: str, folder: Path) -> set[str]:
    """The top-level packages that a new interpreter has loaded after `program`."""
    lines = [line.removeprefix(" " * 8) for line in program.splitlines()]
    report = "import json, sys\nprint('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    code = "\n".join([*lines, report])
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_nothing_heavy_is_loaded(program: str, tmp_path: Path) -> None:
    """Neither the import, nor the public names, nor a step of plain numbers, nor reading it load a heavy package."""
    packages = loaded(program, tmp_path)
    assert "stepscope" in packages
    assert not packages & HEAVY


def test_a_heavy_package_would_be_seen(tmp_path: Path) -> None:
    """The check sees what a program loads, also from inside a function."""
    assert loaded("def late():\n    import yaml\nlate()", tmp_path) & HEAVY == {"yaml"}


@pytest.mark.parametrize("name", stepscope.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Every name that the package announces can be had from it."""
    assert getattr(stepscope, name) is not None
    assert name in dir(stepscope)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that does not exist fails as in any other module."""
    with pytest.raises(AttributeError, match="no attribute 'initialise'"):
        stepscope.initialise  # noqa: B018  the access is the test
