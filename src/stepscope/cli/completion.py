"""`stepscope completion`: the script that lets a shell complete the commands."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from .files import Json
from .screen import print_json, put


class Shell(StrEnum):
    """The shells that are supported."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that the script is for.")], as_json: Json = False
) -> None:
    """Print the completion script of a shell.

    Exit code: 0.

    \b
    Example:
      stepscope completion bash >> ~/.bashrc
      stepscope completion zsh  >> ~/.zshrc
      stepscope completion fish > ~/.config/fish/completions/stepscope.fish
    """
    script = get_completion_script(prog_name="stepscope", complete_var="_STEPSCOPE_COMPLETE", shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        put(script)
