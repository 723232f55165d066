"""What the document on *monitoring cost* promises: the monitor's metrics, its intervals, its patterns of use."""

import re

import pytest

import stepscope

from .absence import program
from .rows import rows

MONITOR = pytest.mark.waits("stepscope.TrainingMonitor")
LOGGER = pytest.mark.waits("stepscope.SimpleLogger")
SPEEDRUN = pytest.mark.waits("trainers/speedrun/train.py")


def monitored(**options):
    """A monitor of a small model that has gradients, and the model."""
    monitor = stepscope.TrainingMonitor  # what waits for it fails here
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    made = monitor(model, **options)
    model(torch.randn(32, 8)).square().mean().backward()
    return made, model


EVERYTHING = {"monitor_interval": 1, "enable_spectral_norms": True, "enable_activation_stats": True}
NORMS = {
    "advanced-grad-norm": "grad_norm",
    "advanced-param-norm": "param_norm",
    "advanced-spectral-max": "spectral_norm_max",
    "advanced-spectral-mean": "spectral_norm_mean",
    "advanced-spectral-std": "spectral_norm_std",
}


@MONITOR
@pytest.mark.parametrize("name", rows("cost", NORMS))
def test_the_monitor_collects_the_norm(name):
    """“Advanced Monitoring Metrics (Configurable)”: the norm is there, and equal to its definition."""
    monitor, model = monitored(**EVERYTHING)
    collected = monitor.collect(step=0)
    import torch

    gradients, weights = [p.grad for p in model.parameters()], list(model.parameters())
    spectra = torch.tensor([torch.linalg.matrix_norm(w.detach(), 2) for w in weights if w.ndim == 2])
    known = {
        "grad_norm": torch.cat([g.flatten() for g in gradients]).norm(),
        "param_norm": torch.cat([w.detach().flatten() for w in weights]).norm(),
        "spectral_norm_max": spectra.max(),
        "spectral_norm_mean": spectra.mean(),
        "spectral_norm_std": spectra.std(correction=0),
    }
    assert collected[name] == pytest.approx(float(known[name]), rel=0.01)


@MONITOR
@pytest.mark.parametrize(
    "statistic",
    rows("cost", {f"advanced-layer-{s.replace('_', '-')}": s for s in ("mean", "std", "max", "min", "l2_norm")}),
)
def test_the_monitor_collects_the_statistic_of_a_layer(statistic):
    """“`{layer}_mean/std/max/min/l2_norm`: Activation statistics (expensive)”, here of the model's ReLU."""
    monitor, _ = monitored(**EVERYTHING)
    assert f"1_{statistic}" in monitor.collect(step=0)


@MONITOR
@pytest.mark.promise("cost/research-activations", "cost/research-spectral")
def test_research_sees_layers_and_weights():
    """“Full activation statistics for layer analysis”, “Spectral norms for weight analysis”."""
    collected = monitored(**EVERYTHING)[0].collect(step=0)
    assert collected["1_min"] == 0.0  # a ReLU has no negative output
    assert collected["spectral_norm_max"] >= collected["spectral_norm_mean"] > 0


@MONITOR
@pytest.mark.promise("cost/high-frequency-basic")
def test_norms_come_every_step():
    """“Use basic metrics for step-by-step tracking”: between two readings of what is expensive, norms still come."""
    monitor, _ = monitored(monitor_interval=100, enable_spectral_norms=True)
    assert set(monitor.collect(step=7)) == {"grad_norm", "param_norm"}


@MONITOR
@pytest.mark.parametrize(
    "interval", rows("cost", {"interval-production": 100, "interval-debugging": 10, "interval-final": 1})
)
def test_what_is_expensive_comes_at_its_interval(interval):
    """“Recommended Monitoring Intervals”: every 100 steps, every 10, or every step."""
    monitor, _ = monitored(monitor_interval=interval, enable_spectral_norms=True)
    steps = [step for step in range(201) if "spectral_norm_max" in monitor.collect(step=step)]
    assert steps == list(range(0, 201, interval))


@MONITOR
@pytest.mark.promise("cost/high-frequency-hooks")
def test_no_hook_without_activation_statistics():
    """“Disable activation hooks during training”: with `enable_activation_stats=False` there are none."""
    _, model = monitored(monitor_interval=100, enable_activation_stats=False)
    assert not any(module._forward_hooks for module in model.modules())


@MONITOR
@pytest.mark.promise("cost/clean-up")
def test_closing_removes_the_hooks():
    """“Remove activation hooks when not needed”: `close()` does, and so does leaving a `with`."""
    monitor, model = monitored(**EVERYTHING)
    assert any(module._forward_hooks for module in model.modules())
    monitor.close()
    assert not any(module._forward_hooks for module in model.modules())


PATTERNS = {
    "pattern-daily": ("speedrun-mup", {"monitor_interval": 100}, set()),
    "pattern-research": (
        "speedrun-mup-research",
        {"monitor_interval": 10, "enable_spectral_norms": True, "enable_activation_stats": True},
        {"spectral_norm_max", "1_mean"},
    ),
}


@MONITOR
@pytest.mark.parametrize(("project", "options", "expensive"), rows("cost", PATTERNS))
def test_the_documents_pattern_runs(tmp_path, monkeypatch, project, options, expensive):
    """“Recommended Usage Patterns”: as printed, a logger and a monitor whose metrics it takes."""
    assert callable(stepscope.TrainingMonitor)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    logger = stepscope.SimpleLogger(use_wandb=True, project_name=project)
    monitor, _ = monitored(**{"enable_spectral_norms": False, "enable_activation_stats": False, **options})
    metrics = monitor.collect(step=0)
    logger.log(metrics)
    logger.close()
    assert {"grad_norm", "param_norm"} | expensive <= set(metrics)
    assert expensive or set(metrics) == {"grad_norm", "param_norm"}


@LOGGER
@pytest.mark.promise("cost/pattern-mup", "cost/wandb-grouping")
def test_experiments_are_grouped_by_project(tmp_path, monkeypatch):
    """“project_name="speedrun-mup-coord-check"”: the project “Separates different experiment types”."""
    make = stepscope.SimpleLogger
    monkeypatch.chdir(tmp_path)
    make(use_wandb=False, project_name="speedrun-mup-coord-check").close()
    assert stepscope.read_run(tmp_path).header.project == "speedrun-mup-coord-check"


@SPEEDRUN
@pytest.mark.promise("cost/wandb-naming", "cost/wandb-config", "cost/console-structured")
def test_a_run_has_a_name_and_its_configuration(tmp_path):
    """“Automatic naming**: `speedrun_20250831_143022_mup_w1024_base768`”, “Full hyperparameter tracking”.

    “While adding structured logging to files and W&B”: both are read back from the run file.
    """
    program("trainers/speedrun/train.py", "--mup --width 64 --base-width 64 --iterations 2", at=tmp_path)
    header = stepscope.read_run(tmp_path).header
    assert re.fullmatch(r"speedrun_\d{8}_\d{6}_mup_w64_base64", header.name)
    assert {"width": 64, "base_width": 64, "iterations": 2}.items() <= header.config.items()


@SPEEDRUN
@pytest.mark.parametrize(
    "name",
    rows(
        "cost",
        {
            "basic-always": "step_avg_ms",
            "basic-step": "step",
            "basic-training-time": "training_time_ms",
            "basic-step-avg": "step_avg_ms",
            "basic-val-loss": "val_loss",
        },
    ),
)
def test_the_basic_metrics_are_always_logged(tmp_path, name):
    """“Basic Training Metrics (Always Logged)”: each stands in the offline W&B run of a speedrun."""
    program("trainers/speedrun/train.py", "--width 64 --iterations 2", at=tmp_path, WANDB_MODE="offline")
    (transactions,) = tmp_path.glob("**/*.wandb")
    assert name.encode() in transactions.read_bytes()


@SPEEDRUN
@pytest.mark.promise("cost/console-line")
def test_the_console_line_is_that_of_modded_nanogpt(tmp_path):
    """“step:1000/1750 val_loss:3.2847” and so on: the last line of a speedrun has this form."""
    said = program("trainers/speedrun/train.py", "--width 64 --iterations 2", at=tmp_path)
    line = r"step:2/2 val_loss:\d+\.\d{4} train_time:\d+(\.\d)?ms step_avg:\d+\.\d\dms"
    assert [text for text in said.splitlines() if re.fullmatch(line, text)]


@LOGGER
@pytest.mark.promise("cost/wandb-structured")
def test_metrics_keep_their_names_and_have_units(tmp_path, monkeypatch):
    """“Consistent metric naming and units”: what one name is called once it is called everywhere."""
    make = stepscope.SimpleLogger
    monkeypatch.chdir(tmp_path)
    logger = make(use_wandb=False, project_name="speedrun-mup")
    logger.log({"grad_norm": 0.5, "step_avg_ms": 98.1})
    logger.close()
    assert {"grad_norm", "step_avg_ms"} <= {name.split("/")[-1] for name in stepscope.read_run(tmp_path).names()}


@LOGGER
@pytest.mark.promise("cost/distributed-rank-zero")
def test_only_rank_zero_logs(tmp_path, monkeypatch):
    """“Only log from rank 0 process”: another rank's logger leaves nothing and prints nothing."""
    make = stepscope.SimpleLogger
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    make(use_wandb=False, project_name="speedrun-mup").close()
    assert list(tmp_path.iterdir()) == []


@MONITOR
@pytest.mark.promise("cost/distributed-aggregate", "cost/distributed-reductions")
def test_ranks_agree_on_the_norm(tmp_path):
    """“Aggregate metrics across processes before logging”, “Use efficient reduction operations”: on two gloo ranks."""
    assert callable(stepscope.TrainingMonitor)
    import torch.multiprocessing as processes

    processes.spawn(_rank, (str(tmp_path),), nprocs=2)
    first, second = (float((tmp_path / str(rank)).read_text()) for rank in range(2))
    assert first == second == pytest.approx(5.0)


def _rank(rank, folder):
    """One of two ranks whose halves of a sharded gradient have the norms 3 and 4."""
    import torch
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(distribute_tensor(torch.zeros(2, 1), mesh, [Shard(0)]))
    model.weight.grad = distribute_tensor(torch.tensor([[3.0], [4.0]]), mesh, [Shard(0)])
    collected = stepscope.TrainingMonitor(model, monitor_interval=1).collect(step=0)
    with open(f"{folder}/{rank}", "w") as file:
        file.write(str(float(collected["grad_norm"])))
    destroy_process_group()
