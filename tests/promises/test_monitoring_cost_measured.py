"""What the document on *monitoring cost* promises in numbers, and of hardware and widths: measured, right or wrong."""

import json
import re

import pytest

import stepscope

from .absence import ROOT, command, make
from .rows import rows

COST = pytest.mark.waits("make bench-cost")
COORDINATES = pytest.mark.waits("stepscope.coordinate_check")

CLAIMS = {
    "cost-grad-norm": "Gradient norm computation",
    "cost-param-norm": "Parameter norm computation",
    "cost-wandb": "Basic logging to W&B",
    "cost-file": "Local file logging",
    "cost-spectral": "Spectral norm computation",
    "cost-activations": "Activation statistics",
    "cost-full": "Full monitoring",
    "memory-wandb": "Client memory",
    "memory-buffers": "Metric buffers",
    "memory-hooks": "Activation hooks",
    "memory-spectral": "Spectral norm",
    "memory-norms": "Gradient/param norms",
}


@pytest.fixture(scope="module")
def cost_table():
    """The rows of the measured table, as it is printed and as it stands in the documentation."""
    printed = make("bench-cost")
    documented = (ROOT / "docs" / "cost.md").read_text()
    return [line for line in (printed + "\n" + documented).splitlines() if "|" in line]


@COST
@pytest.mark.parametrize("claim", rows("cost", CLAIMS))
def test_the_claim_is_measured(cost_table, claim):
    """“Performance Impact Analysis”, “Memory Impact”: the measured value stands beside it, printed and documented."""
    found = [line for line in cost_table if claim in line and re.search(r"\d (ms|MB|MiB|kB|KiB)", line)]
    assert len(found) >= 2


@pytest.mark.promise("cost/wandb-mfu")
def test_the_peaks_of_the_documents_gpus_are_known():
    """“Automatically detects H100/B200/A100”: their dense BF16 peaks are in the table."""
    table = json.dumps(json.loads(command("peaks", "--json")))
    assert all(
        re.search(name + r".*?" + peak, table) for name, peak in (("A100", "312"), ("B200", "2[25]"), ("H100", "989"))
    )


@pytest.mark.promise("cost/wandb-memory")
def test_peak_and_reserved_memory_are_tracked(profiled):
    """“Peak and reserved memory usage” of the GPU, in the records of its memory."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    newest = [record for record in stepscope.read_run(profiled.file).records("memory") if record.id == 0][-1]
    assert 0 < newest.allocated <= newest.peak_allocated <= newest.reserved


@pytest.mark.promise("cost/wandb-tokens")
def test_tokens_per_second_are_known(tmp_path):
    """“Tokens per second” of each step, from the run file."""
    with stepscope.TrainingRunLogger(tmp_path / "log.json", verbosity=-2) as log:
        log.log_step(1, 0.1, 1000, 20, 0.7, 3.1, 1e-4)
    assert list(stepscope.read_run(tmp_path / "log.json").series("tokens_per_second").values) == [50_000.0]


@pytest.mark.promise("cost/wandb-step-timing")
def test_step_times_are_analysed(profiled):
    """“step timing analysis”: mean and spread of the step's time."""
    assert 0 < profiled.values("batch_time_std")[-1] < profiled.values("batch_time_avg")[-1]


def sizes(widths):
    """Activation sizes of a small muP network by layer and width, after a few steps."""
    check = stepscope.coordinate_check
    import torch

    def model(width):
        return torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 8))

    return check(model, widths=widths, data=torch.randn(16, 8), steps=3)


@COORDINATES
@pytest.mark.promise("cost/mup-coordinates", "cost/pattern-mup-check", "cost/research-coordinates", "cost/validate-mup")
def test_activations_stay_of_one_size_across_widths():
    """“Activation magnitude stability across widths”: “Use coordinate checking functionality”.

    “Detailed coordinate checking for MuP validation”, “Use coordinate checking to ensure proper implementation”.
    """
    assert sizes([64, 128, 256]).passed


@COORDINATES
@pytest.mark.promise("cost/mup-widths", "cost/mup-transfer")
def test_widths_stand_side_by_side():
    """“Side-by-side comparison of different model widths”, the ground of “Hyperparameter transfer verification”."""
    found = sizes([64, 128])
    assert {row["width"] for row in found.rows} == {64, 128}
