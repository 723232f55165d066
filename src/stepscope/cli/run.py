"""`stepscope run`: train any script as it is, and watch it.

The script runs in this very process, as `python script.py` would run it: its `__main__`, its arguments, its output,
its exceptions and its exit code are its own. What we say goes to stderr, after its end.
"""

import atexit
import builtins
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Annotated, Any

import typer

from ..errors import BadValue, StepscopeError, UnknownSetting, nearest
from .screen import say

UNUSABLE = 2
PACKAGE = Path(__file__).parents[1]
AROUND = {str(PACKAGE / name) for name in ("cli/run.py", "speed/patches.py", "speed/roots.py")}

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
    -v for a line a step; everything behind it is the script's own. What was seen is then in the run file, for
    `stepscope show FILE` and, with --json, for programs.

    \b
    Example:
      stepscope run train.py --lr 3e-4
      stepscope run --output-dir out -m package.train
      torchrun --nproc_per_node=8 -m stepscope run train.py

    Exit code: 0 and every other one is the script's own; 2 also where there is no such script.
    """
    raise typer.Exit(run_script(words))  # pragma: no cover - `main` calls run_script before Typer sees the words


def run_script(words: list[str]) -> int:
    """Run a script with these words, watched; its exceptions and exits go their way, and 0 is returned else."""
    try:
        settings, words = parsed(words)
        make, sys.argv = prepared(words)
    except StepscopeError as error:
        say(str(error))
        return UNUSABLE
    from ..automatic import auto

    watching = auto(card=False, console=sys.stderr, **settings)
    how: tuple[str, str | None] = ("finished", None)
    try:
        module, code = make()
        exec(code, module.__dict__)
        return 0
    except SystemExit as error:
        how = _of_exit(error)
        raise
    except BaseException as error:
        watching.failed(error)
        how = _of_error(error)
        show_without_us(error)
        raise
    finally:
        if not any(thread.is_alive() and not thread.daemon for thread in threading.enumerate()[1:]):
            _close(watching, *how)  # else one of them may train
        atexit.register(_end, watching, *how)  # behind what Python says, and behind the script's own threads


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
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(path).resolve().parent)
    module = _main(os.path.join(os.getcwd(), path))
    module.__loader__ = SourceFileLoader("__main__", module.__file__)  # type: ignore[arg-type]
    with open(path, "rb") as file:
        return module, compile(file.read(), module.__file__ or path, "exec", dont_inherit=True)


def _of_module(name: str) -> tuple[ModuleType, CodeType]:
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None or spec.loader is None:
        raise ImportError(f"No module named {name}")
    module = _main(spec.origin)
    module.__spec__, module.__package__, module.__loader__ = spec, spec.parent, spec.loader
    module.__cached__ = spec.cached  # type: ignore[attr-defined]
    sys.argv[0] = spec.origin
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    return module, code


def _main(path: str) -> ModuleType:
    """A fresh `__main__`, as Python makes it for a script."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None, __annotations__={})
    sys.modules["__main__"] = module
    return module


def _of_exit(error: SystemExit) -> tuple[str, str | None]:
    return ("finished", None) if not error.code else ("exited", f"exit code {error.code}")


def _of_error(error: BaseException) -> tuple[str, str]:
    from ..ending import describe

    return ("stopped" if isinstance(error, KeyboardInterrupt) else "failed"), describe(error)


def show_without_us(error: BaseException) -> None:
    """Have Python show the traceback that it would show without us, through the script's own hook if it has one."""
    without_us(error, set())
    trace, hook = error.__traceback__, sys.excepthook

    def excepthook(kind: Any, value: Any, _: Any) -> None:
        sys.excepthook = hook
        if value is error:
            error.__traceback__ = trace  # we stood on the stack that it went up through
            sys.last_traceback = trace
        hook(kind, value, value.__traceback__)

    sys.excepthook = excepthook


def without_us(error: BaseException, seen: set[int]) -> None:
    """Take what stands around the script's calls out of its tracebacks."""
    if id(error) in seen:
        return
    seen.add(id(error))
    trace = error.__traceback__
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    error.__traceback__ = trace
    while trace is not None:
        while trace.tb_next is not None and _is_ours(trace.tb_next):
            trace.tb_next = trace.tb_next.tb_next
        trace = trace.tb_next
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(other, BaseException):
            without_us(other, seen)


def _is_ours(trace: Any) -> bool:
    return str(trace.tb_frame.f_code.co_filename) in AROUND


def _close(watching: Any, status: str, reason: str | None) -> None:
    """Close what we opened; whatever goes wrong here is not the script's fault."""
    try:
        watching.close(status, reason)
    except Exception as error:  # noqa: BLE001
        say(f"the end could not be written: {type(error).__name__}: {error}")


def _end(watching: Any, status: str, reason: str | None) -> None:
    """Show the card; of several ranks, the first one's."""
    _close(watching, status, reason)
    if watching.is_forked or watching.stepped_aside or os.environ.get("RANK", "0") != "0":
        return
    with suppress(Exception):
        sys.stdout.flush()
    try:
        lines = watching.card()
        if not lines:
            say("no training step was seen: nothing called an optimizer's step")
        ended = status if reason is None else f"{status}: {reason}"
        for line in [*lines[:-1], f"ended     {ended}", lines[-1]] if lines else []:
            print(line, file=sys.stderr)
    except Exception as error:  # noqa: BLE001
        say(f"the card could not be shown: {type(error).__name__}: {error}")
