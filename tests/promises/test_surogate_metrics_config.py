"""What the document on *surogate metrics* promises of its configuration file."""

import json

import pytest

import stepscope
from stepscope.config import settings

from .rows import rows


@pytest.fixture
def config(tmp_path):
    """A function that writes lines of YAML and gives the path of the file."""

    def write(*lines):
        path = tmp_path / "config.yaml"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


@pytest.mark.parametrize(
    ("line", "key", "value"),
    rows(
        "surogate",
        {
            "config-one-backend": ("report_to: wandb", "report_to", ("wandb",)),
            "config-many-backends": ("report_to: [wandb, aim]", "report_to", ("wandb", "aim")),
            "config-wandb-project": ("wandb_project: my-project", "wandb_project", "my-project"),
            "config-wandb-name": ("wandb_name: my-run", "wandb_name", "my-run"),
            "config-aim-experiment": ("aim_experiment: my-experiment", "aim_experiment", "my-experiment"),
            "config-aim-repo": ("aim_repo: /path/to/aim/repo", "aim_repo", "/path/to/aim/repo"),
            "config-aim-name": ("aim_name: my-run", "aim_name", "my-run"),
        },
    ),
)
def test_the_documents_line_is_a_setting(config, line, key, value):
    """“Configuration”: the line of YAML sets what it says."""
    assert getattr(settings({}, config(line)), key) == value


@pytest.mark.promise("surogate/config-log-file")
def test_the_log_file_can_be_chosen(config, tmp_path, monkeypatch):
    """“log_file: ./output/training.json”: there the run file lies."""
    monkeypatch.chdir(tmp_path)
    stepscope.init(settings=config("log_file: ./output/training.json", "verbosity: -2")).close()
    assert json.loads((tmp_path / "output" / "training.json").read_text())


@pytest.mark.promise("surogate/config-log-file-default")
def test_the_log_file_lies_in_the_output_folder(config, tmp_path):
    """“Default: {output_dir}/training.json”."""
    stepscope.init(settings=config(f"output_dir: {tmp_path}/out", "verbosity: -2")).close()
    assert json.loads((tmp_path / "out" / "training.json").read_text())


@pytest.mark.promise("surogate/verbosity")
@pytest.mark.parametrize("level", [-1, 0, 1])
def test_the_verbosity_is_a_setting(config, level):
    """“Control console output detail”: the levels of the table, from the file."""
    assert settings({}, config(f"verbosity: {level}")).verbosity == level
