"""`stepscope run`: train any script as it is, and watch it.

The script runs in this very process, as `python script.py` would run it: its `__main__`, its arguments, its output,
its exceptions and its exit code are its own. What we say goes to stderr, after its end.
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Annotated, Any

import typer

from ..errors import BadValue, UnknownSetting, nearest
from .screen import say

USAGE = "stepscope run [--output-dir DIR] [--report-to NAME] [--name NAME] [-v] SCRIPT.py|-m MODULE [ARGUMENTS…]"
OPTIONS = {"--output-dir": "output_dir", "--report-to": "report_to", "--name": "name", "--project": "project"}


def run(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[OPTIONS] SCRIPT|-m MODULE [ARGUMENTS]...", help="What python would be given."),
    ],
) -> None:
    """Train any script as it is, and watch it: steps, loss, phases, hardware, memory, verdicts.

    Options come before the script: --output-dir DIR, --report-to wandb|aim|tensorboard, --name NAME, --project NAME,
    -v for a line a step; everything behind it is the script's own. The exit code is the script's.

    \b
    Example:
      stepscope run train.py --lr 3e-4
      stepscope run --output-dir out -m package.train
      torchrun --nproc_per_node=8 -m stepscope run train.py
    """
    raise typer.Exit(run_script(words))  # pragma: no cover - `main` calls run_script before Typer sees the words


def run_script(words: list[str]) -> int:
    """Run a script with these words, watched; returns its exit code."""
    settings, words = parsed(words)
    make, sys.argv = prepared(words)
    from ..automatic import auto

    watching = auto(card=False, console=sys.stderr, **settings)
    status: str = "failed"
    reason: str | None = "it was cut off"
    try:
        module, code = make()
        exec(code, module.__dict__)
        status, reason = "finished", None
        return 0
    except SystemExit as error:
        status, reason = _of_exit(error)
        raise
    except BaseException as error:
        status, reason = _of_error(error, watching)
        error.__traceback__ = _without_us(error)
        raise
    finally:
        _end(watching, status, reason)


def parsed(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The settings before the script, and the rest."""
    settings: dict[str, Any] = {"verbosity": -1}
    words = list(words)
    while words and words[0].startswith("-") and words[0] != "-m":
        name, _, value = words.pop(0).partition("=")
        if name in ("-v", "--verbose"):
            settings["verbosity"] = 0
        elif name in OPTIONS:
            if not value and not words:
                raise BadValue(f"{name} needs a value: {USAGE}")
            settings[OPTIONS[name]] = value or words.pop(0)
        elif name == "--":
            break
        else:
            raise UnknownSetting(f"unknown option {name!r}{nearest(name, OPTIONS)}: {USAGE}")
    if not words or words == ["-m"]:
        raise BadValue(f"no script is given: {USAGE}")
    return settings, words


def prepared(words: list[str]) -> tuple[Callable[[], tuple[ModuleType, CodeType]], list[str]]:
    """What makes the script's `__main__` and its code, and the `sys.argv` that it sees."""
    if words[0] == "-m":
        return lambda: _of_module(words[1]), words[1:]
    if not Path(words[0]).is_file():
        raise BadValue(f"no such script: {words[0]}")
    return lambda: _of_file(words[0]), words


def _of_file(path: str) -> tuple[ModuleType, CodeType]:
    sys.path[0] = str(Path(path).resolve().parent)
    module = _main(path)
    with open(path, "rb") as file:
        return module, compile(file.read(), path, "exec")


def _of_module(name: str) -> tuple[ModuleType, CodeType]:
    sys.path[0] = str(Path.cwd())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None or spec.loader is None:
        raise BadValue(f"no module named {name}")
    module = _main(spec.origin)
    module.__spec__, module.__package__ = spec, spec.parent
    sys.argv[0] = spec.origin
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    return module, code


def _main(path: str) -> ModuleType:
    """A fresh `__main__`, as Python makes it for a script."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = module
    return module


def _of_exit(error: SystemExit) -> tuple[str, str | None]:
    return ("finished", None) if not error.code else ("exited", f"exit code {error.code}")


def _of_error(error: BaseException, watching: Any) -> tuple[str, str]:
    from ..ending import describe

    if watching.scope is not None:
        watching.scope.failed(error)
    return ("stopped" if isinstance(error, KeyboardInterrupt) else "failed"), describe(error)


def _without_us(error: BaseException) -> Any:
    """The traceback as Python would show it: from the script's first line on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _end(watching: Any, status: str, reason: str | None) -> None:
    """Close what we opened, and show the card; whatever goes wrong here is not the script's fault."""
    try:
        scope = watching.scope
        watching.close(status, reason)
        sys.stdout.flush()
        if scope is not None and (lines := scope.card()):
            ended = status if reason is None else f"{status}: {reason}"
            for line in [*lines[:-1], f"ended     {ended}", lines[-1]]:
                print(line, file=sys.stderr)
        else:
            say("stepscope: no training step was seen: nothing called an optimizer's step")
    except Exception as error:  # noqa: BLE001
        say(f"stepscope: the end could not be written: {type(error).__name__}: {error}")
