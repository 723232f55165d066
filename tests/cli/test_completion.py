"""`stepscope completion`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_prints_a_script_that_the_shell_can_read(call, shell):
    """The script is for `stepscope`, and the shell's own parser takes it where the shell is installed."""
    script = call("completion", shell).stdout
    assert "_STEPSCOPE_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes_commands(call):
    """Bash with the script loaded completes the commands of the program."""
    script = call("completion", "bash").stdout
    body = f"""
{script}
COMP_WORDS=(stepscope ver); COMP_CWORD=1
_stepscope_completion stepscope
echo "${{COMPREPLY[@]}}"
"""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", body], capture_output=True, text=True, check=True, env=os.environ | {"PATH": path}
    )
    assert done.stdout.split() == ["verify"]


def test_json(call):
    """--json holds shell and script."""
    document = json.loads(call("completion", "zsh", "--json").stdout)
    assert document["shell"] == "zsh"
    assert document["script"].startswith("#compdef stepscope")


def test_an_unknown_shell_is_misuse(call):
    """A shell that is not supported is exit code 2, and the supported ones are named."""
    done = call("completion", "tcsh")
    assert done.exit_code == 2
    assert "bash" in done.stderr
