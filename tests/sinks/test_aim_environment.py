"""Aim in an environment of its own: it holds filelock below 4, so it does not fit beside the pinned packages."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NEEDED = ["aim==3.29.1", "msgspec", "typer", "pytest"]
TESTS = ["tests/sinks/test_aim.py", "tests/sinks/test_contract.py", "tests/test_sync.py"]


@pytest.mark.slow
def test_the_tests_of_aim_pass_with_aim(tmp_path: Path) -> None:
    """Those of the sink, of the contract and of sync."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    pins = tmp_path / "pins.txt"
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pins.write_text("\n".join(line for line in lines if line.split("==")[0] in ("msgspec", "typer", "pytest")))
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", pins, *NEEDED], check=True, timeout=600)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "aim", *TESTS]
    variables = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, timeout=600)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1]
