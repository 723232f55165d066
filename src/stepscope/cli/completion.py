"""`stepscope completion`: the script that lets a shell complete the commands."""

import os
from enum import StrEnum
from typing import Annotated

import typer

from .files import Json
from .screen import print_json, put

VARIABLE = "_STEPSCOPE_COMPLETE"  # the script sets it when it asks for completions


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
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name="stepscope", complete_var=VARIABLE, shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        put(script)


def answer_shells() -> None:
    """Let Typer answer the shell that asks; it does so by itself only with options of its own in every help."""
    if os.environ.get(VARIABLE):
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
