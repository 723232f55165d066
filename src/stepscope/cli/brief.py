"""A run in at most 4 kB of Markdown, to paste into an issue or hand to an assistant.

    print(brief(run, summarize(run)))

What matters most comes first: state, numbers, events, problems, the loss curve, the last steps, the surroundings, the
configuration. Where there is no room left, the rest is left out and the last line says so.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from .. import __version__
from ..readers.run_file import Run
from ..readers.summary import Summary
from ..records import Header, Step
from .lines import event_lines, lines
from .numbers import milliseconds, number
from .screen import clean

LIMIT = 4000  # bytes of UTF-8
LINE_LIMIT = 400
SECRET = re.compile(r"token$|secret|passw|(api|access|private)[-_]?key|credential", re.IGNORECASE)


def brief(run: Run, summary: Summary) -> str:
    """The brief, cut at a whole line so that it keeps within the limit."""
    left_out = "\n*(cut to fit: {} lines left out; `stepscope show --json` has everything)*\n"
    room = LIMIT - len(left_out.encode()) - 8
    kept: list[str] = []
    every = [_cut(line, LINE_LIMIT) for line in _lines(run, summary)]
    for line in every:
        room -= len(line.encode()) + 1
        if room < 0:
            return "\n".join(kept).rstrip() + "\n" + left_out.format(len(every) - len(kept))
        kept.append(line)
    return "\n".join(kept).rstrip() + "\n"


def _lines(run: Run, summary: Summary) -> Iterator[str]:
    yield f"# {_text(summary.name or summary.path)}: {summary.status or 'n/a'}"
    yield ""
    for label, text in lines(summary, masked(run.header)):
        yield f"- **{label}**: {_text(text)}"
    yield from _events(summary)
    yield from _problems(run)
    yield from _curve(run.steps)
    yield from _surroundings(run.header)


def _events(summary: Summary) -> Iterator[str]:
    if summary.events:
        yield from ("", "## Events", "")
    for event in summary.events:
        text, advice = event_lines(event)
        yield f"- **{event.severity}**: {_text(text)}" + (f" → *{_text(advice)}*" if advice else "")


def _problems(run: Run) -> Iterator[str]:
    if run.problems:
        yield from ("", "## Problems in the file", "")
    for problem in run.problems:
        yield f"- line {problem.line}, byte {problem.offset}: {_text(problem.why)}"


def _curve(steps: Sequence[Step]) -> Iterator[str]:
    """The loss at ten places over the run, and the last five steps."""
    if not steps:
        return
    places = {round(at * (len(steps) - 1) / 9) for at in range(10)} | set(range(max(0, len(steps) - 5), len(steps)))
    yield from ("", "## Steps", "", "| step | loss | norm | lr | ms |", "|---|---|---|---|---|")
    for step in (steps[at] for at in sorted(places)):
        lr = "n/a" if step.lr is None else f"{step.lr:.3g}"
        time = milliseconds(step.duration_ms).removesuffix(" ms")
        yield f"| {step.step} | {number(step.loss)} | {number(step.norm)} | {lr} | {time} |"


def _surroundings(header: Header | None) -> Iterator[str]:
    yield from ("", "## Surroundings", "")
    versions = header.versions if header and header.versions else {}
    yield _text(", ".join(f"{name} {version}" for name, version in {"stepscope": __version__, **versions}.items()))
    if header is None or not header.config:
        return
    yield from ("", "## Configuration", "")
    flat = dict(_flat(header.config))
    for name, value in flat.items():
        yield f"- `{_text(name)}`: `{_text(value)}`"


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The configuration as dotted names and values, secrets masked."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    else:
        hidden = SECRET.search(name.rpartition(".")[2]) and value
        yield name or "config", "***" if hidden else value if isinstance(value, str) else json.dumps(value)


def masked(header: Header | None) -> Header | None:
    """The header without the values of arguments that are secret by their name: --x-token V and --x-token=V."""
    if header is None or not header.argv:
        return header
    words: list[str] = []
    for before, word in pairwise(["", *header.argv]):
        name, equals, _ = word.partition("=")
        if before.startswith("-") and SECRET.search(before):
            words.append("***")
        else:
            words.append(f"{name}=***" if equals and SECRET.search(name) else word)
    return replace(header, argv=words)


def _text(text: str) -> str:
    """Text that cannot break out of its line, its table or its code span."""
    return clean(text).replace("`", "'").replace("|", "¦")


def _cut(line: str, limit: int) -> str:
    """The line within so many bytes of UTF-8."""
    data = line.encode("utf-8", "replace")
    return line if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "…"
