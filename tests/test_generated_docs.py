"""The generated parts of docs/ say what the code says, and the JSON Schema describes what the logger writes."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from jsonschema import Draft202012Validator as Validator

import stepscope
from stepscope.codec import decode, encode
from stepscope.records import KINDS, SCHEMA_VERSION

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_are_current(generator: ModuleType) -> None:
    """docs/ says what the code says; `make docs` brings it up to date."""
    stale = [path.name for path, text in generator.made().items() if path.read_text() != text]
    assert not stale, "run `make docs`"


def test_there_is_an_example_of_every_kind(generator: ModuleType) -> None:
    """Each kind has one example line, and the line reads back as the record that it was made from."""
    assert sorted(record.kind for record in generator.EXAMPLES) == sorted(KINDS)
    for record in generator.EXAMPLES:
        assert decode(encode(record)) == record or b"NaN" in encode(record)


@pytest.fixture(scope="module")
def validator() -> Validator:
    """The published schema."""
    schema = json.loads((DOCS / "run-file.schema.json").read_text())
    Validator.check_schema(schema)
    return Validator(schema)


def test_the_schema_takes_what_the_logger_writes(validator: Validator, generator: ModuleType, tmp_path: Path) -> None:
    """A file with every kind, with numbers that are not finite and with a kind of tomorrow is valid."""
    with stepscope.TrainingRunLogger(tmp_path / "training.json", verbosity=-2, config={"a": float("nan")}) as run:
        run.log_step(1, 0.5, 1024, 100, float("inf"), float("nan"), 1e-3)
        run.log({"accuracy": 0.5}, step=1)
    written = json.loads((tmp_path / "training.json").read_text())
    assert {"run", "step", "metrics", "end"} <= {record["log"] for record in written}
    examples = [json.loads(encode(record)) for record in generator.EXAMPLES[1:]]
    validator.validate([*written, *examples, {"log": "tomorrow", "anything": 1}])


@pytest.mark.parametrize(
    "record",
    [
        {"log": "step", "time": "", "step": 1.5},
        {"log": "step", "time": "", "step": 1, "loss": "nan"},
        {"log": "step", "time": "", "step": 1, "loss": None},
        {"log": "step", "time": ""},
        {"log": "allocator", "time": "", "step": 0, "stats": [{"name": "weights"}]},
        {"step": 1},
    ],
    ids=str,
)
def test_the_schema_refuses_what_no_run_file_holds(
    validator: Validator, generator: ModuleType, record: dict[str, object]
) -> None:
    """A wrong type, a missing field, a null and an unknown name of a number are refused."""
    header = json.loads(encode(generator.EXAMPLES[0]))
    assert validator.is_valid([header])
    assert not validator.is_valid([header, record])


def test_the_page_names_the_schema_version() -> None:
    """The page and the records agree on the version."""
    assert f"schema version {SCHEMA_VERSION}" in (DOCS / "run-file.md").read_text()
