"""Who may import whom: the table of ARCHITECTURE.md, held against every import in src/stepscope.

    imports(Path("src/stepscope"))   # [Import("codec", "errors", "codec.py:19", late=False), …]
    broken(TABLE, found)             # one sentence for each import that the table does not allow

Imports inside functions count as well; those under TYPE_CHECKING do not, since they never run.
"""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "src/stepscope"


class May(NamedTuple):
    """What a module or folder may import, beside the standard library."""

    project: str = ""  # modules and folders of the project; its own folder must be named too
    outside: str = ""  # packages, when it is imported
    late: str = ""  # packages and modules, inside a function only; * is the whole project


ROOT = "records codec schedule errors clock"
DEVICE = "torch numpy pynvml psutil"

TABLE = {
    "__init__": May(),  # its names are resolved late, by name
    "__main__": May("cli"),
    # the vocabulary
    "errors": May(),
    "clock": May(),
    "schedule": May("errors"),
    "records": May("errors records", "msgspec"),
    "codec": May("records errors", "msgspec"),
    # the door: everything that it needs comes with the first run, so it costs the import of stepscope nothing
    "scalars": May(ROOT),  # it finds torch in sys.modules, where the caller has loaded it
    "config": May(f"{ROOT} plain", "msgspec", late="yaml"),
    "profiling_tags": May("records"),
    "tags": May(f"{ROOT} profiling_tags", "msgspec"),
    "plain": May(ROOT, "msgspec"),
    "fields": May(f"{ROOT} scalars plain", "msgspec"),
    "header": May(f"{ROOT} config __init__", "msgspec"),
    "ending": May(),
    "sinks": May(f"{ROOT} config tags profiling_tags sinks", "msgspec", late="wandb aim tensorboard plotly rich"),
    "route": May(f"{ROOT} config plain header ending sinks", "msgspec"),
    "run": May(f"{ROOT} scalars fields config header ending route sinks.sink", "msgspec"),
    "start": May(f"{ROOT} config run sinks.sink"),
    # what measures, and what decides when
    "hardware": May(f"{ROOT} hardware", late=DEVICE),
    "speed": May(f"{ROOT} speed hardware.peaks", "torch numpy msgspec"),
    "health": May(f"{ROOT} health", "torch numpy"),
    "mup": May(f"{ROOT} mup health.activations", "torch numpy"),
    "diagnose": May(f"{ROOT} diagnose"),
    # `watch` itself loads nothing before it is called; what it makes may use all that measures
    "monitor": May(f"{ROOT} run", late="torch automatic monitor.scope"),
    **{
        f"monitor.{name}": May(f"{ROOT} run sinks.place diagnose hardware speed monitor", "torch msgspec")
        for name in ("scope", "teller", "machine", "estimate", "peaks", "numbering", "steps")
    },
    "automatic": May(f"{ROOT} run ending", late="torch monitor.scope"),
    "integrations": May(f"{ROOT} run monitor integrations", late="torch transformers lightning accelerate"),
    # the other side of the file
    "readers": May(f"{ROOT} diagnose tags profiling_tags readers", "msgspec", late="pyarrow"),
    "dashboard": May(f"{ROOT} readers dashboard", "starlette uvicorn msgspec"),
    "cli": May(f"{ROOT} __init__ tags readers sinks cli", "msgspec typer click rich", late="* pyarrow torch"),
}


class Import(NamedTuple):
    """One import: both names are relative to the package, `outside.torch` where it leads out of it."""

    importer: str
    imported: str
    place: str
    late: bool


def imports(package: Path) -> list[Import]:
    """Every import of every module of `package`."""
    return [edge for path in sorted(package.rglob("*.py")) for edge in _imports_of(path, package)]


def _imports_of(path: Path, package: Path) -> Iterator[Import]:
    importer = _module(path, package)
    here = [package.name, *path.relative_to(package).parent.parts]
    for node, late in _import_nodes(ast.parse(path.read_text()), late=False):
        for target in _targets(node, here):
            imported = _existing(target, package)
            if imported and imported != importer:
                yield Import(importer, imported, f"{path.relative_to(package)}:{node.lineno}", late)


def _module(path: Path, package: Path) -> str:
    name = path.relative_to(package).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


def _import_nodes(tree: ast.AST, late: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for branch in node.orelse:
                yield from _import_nodes(branch, late)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, late
        else:
            yield from _import_nodes(node, late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _targets(node: ast.Import | ast.ImportFrom, here: list[str]) -> list[str]:
    """The full names that a statement imports, seen from the folder `here`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = here[: len(here) + 1 - node.level] if node.level else []
    stem = [*base, node.module] if node.module else base
    return [".".join([*stem, alias.name]) for alias in node.names]


def _existing(target: str, package: Path) -> str | None:
    """The module of `package` that a full name leads to, `outside.x`, or None for the standard library."""
    head, *rest = target.split(".")
    if head != package.name:
        return None if head in sys.stdlib_module_names else f"outside.{head}"
    while rest and not package.joinpath(*rest).with_suffix(".py").exists() and not package.joinpath(*rest).is_dir():
        rest.pop()
    return ".".join(rest) or "__init__"


def broken(table: dict[str, May], found: list[Import]) -> list[str]:
    """A sentence for every import that `table` does not allow."""
    return [f"{edge.place}: {edge.importer} may not import {edge.imported}" for edge in found if not _may(table, edge)]


def _may(table: dict[str, May], edge: Import) -> bool:
    entry = table[_entry(table, edge.importer)]
    late = entry.late.split() if edge.late else []
    if edge.imported.startswith("outside."):
        return edge.imported.removeprefix("outside.") in [*entry.outside.split(), *late]
    return "*" in late or any(_within(edge.imported, name) for name in [*entry.project.split(), *late])


def _entry(table: dict[str, May], module: str) -> str:
    rows = [name for name in table if _within(module, name)]
    assert rows, f"{module} is in no row of the table: add one, here and in ARCHITECTURE.md"
    return max(rows, key=len)


def _within(module: str, folder: str) -> bool:
    return module == folder or module.startswith(f"{folder}.")


def cycle(found: list[Import]) -> list[str]:
    """The modules of one import cycle, empty where there is none."""
    graph: dict[str, set[str]] = {}
    for edge in found:
        graph.setdefault(edge.importer, set()).add(edge.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_import_is_one_that_the_table_allows() -> None:
    """No module imports what its row of the table does not name."""
    found = imports(PACKAGE)
    assert len(found) > 10, "the graph was not drawn"
    assert not broken(TABLE, found)


def test_there_is_no_cycle() -> None:
    """No module imports itself by a detour, not even inside functions."""
    assert not cycle(imports(PACKAGE))


@pytest.mark.parametrize("folder", ["examples", "trainers"])
def test_programs_use_public_names_only(folder: str) -> None:
    """Examples and trainers import stepscope itself and none of its modules."""
    programs = list((REPOSITORY / folder).rglob("*.py"))
    nodes = [node for path in programs for node, _ in _import_nodes(ast.parse(path.read_text()), late=False)]
    modules = [
        node.module if isinstance(node, ast.ImportFrom) else alias.name for node in nodes for alias in node.names
    ]
    assert not [name for name in modules if name and name.startswith("stepscope.")]


FAKE = {
    "__init__.py": "",
    "records.py": "import json\nimport msgspec\n",
    "run.py": "from typing import TYPE_CHECKING\nfrom .records import Step\nif TYPE_CHECKING:\n    import torch\n",
    "sinks/__init__.py": "",
    "sinks/file.py": "def write(record):\n    import wandb\n",
}


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("records.py", "import torch", "records.py:1: records may not import outside.torch"),
        ("run.py", "def log():\n    import torch", "run.py:2: run may not import outside.torch"),
        ("run.py", "from .readers import run_file", "run.py:1: run may not import readers.run_file"),
        ("sinks/file.py", "import wandb", "sinks/file.py:1: sinks.file may not import outside.wandb"),
        ("sinks/file.py", "from ..run import X", "sinks/file.py:1: sinks.file may not import run"),
        ("sinks/file.py", "from .. import run", "sinks/file.py:1: sinks.file may not import run"),
        ("sinks/__init__.py", "import fake.run", "sinks/__init__.py:1: sinks may not import run"),
        (
            "readers/run_file.py",
            "if 1:\n from ..sinks.file import X",
            "readers/run_file.py:2: readers.run_file may not",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, path: str, text: str, complaint: str) -> None:
    """The checker names the line of an import that goes against the table, and only that one."""
    package = write_tree(tmp_path / "fake", FAKE | {"readers/run_file.py": ""})
    assert broken(TABLE, imports(package)) == []
    (package / path).write_text(text)
    (sentence,) = broken(TABLE, imports(package))
    assert sentence.startswith(complaint)


def test_a_planted_cycle_is_found(tmp_path: Path) -> None:
    """A cycle is named, also one that closes inside a function."""
    package = write_tree(tmp_path / "fake", FAKE | {"records.py": "def late():\n    from .run import x"})
    assert set(cycle(imports(package))) == {"records", "run"}


def test_a_module_without_a_row_is_found(tmp_path: Path) -> None:
    """A new module must be given a row before it may import anything."""
    package = write_tree(tmp_path / "fake", FAKE | {"stray.py": "import torch"})
    with pytest.raises(AssertionError, match="stray is in no row"):
        broken(TABLE, imports(package))


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
