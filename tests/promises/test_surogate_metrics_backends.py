"""What the document on *surogate metrics* promises of W&B and Aim.

W&B is the real one, offline, read back from its own transaction log. Aim may not install beside current packages,
so its names are those of the table that its sink tracks by.
"""

import json
from types import SimpleNamespace

import pytest

import stepscope
from stepscope.records import Allocator, Gpu, Moe, Segment
from stepscope.tags import tags

from ..sinks.read_back import wandb_log, wandb_rows
from .rows import rows

CONFIG = """
report_to: wandb
wandb_project: my-project
wandb_name: my-run
mode: offline
verbosity: -2
"""
GPU = {
    "id": 0,
    "clock": 1800,
    "max_clock": 2100,
    "fan": 65,
    "power": 350000,
    "power_limit": 400000,
    "temperature": 72,
    "temp_slowdown": 83,
    "gpu_util": 98,
    "mem_util": 85,
    "throttle": "",
    "dram_free": 8589934592,
    "pcie_rx": 1073741824,
    "pcie_tx": 536870912,
}
MOE = {"aux_loss": 0.0234, "z_loss": 0.0012, "expert_utilization": 0.9375, "load_imbalance": 1.45}
SEGMENTS = [{"name": "weights", "device": 4294967296}, {"name": "gradients", "device": 1073741824}]
CONVERTED = ("dram_free", "pcie_rx", "pcie_tx")
MEASURED = [name for name in GPU if name not in ("id", "throttle", *CONVERTED)]


@pytest.fixture(scope="module")
def wandb(tmp_path_factory):
    """The W&B run of the document's numbers: its project, its name, and every value by its key."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.yaml").write_text(CONFIG)
    with stepscope.init(settings=folder / "config.yaml", output_dir=folder) as run:
        run.log_allocator(0, SEGMENTS)
        run.log_step(100, 1.25, 16384, 156, 0.1234, 2.3456, 0.0002)
        run.log_moe_stats(100, *MOE.values())
        run.log_gpu_state(100, **GPU)
        run.log_eval(100, 1.25, 32768, 234, 2.1234)
    (found,) = folder.glob("wandb/offline-run-*")
    named = next(record["run"] for record in wandb_log(found) if record["type"] == "run")
    values = {name: value for row in wandb_rows(found) for name, value in row.items()}
    return SimpleNamespace(run=named, values=values, files=found / "files")


@pytest.mark.promise("surogate/to-backends", "surogate/config-one-backend", "surogate/config-wandb-project")
def test_the_configured_backend_gets_the_run(wandb):
    """“external backends like Weights & Biases (wandb) or Aim”, by “report_to: wandb”, “wandb_project: my-project”."""
    assert (wandb.run["project"], wandb.run["display_name"]) == ("my-project", "my-run")
    assert wandb.values["train/loss"] == 2.3456
    assert wandb.values["eval/loss"] == 2.1234


@pytest.mark.parametrize(
    "name",
    rows(
        "surogate",
        {
            "moe-wandb-aux-loss": "aux_loss",
            "moe-wandb-z-loss": "z_loss",
            "moe-wandb-utilization": "expert_utilization",
            "moe-wandb-imbalance": "load_imbalance",
        },
    ),
)
def test_moe_metrics_have_their_names_in_wandb(wandb, name):
    """“Tracking in External Backends”: `moe/…` with the value that was logged."""
    assert wandb.values[f"moe/{name}"] == MOE[name]


@pytest.mark.promise("surogate/gpu-wandb")
def test_gpu_metrics_have_their_names_in_wandb(wandb):
    """“`gpu/clock`, `gpu/power`, `gpu/temperature`, etc.”: every number, of the only GPU, without its index."""
    assert {name: wandb.values[f"gpu/{name}"] for name in MEASURED} == {name: GPU[name] for name in MEASURED}


@pytest.mark.promise("surogate/gpu-wandb-dram", "surogate/gpu-wandb-pcie")
def test_bytes_are_mebibytes_in_wandb(wandb):
    """“`dram_free` converted to MiB”, “`pcie_rx`/`pcie_tx` converted to MiB/s”."""
    assert [wandb.values[f"gpu/{name}"] for name in CONVERTED] == [8192, 1024, 512]


@pytest.mark.promise("surogate/memory-wandb")
def test_allocations_are_a_pie_in_wandb(wandb):
    """“Pie chart visualization of GPU allocations by segment”."""
    figure = json.loads((wandb.files / wandb.values["allocations.path"]).read_text())
    (pie,) = figure["data"]
    assert (pie["type"], pie["labels"], pie["values"]) == ("pie", ["weights", "gradients"], [4096, 1024])


@pytest.mark.promise("surogate/moe-aim")
def test_moe_metrics_have_the_same_names_in_aim():
    """“Same metric names tracked via `run.track()`”."""
    assert dict(tags(Moe(step=100, **MOE), "aim")) == {f"moe/{name}": value for name, value in MOE.items()}


@pytest.mark.promise("surogate/gpu-aim")
def test_gpu_metrics_carry_the_index_in_aim():
    """“`gpu/{gpu_id}/{metric_name}`”, also where there is one GPU."""
    found = dict(tags(Gpu(step=100, **GPU), "aim"))
    assert {name: found[f"gpu/0/{name}"] for name in MEASURED} == {name: GPU[name] for name in MEASURED}


@pytest.mark.promise("surogate/memory-aim")
def test_segments_are_named_in_aim():
    """“`allocator/{segment_name}_mib` for each segment”."""
    stats = [Segment(**segment) for segment in SEGMENTS]
    assert dict(tags(Allocator(stats=stats), "aim")) == {
        "allocator/weights_mib": 4096.0,
        "allocator/gradients_mib": 1024.0,
    }
