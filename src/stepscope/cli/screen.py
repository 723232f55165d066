"""What the commands print: Rich on a terminal, plain aligned text into a pipe, one JSON document when asked.

    table([Column("FILE"), Column("LOSS", right=True)], [["a/training.json", "2.3456"]])
    facts([("Loss", "10.8213 → 2.3456")])
    print_json({"loss": float("nan")})          # {"loss": "NaN"}

Answers go to stdout; what is said about them goes to stderr, so that a pipe gets the answer alone.
"""

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "running": "cyan",
    "finished": "green",
    "failed": "red",
    "cut off": "red",
    "stopped": "yellow",
    "error": "red",
    "warning": "yellow",
    "info": "cyan",
}


JOINERS = "\u200c\u200d"  # they hold emoji and Persian words together


class Column(NamedTuple):
    """A column of a table: its side, whether it may be folded on a narrow screen, how soon it is left out."""

    name: str
    right: bool = False
    folds: bool = False
    spare: int = 0


def say(text: str) -> None:
    """A remark on stderr."""
    print(f"stepscope: {clean(text)}", file=sys.stderr)


def put(text: str = "") -> None:
    """A line of the answer."""
    print(text)


def print_json(value: Any) -> None:
    """One JSON document; ASCII, so that no terminal or locale can break it."""
    print(json.dumps(plain(msgspec.to_builtins(value)), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The value with numbers that are not finite by name, as the run file has them."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def clean(text: str) -> str:
    """Text on one line without control characters: a name in a file must not steer the terminal."""
    return "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if char in "\n\r\t":
        return " "
    if char in JOINERS:
        return char
    return char if unicodedata.category(char) not in ("Cc", "Cf", "Cs") else "\N{REPLACEMENT CHARACTER}"


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Rows under headings."""
    texts = [[clean(cell) for cell in row] for row in rows]
    console = _terminal()
    if console is None:
        _plain_table(columns, texts)
    else:
        _rich_table(console, columns, texts)


def facts(rows: Iterable[tuple[str, str]]) -> None:
    """Labels and what there is to say on each, one a line; a line that is too long goes on below itself."""
    texts = [(label, clean(text)) for label, text in rows]
    console = _terminal()
    if console is None:
        width = max((len(label) for label, _ in texts), default=0)
        for label, text in texts:
            put(f"{label:<{width}}  {text}".rstrip())
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for label, text in texts:
        grid.add_row(Text(label, style=STYLES.get(label, "")), Text(text))
    console.print(grid)


def title(text: str, status: str = "") -> None:
    """A heading, with a status in its colour."""
    console = _terminal()
    if console is None:
        put(f"{clean(text)}  {status}".rstrip())
        return
    from rich.text import Text

    console.print(Text.assemble((clean(text), "bold"), *([("  " + status, STYLES.get(status, ""))] if status else [])))


def _terminal() -> "Console | None":
    """Rich's console where stdout is a terminal."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else None


def _plain_table(columns: Sequence[Column], rows: list[list[str]]) -> None:
    from rich.cells import cell_len  # a wide character takes two cells

    lines = [[column.name for column in columns], *rows]
    widths = [max(cell_len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        cells = []
        for cell, column, width in zip(line, columns, widths, strict=True):
            blank = " " * (width - cell_len(cell))
            cells.append(blank + cell if column.right else cell + blank)
        put("  ".join(cells).rstrip())


def _rich_table(console: "Console", columns: Sequence[Column], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = _that_fit(columns, rows, console.width)
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in (columns[at] for at in shown):
        grid.add_column(
            column.name,
            justify="right" if column.right else "left",
            overflow="fold" if column.folds else "ellipsis",
            no_wrap=not column.folds,
        )
    for row in rows:
        grid.add_row(*(Text(row[at], style=STYLES.get(row[at], "")) for at in shown))
    console.print(grid)


def _that_fit(columns: Sequence[Column], rows: list[list[str]], width: int) -> list[int]:
    """The columns that there is room for: the sparest are left out first."""
    from rich.cells import cell_len

    needed = [max(cell_len(line[at]) for line in [[c.name for c in columns], *rows]) for at in range(len(columns))]
    shown = set(range(len(columns)))
    for at in sorted(shown, key=lambda at: -columns[at].spare):
        if columns[at].spare and sum(needed[i] + 2 for i in shown) - 2 > width:
            shown.remove(at)
    return sorted(shown)
