"""`stepscope show`: one run on one screen."""

from typing import Annotated, Any

import msgspec
import typer

from ..errors import BadValue
from ..readers.run_file import Run, read_run
from ..readers.summary import Summary, summarize
from .brief import brief
from .files import HERE, Json, RunFile, locate
from .lines import event_lines, lines
from .numbers import count
from .screen import facts, print_json, put, title

EVENTS_SHOWN = 12
PROBLEMS_SHOWN = 5


def show(
    file: RunFile = HERE,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a brief of at most 4 kB, for an issue or an assistant.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show one run on one screen, or as a brief in Markdown.

    It says what ran, how far it is, how loss and speed went, what went wrong and what to do about it. Events stand by
    gravity, the gravest first, those of one rule together. The brief (--markdown) masks values whose name says that
    they are secret; read it before you publish it all the same.

    Exit code: 0.

    \b
    Example:
      stepscope show output/training.json
      stepscope show output --markdown | gh issue create --title "Loss is NaN" --body-file -
    """
    if markdown and as_json:
        raise BadValue("--markdown and --json exclude each other: choose one")
    run = read_run(locate(file))
    summary = summarize(run)
    if as_json:
        print_json(document(run, summary))
    elif markdown:
        put(brief(run, summary).rstrip("\n"))
    else:
        _print_screen(run, summary)


def document(run: Run, summary: Summary) -> dict[str, Any]:
    """What --json prints."""
    header = msgspec.to_builtins(run.header) if run.header else None
    return {"summary": summary, "header": header, "problems": run.problems}


def _print_screen(run: Run, summary: Summary) -> None:
    title(summary.name or summary.path, summary.status or "")
    put()
    named = [("File", summary.path)] if summary.name else []
    facts([*named, *lines(summary, run.header)])
    _print_events(summary)
    _print_problems(run)


def _print_events(summary: Summary) -> None:
    if not summary.events:
        return
    put()
    title("Events")
    rows = []
    for event in summary.events[:EVENTS_SHOWN]:
        text, advice = event_lines(event)
        rows += [(event.severity, text), *([("", f"→ {advice}")] if advice else [])]
    facts(rows)
    _print_rest(len(summary.events), EVENTS_SHOWN)


def _print_problems(run: Run) -> None:
    if not run.problems:
        return
    put()
    title(count(len(run.problems), "problem") + " in the file")
    facts(
        (f"line {p.line}", f"byte {p.offset}: {p.why}: {p.text}".removesuffix(": "))
        for p in run.problems[:PROBLEMS_SHOWN]
    )
    _print_rest(len(run.problems), PROBLEMS_SHOWN)


def _print_rest(number: int, shown: int) -> None:
    if number > shown:
        put(f"and {number - shown} more: see --json")
