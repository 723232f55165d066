"""`stepscope peaks`."""

import json

import pytest
import typer
from typer.testing import CliRunner

from stepscope.cli.peaks import peaks
from stepscope.hardware import nvml as hardware_nvml
from stepscope.hardware import peaks as known
from stepscope.hardware.peaks import TABLE, Peaks
from stepscope.records import GpuModel


class Gpus:
    """A machine with GPUs of these names."""

    def __init__(self, *names):
        self.models = lambda: [GpuModel(id=id, name=name) for id, name in enumerate(names)]
        self.close = lambda: None


@pytest.fixture
def ask(monkeypatch):
    """Calls the command on a machine with the GPUs named; its CPU has a figure already."""
    app = typer.Typer()
    app.command()(peaks)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(known, "cpu_peaks", lambda: Peaks("CPU, 2 threads", fp32=0.2263, source="measured"))
    monkeypatch.setattr(known, "measure", lambda device: Peaks(device, bf16=0.91, source="measured"))

    def call(*words, gpus=()):
        monkeypatch.setattr(hardware_nvml.Nvml, "open", lambda ticking: Gpus(*gpus))
        return CliRunner().invoke(app, list(words))

    return call


def test_the_gpu_of_this_machine_is_marked(ask):
    """Its row comes first, with an arrow; the others follow, each once."""
    done = ask(gpus=["NVIDIA H200", "NVIDIA H200"])
    heading, first, *others = done.stdout.splitlines()
    assert heading.split() == ["DEVICE", "TF32", "BF16", "FP16", "FP8", "FP4", "FP32", "GB/S", "SOURCE"]
    assert " ".join(first.split()) == "→ H200 494.7 989.4 989.4 1978.9 n/a 66.9 4800 H200 datasheet"
    assert len(others) == len(TABLE) - 1
    assert not [line for line in others if "→" in line]
    assert done.exit_code == 0


def test_without_a_gpu_the_cpu_is_marked(ask):
    """It is measured, or known from the last time."""
    first = ask().stdout.splitlines()[1]
    assert " ".join(first.split()) == "→ CPU, 2 threads n/a n/a n/a n/a n/a 0.226 n/a measured"


def test_an_unknown_gpu_is_na_with_one_remark(ask):
    """No row is taken for another; stderr says what to do."""
    done = ask("--json", gpus=["NVIDIA X9000"])
    row = json.loads(done.stdout)[0]
    assert (row["name"], row["bf16"], row["here"]) == ("NVIDIA X9000", None, True)
    assert done.stderr.count("no peaks are known of NVIDIA X9000") == 1
    assert "--measure" in done.stderr


def test_measuring_adds_a_row(ask):
    """A CPU is measured now, whatever the file remembers."""
    rows = json.loads(ask("--json", "--measure").stdout)
    assert [(row["name"], row["bf16"]) for row in rows if row["here"]] == [("cpu", 0.91)]


def test_json_has_every_row_with_its_source(ask):
    """One object a row, numbers as they are, what is unknown null, and exactly one that is here."""
    rows = json.loads(ask("--json", gpus=["NVIDIA L40S"]).stdout)
    assert len(rows) == len(TABLE)
    assert [row["name"] for row in rows if row["here"]] == ["L40S"]
    assert all(row["source"] for row in rows)
    assert next(row for row in rows if row["name"] == "A100 40GB")["bandwidth"] == 1555
