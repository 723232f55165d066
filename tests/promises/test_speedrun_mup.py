"""What the document on *speedrun-mup* promises of its commands: the trainer, its scripts, and what they log."""

import math
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

import stepscope

from .absence import command, program, script
from .rows import rows

TRAIN = "trainers/speedrun/train.py"
BASIC = "trainers/speedrun/scripts/run_basic_speedrun.sh"
GROUP = "trainers/speedrun/scripts/run_mup_width_group_scaling.sh"
SPEEDRUN, SCRIPT, SWEEP = pytest.mark.waits(TRAIN), pytest.mark.waits(BASIC), pytest.mark.waits(GROUP)
SMALL = "--width 64 --iterations 20"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small monitored speedrun with muP: what it printed, its run file, and its offline W&B transactions."""
    folder = tmp_path_factory.mktemp("run")
    environment = {"MONITOR_SPECTRAL_EVERY": "10", "MONITOR_ACTIVATIONS": "true", "WANDB_MODE": "offline"}
    said = program(TRAIN, f"--mup --base-width 64 --seed 42 {SMALL}", at=folder, **environment)
    (transactions,) = folder.glob("**/*.wandb")
    return SimpleNamespace(said=said.splitlines(), run=stepscope.read_run(folder), wandb=transactions.read_bytes())


def begins(words):
    """Whether a printed command comes as far as its first step; it is ended there."""
    import torch

    folder = script(TRAIN).parent
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    with subprocess.Popen(words.split(), cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            return any(line.startswith("step:1/") for line in process.stdout)
        finally:
            process.terminate()


@SPEEDRUN
@pytest.mark.parametrize(
    "words",
    rows(
        "speedrun",
        {
            "command-basic": "python train.py --width 768 --iterations 1750",
            "command-script": "python scripts/train.py --mup --width 1024 --base-width 768 --iterations 1750 --seed 42",
            "command-mup-base": "python train.py --mup --width 768 --base-width 768 --iterations 1750",
            "command-mup-wide": "python train.py --mup --width 1024 --base-width 768 --iterations 1750",
        },
    ),
)
def test_the_documents_command_trains(words):
    """“Usage”: the command as printed comes to its first step."""
    assert begins(words.replace("python", sys.executable, 1))


@SPEEDRUN
@pytest.mark.promise("speedrun/command-torchrun", "speedrun/feature-distributed")
def test_ranks_train_together(tmp_path):
    """“torchrun --nproc_per_node=8 train.py”, “Distributed training support for 8xH100 systems”: here of two ranks."""
    words = f"-m torch.distributed.run --nproc_per_node=2 {script(TRAIN)} --mup --base-width 64 {SMALL}"
    subprocess.run([sys.executable, *words.split()], cwd=tmp_path, check=True, capture_output=True)
    run = stepscope.read_run(tmp_path)
    assert run.header.world_size == 2
    assert run.steps[-1].step == 20


@SPEEDRUN
@pytest.mark.parametrize(
    "option",
    rows(
        "speedrun",
        {f"option-{name}": f"--{name}" for name in ("mup", "width", "base-width", "iterations", "seed", "no-compile")},
    ),
)
def test_the_command_line_has_the_option(option):
    """“Configuration Options”: the option is one of the command line's."""
    assert re.search(rf"{option}\b(?!-)", program(TRAIN, "--help"))


@SPEEDRUN
@pytest.mark.promise("speedrun/logger-style", "speedrun/competitive")
def test_the_console_is_that_of_modded_nanogpt(trained):
    """“aligned with modded-nanogpt style”: its lines, and the loss that it begins with.

    “maintaining competitive training performance”: the loss falls.
    """
    pattern = r"step:(\d+)/20 val_loss:(\d+\.\d{4}) train_time:\d+(?:\.\d)?ms step_avg:\d+\.\d\dms"
    found = [match for line in trained.said if (match := re.fullmatch(pattern, line))]
    assert float(found[0][2]) == pytest.approx(math.log(50304), abs=1e-3)  # the head begins at zero
    assert float(found[-1][2]) < float(found[0][2]) - 0.5


@SPEEDRUN
@pytest.mark.promise("speedrun/logger-naming", "speedrun/wandb-naming")
def test_the_name_says_when_and_what(trained):
    """“Automatic experiment naming”: “names based on timestamp and configuration”."""
    assert re.fullmatch(r"speedrun_\d{8}_\d{6}_mup_w64_base64", trained.run.header.name)


@SPEEDRUN
@pytest.mark.promise("speedrun/wandb-config", "speedrun/feature-validation")
def test_the_configuration_is_recorded(trained):
    """“Complete hyperparameter recording”, of the “Comprehensive validation tools and experiment tracking”."""
    expected = {"mup": True, "width": 64, "base_width": 64, "iterations": 20, "seed": 42}
    assert expected.items() <= trained.run.header.config.items()


@SPEEDRUN
@pytest.mark.promise("speedrun/logger-structured", "speedrun/wandb-curves")
def test_the_run_is_on_the_console_in_the_file_and_in_wandb(trained):
    """“Structured logging: console + file + W&B”, with “Training curves, activation statistics”."""
    assert any(line.startswith("step:20/20 ") for line in trained.said)
    assert {"train_loss", "activation_mean"} <= {name.split("/")[-1] for name in trained.run.names()}
    assert b"Loss/train_loss" in trained.wandb


@SPEEDRUN
@pytest.mark.parametrize(
    "group",
    rows(
        "speedrun",
        {f"logger-group-{g.lower()}": g for g in ("Time", "Loss", "Optimization", "Model", "Hardware", "Activations")},
    ),
)
def test_the_metrics_are_grouped_in_wandb(trained, group):
    """“Structured metric grouping”: some metric of the run stands in the group."""
    assert re.search(rf"{group}/\w+".encode(), trained.wandb)


BASIC_METRICS = {f"metric-{n.replace('_', '-')}": n for n in ("train_loss", "grad_norm", "param_norm", "lr")}
BASIC_METRICS["metric-training-time"] = "training_time_ms"
ADVANCED_METRICS = {
    "metric-spectral": ["spectral_norm_max", "spectral_norm_mean", "spectral_norm_std"],
    "metric-activations": [f"activation_{statistic}" for statistic in ("mean", "std", "max", "min", "l2_norm")],
    "metric-peak-memory": ["peak_memory_mb"],
    "metric-reserved-memory": ["reserved_memory_mb"],
}


def steps_of(run, name):
    """The steps at which a metric stands in the run file, whatever its group."""
    (full,) = [known for known in run.names() if known.split("/")[-1] == name]
    return list(run.series(full).steps)


@SPEEDRUN
@pytest.mark.promise("speedrun/metric-per-step")
@pytest.mark.parametrize("name", rows("speedrun", BASIC_METRICS))
def test_a_basic_metric_comes_every_step(trained, name):
    """“(lightweight per-step computation)”: twenty steps, twenty values."""
    assert len(steps_of(trained.run, name)) == 20


@SPEEDRUN
@pytest.mark.promise("speedrun/metric-intervals")
@pytest.mark.parametrize("names", rows("speedrun", ADVANCED_METRICS))
def test_an_advanced_metric_comes_at_its_interval(trained, names):
    """“(configurable intervals)”: at every tenth step, as the run was told."""
    import torch

    if "memory" in names[0] and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    for name in names:
        assert {step % 10 for step in steps_of(trained.run, name)} == {0}


@SPEEDRUN
@pytest.mark.promise("speedrun/speed-schedule")
def test_the_rate_cools_down_and_the_momentum_warms_up(trained):
    """“Learning rate scheduling with momentum warmup”: constant for 55 % of the steps, then down to a tenth."""
    rates = list(trained.run.series("lr").values)
    assert rates[:10] == [rates[0]] * 10
    assert 0.1 * rates[0] <= rates[-1] < 0.2 * rates[0]
    momenta = list(trained.run.series("momentum").values)
    assert momenta == sorted(momenta)
    assert momenta[0] == pytest.approx(0.85, abs=0.01)


@pytest.mark.parametrize(
    ("gpu", "teraflops"),
    rows("speedrun", {"hardware-h100": ("H100", 989), "hardware-b200": ("B200", 2500), "hardware-a100": ("A100", 312)}),
)
def test_the_hardwares_peak_is_known(gpu, teraflops):
    """“Hardware detection”: the dense BF16 peak of the GPU, within the variants of its datasheets."""
    table = command("peaks", "--json")
    peaks = [float(number) for number in re.findall(rf"{gpu}[^{{}}]*?bf16\D+([\d.]+)", table)]
    assert any(peak == pytest.approx(teraflops, rel=0.13) for peak in peaks)


@SCRIPT
@pytest.mark.parametrize(
    ("environment", "spectral", "activations"),
    rows(
        "speedrun",
        {
            "monitor-spectral": ({"MONITOR_SPECTRAL_EVERY": "2"}, True, False),
            "monitor-activations": ({"MONITOR_ACTIVATIONS": "true"}, False, True),
            "monitor-both": ({"MONITOR_SPECTRAL_EVERY": "2", "MONITOR_ACTIVATIONS": "true"}, True, True),
            "recommended-daily": ({"MONITOR_SPECTRAL_EVERY": "100"}, True, False),
            "recommended-research": ({"MONITOR_SPECTRAL_EVERY": "10", "MONITOR_ACTIVATIONS": "true"}, True, True),
        },
    ),
)
def test_the_environment_chooses_what_is_monitored(tmp_path, environment, spectral, activations):
    """“Configurable Monitoring”: of a run of width 64, 4 steps and the document's seed."""
    program(BASIC, "64 4 1337", at=tmp_path, **environment)
    run = stepscope.read_run(tmp_path)
    names = {name.split("/")[-1] for name in run.names()}
    assert (run.header.config["width"], run.header.config["seed"]) == (64, 1337)
    assert ("spectral_norm_max" in names, "activation_mean" in names) == (spectral, activations)


@SWEEP
@pytest.mark.promise("speedrun/wandb-grouping")
def test_projects_group_the_runs(tmp_path):
    """“`speedrun-basic`, `speedrun-mup`, `speedrun-mup-group`”: by script and by option."""
    script(GROUP)
    found = []
    for path, words in ((BASIC, "64 2 1"), (TRAIN, f"--mup {SMALL}"), (GROUP, "64 '64' 2")):
        (folder := tmp_path / str(len(found))).mkdir()
        program(path, words, at=folder)
        found.append(stepscope.read_run(folder).header.project)
    assert found == ["speedrun-basic", "speedrun-mup", "speedrun-mup-group"]


@SWEEP
@pytest.mark.promise("speedrun/validation-sweep", "speedrun/validation-plots", "speedrun/wandb-coordinates")
def test_a_sweep_over_widths_leaves_plots(tmp_path):
    """“scripts/run_mup_width_group_scaling.sh 256 "512 768 1024" 1000”, here of small widths and few steps.

    “Check generated coordinate checking plots”: the “coordinate checking plots” are there.
    """
    program(GROUP, "64 '64 128' 4", at=tmp_path)
    assert {run.header.config["width"] for run in map(stepscope.read_run, tmp_path.glob("**/training.json"))} == {
        64,
        128,
    }
    assert list(tmp_path.glob("**/*coord*.png"))


@pytest.mark.waits("trainers/speedrun/scripts/data")
@pytest.mark.promise("speedrun/data-script")
def test_data_can_be_fetched_and_tokenized():
    """“data download & tokenize”: the folder holds a program that says how it is used."""
    programs = sorted(script("trainers/speedrun/scripts/data").glob("*.py"))
    assert programs
    for file in programs:
        assert "usage" in subprocess.run([sys.executable, file, "--help"], capture_output=True, text=True).stdout
