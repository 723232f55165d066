"""docs/commands.md names what there is."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from stepscope.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_section(command):
    """A command stands in the table with a link, and has a section with its own options."""
    assert f"[`stepscope {command}`](#{command})" in PAGE
    section = re.search(rf"^## {command}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section
    options = {parameter.opts[-1] for parameter in COMMANDS[command].params if parameter.param_type_name == "option"}
    shared = {"--json", "--help", "--lines", "--follow", "--output"}  # told for all, or by their short or other name
    assert not [option for option in options - shared if option not in section[1]]
