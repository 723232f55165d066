"""The command line: one command a file, registered here.

    stepscope --help
    stepscope show output/training.json

Exit codes: 0 all is well, 1 the answer is no (each command says which), 2 the command or its file is unusable,
70 a fault of stepscope itself, 130 interrupted, 141 nobody reads the output any more.
"""

import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..errors import StepscopeError
from .compare import compare_runs
from .completion import answer_shells, completion
from .doctor import doctor
from .export import export
from .list import list_runs
from .peaks import peaks
from .repair import repair
from .run import run, run_script
from .screen import say
from .show import show
from .sync import sync
from .tail import tail
from .verify import verify

UNUSABLE, FAULT, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141


class Commands(TyperGroup):
    """The commands; an error is said once and plainly, and a reader that left ends them quietly."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which they are registered: the one that people need first comes first."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; turn what can go wrong into an exit code."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except StepscopeError as error:
            say(str(error))
            raise typer.Exit(UNUSABLE) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError as error:
            # Python flushes stdout once more at exit, and would complain again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from error
        return answer


app = typer.Typer(
    name="stepscope",
    cls=Commands,
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"stepscope {__version__}")
        raise typer.Exit


@app.callback()
def stepscope(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """See inside every training step: read, check, follow and export the files that runs leave behind.

    \b
    Example:
      stepscope list output
      stepscope show output/training.json
    """


app.command("list")(list_runs)
app.command("show")(show)
app.command("doctor")(doctor)
app.command("compare")(compare_runs)
app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(run)
app.command("peaks")(peaks)
app.command("tail")(tail)
app.command("verify")(verify)
app.command("repair")(repair)
app.command("export")(export)
app.command("sync")(sync)
app.command("completion")(completion)


def main() -> None:
    """The entry point of `stepscope` and of `python -m stepscope`."""
    if sys.argv[1:2] == ["run"] and sys.argv[2:] not in ([], ["-h"], ["--help"]):
        sys.exit(run_script(sys.argv[2:]))  # before anything of ours touches what is the script's
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what the locale cannot show becomes \\x…, never an exception
            stream.reconfigure(errors="backslashreplace")
    answer_shells()
    try:
        app()
    except Exception:  # noqa: BLE001 - nobody may take a crash for exit code 1, the answer "no"
        traceback.print_exc()
        say("this is a fault of stepscope itself: please report it with what stands above")
        sys.exit(FAULT)
