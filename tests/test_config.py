"""Settings from code, environment and YAML, and what is said of those that do not exist."""

from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.config import Settings, describe, settings
from stepscope.errors import StepscopeError

DOCUMENT = """\
# config.yaml
report_to: [wandb, aim]

wandb_project: my-project
wandb_name: my-run

aim_experiment: my-experiment
aim_repo: /path/to/aim/repo
aim_name: my-run

log_file: ./output/training.json  # Default: {output_dir}/training.json
output_dir: ./output
verbosity: -1
"""


def from_text(tmp_path: Path, text: str, **code: Any) -> Settings:
    """The settings of a YAML file with this text."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return settings(code, path, {})


def test_the_documents_file_is_understood(tmp_path: Path) -> None:
    """Every key of it."""
    found = from_text(tmp_path, DOCUMENT)
    assert found.report_to == ("wandb", "aim")
    assert (found.wandb_project, found.wandb_name) == ("my-project", "my-run")
    assert (found.aim_experiment, found.aim_repo, found.aim_name) == ("my-experiment", "/path/to/aim/repo", "my-run")
    assert (found.log_file, found.output_dir, found.verbosity) == ("./output/training.json", "./output", -1)


@pytest.mark.parametrize(
    ("value", "names"),
    [("wandb", ("wandb",)), ("none", ()), ("wandb, Aim", ("wandb", "aim")), (["tensorboard"], ("tensorboard",))],
)
def test_report_to_is_one_name_or_several(value: Any, names: tuple[str, ...]) -> None:
    """A name twice is once."""
    assert settings({"report_to": value}, environ={}).report_to == names


def test_code_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    """And the default comes last."""
    path = tmp_path / "config.yaml"
    path.write_text("project: file\nname: file\nmode: offline\n")
    environ = {"STEPSCOPE_CONFIG": str(path), "STEPSCOPE_PROJECT": "shell", "STEPSCOPE_NAME": "shell", "OTHER": "x"}
    found = settings({"name": "code", "project": None}, environ=environ)
    assert (found.name, found.project, found.mode, found.output_dir) == ("code", "shell", "offline", "output")


def test_the_environment_speaks_in_words() -> None:
    """Numbers and truth values are read from their text; names that look like numbers stay names."""
    environ = {
        "STEPSCOPE_VERBOSITY": "-1",
        "STEPSCOPE_STRICT": "true",
        "STEPSCOPE_RESUME": "0",
        "STEPSCOPE_TOTAL_EPOCHS": "2.5",
        "STEPSCOPE_REPORT_TO": "wandb,aim",
        "STEPSCOPE_NAME": "42",
    }
    found = settings({}, environ=environ)
    assert (found.verbosity, found.strict, found.resume, found.total_epochs) == (-1, True, False, 2.5)
    assert (found.report_to, found.name) == (("wandb", "aim"), "42")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ({"wandb_projekt": "x"}, "did you mean 'wandb_project'"),
        ({"report_to": "wandbb"}, "did you mean 'wandb'"),
        ({"mode": "offlin"}, "did you mean 'offline'"),
        ({"verbosity": 3}, "verbosity 3"),
        ({"verbosity": True}, "verbosity True"),
        ({"total_steps": 0}, "total_steps must be positive"),
        ({"total_steps": "many"}, "total_steps = 'many'"),
        ({"project": 3}, "project = 3"),
    ],
)
def test_what_cannot_be_set_is_an_error_that_helps(code: dict[str, Any], words: str) -> None:
    """With the nearest name that exists, or the value."""
    with pytest.raises(StepscopeError, match=words):
        settings(code, environ={})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("verbositi: 1", r"'verbositi' in .*\.yaml; did you mean 'verbosity'"),
        ("- a\n- b", "key: value"),
        ("a: [", "not YAML"),
        ("verbosity: loud", "verbosity 'loud'"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    """With what is wrong in it."""
    with pytest.raises(StepscopeError, match=words):
        from_text(tmp_path, text)


def test_a_misspelt_variable_is_an_error() -> None:
    """It would have no effect, in silence."""
    with pytest.raises(StepscopeError, match="'STEPSCOPE_MOD'; did you mean 'STEPSCOPE_MODE'"):
        settings({}, environ={"STEPSCOPE_MOD": "offline"})


def test_a_name_that_looks_like_a_number_is_a_name(tmp_path: Path) -> None:
    """YAML does not know that names are text."""
    assert from_text(tmp_path, "wandb_name: 2026\nproject: 1.5").wandb_name == "2026"


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    """All defaults."""
    assert from_text(tmp_path, "") == settings({}, environ={}) == Settings()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(StepscopeError, match=r"none\.yaml"):
        stepscope.init(settings=tmp_path / "none.yaml")


def test_every_setting_says_what_it_does() -> None:
    """The documentation is made from that."""
    assert set(describe()) == set(Settings.__struct_fields__)
    assert all(describe().values())
