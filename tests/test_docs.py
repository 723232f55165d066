"""The documentation holds: its Python runs and its commands exist.

A page's ```python blocks run in order, in one namespace and an empty folder; `<!-- no-run: why -->` before a block
leaves it out. Commands are looked at wherever they stand: in ```bash and ```console blocks and in `inline code`.
"""

import ast
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import dropwhile, groupby
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.main import get_command

import stepscope
from stepscope.cli.main import app

REPOSITORY = Path(__file__).parent.parent
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])
RUNNABLE = [page for page in PAGES if "```python" in page.read_text()]
MODULES = sorted((REPOSITORY / "src").rglob("*.py"))
TARGETS = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.M))
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


class Block(NamedTuple):
    """A fenced block of a page: its language, its text, the line on which that begins, and whether it runs."""

    language: str
    text: str
    line: int
    runs: bool


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for match in re.finditer(r"(<!-- no-run[^>]*-->\s*)?^```(\w*)\n(.*?)^```$", page, re.M | re.S):
        yield Block(match[2], match[3], page.count("\n", 0, match.start(3)) + 1, match[1] is None)


def commands(page: str) -> Iterator[list[str]]:
    """The `stepscope …` and `make …` commands of a page, word by word."""
    inline = re.findall(r"`((?:stepscope|make) [^`\n]+)`", re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S))
    shown = [(block.language, block.text.replace("\\\n", " ").splitlines()) for block in blocks(page) if block.runs]
    shell = [line for language, lines in shown if language in ("bash", "sh") for line in lines]
    typed = [line for language, lines in shown if language == "console" for line in lines]
    shell += [line.removeprefix("$ ") for line in typed if line.startswith("$ ")]
    for line in [*inline, *shell]:
        for words in simple_commands(line):
            if words and words[0] in ("stepscope", "make"):
                yield words


def simple_commands(line: str) -> Iterator[list[str]]:
    """The parts of a shell's line between pipes, `&&` and `;`, without the variables that are set before them."""
    words = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    words.whitespace_split = True
    for separator, part in groupby(words, key=lambda word: set(word) <= set("|&;<>")):
        if not separator:
            yield list(dropwhile(lambda word: re.match(r"\w+=", word), part))


def unknown(words: list[str]) -> str | None:
    """What of a command does not exist."""
    program, *rest = [word for word in words if word != "…"]
    if program == "make":
        return next((f"make {word}" for word in rest if "=" not in word and word not in TARGETS), None)
    if not rest or rest[0].startswith("-"):
        return None if not rest or rest[0] in ("--help", "-h", "--version") else f"stepscope {rest[0]}"
    if rest[0] not in COMMANDS:
        return f"stepscope {rest[0]}"
    known = {"-h", "--help"} | {option for parameter in COMMANDS[rest[0]].params for option in parameter.opts}
    wrong = [word for word in rest[1:] if word.startswith("-") and word.partition("=")[0] not in known]
    return f"stepscope {rest[0]} {wrong[0]}" if wrong else None


RUNNER = """
import json, sys
page, found = json.load(sys.stdin)
namespace = {"__name__": "__main__"}
for line, text in found:
    exec(compile("\\n" * (line - 1) + text, page, "exec"), namespace)
"""


def run_blocks(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's Python in a new interpreter; a traceback names the page and its line."""
    found = [
        (block.line, block.text) for block in blocks(page.read_text()) if block.language == "python" and block.runs
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEPSCOPE_")}
    return subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps([page.name, found]),
        cwd=folder,
        env=environment | {"WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_python_on_a_page_runs(page: Path, tmp_path: Path) -> None:
    """A reader can paste the blocks of a page one after the other."""
    done = run_blocks(page, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_on_a_page_exist(page: Path) -> None:
    """Every command, target and option that a page names exists."""
    assert not [wrong for words in commands(page.read_text()) if (wrong := unknown(words))]


def test_make_alone_lists_every_target() -> None:
    """Each target is listed with what it is for."""
    done = subprocess.run(["make"], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    listed = dict(re.findall(r"^  make (\w+) +(\S.*)$", done.stdout, re.M))
    assert set(listed) == TARGETS - {"help"}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(REPOSITORY / "src").as_posix())
def test_examples_in_a_module_docstring_are_code(module: Path) -> None:
    """What stands indented in a module's docstring is Python or an existing command; `…` leaves something out."""
    text = ast.get_docstring(ast.parse(module.read_text())) or ""
    for paragraph in re.findall(r"(?:^    .*\n?)+", text, re.M):
        example = textwrap.dedent(paragraph)
        if re.match(r"(stepscope|make) ", example):
            assert not [wrong for words in commands(f"```bash\n{example}\n```") if (wrong := unknown(words))]
        elif re.match(r"(@|with |for |if |from |import |[\w.]+\(|[\w., ]+ = )", example):  # else a sample of data
            ast.parse(example.replace(", …", "").replace("…", "..."))


def test_a_wrong_page_is_found(tmp_path: Path) -> None:
    """Broken Python, a missing command, target and option are seen; what is marked and what is output is not."""
    page = tmp_path / "page.md"
    page.write_text(
        "Use `stepscope shw FILE`.\n\n```console\n$ make demos && stepscope show x --jsn\nstepscope output\n```\n"
        "<!-- no-run: a sketch -->\n```python\nrun.nothing()\n```\n\n"
        "```python\nvalue = 1\n```\n```python\nvalue.missing\n```\n"
    )
    assert [unknown(words) for words in commands(page.read_text())] == [
        "stepscope shw",
        "make demos",
        "stepscope show --jsn",
    ]
    done = run_blocks(page, tmp_path)
    assert done.returncode == 1
    assert 'File "page.md", line 16' in done.stderr


def test_the_public_names_are_documented() -> None:
    """What `stepscope` offers carries a docstring."""
    names = [name for name in stepscope.__all__ if name != "__version__"]
    assert not [name for name in names if not inspect.getdoc(getattr(stepscope, name))]
