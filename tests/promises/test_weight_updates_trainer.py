"""What the document on *weight updates* promises of the language-model trainer that uses the monitor."""

import math
import re
from collections import Counter
from dataclasses import fields
from types import SimpleNamespace

import pytest

from ..sinks.read_back import accumulated
from .absence import names_of, program, script
from .rows import rows

TRAINER = "trainers/lm/train_lm.py"
WAITS = pytest.mark.waits(TRAINER)

MONITOR_FIELDS = {
    "enable_weight_monitor": False,
    "weight_monitor_interval": 100,
    "weight_monitor_sample_size": 1024,
    "monitor_topk": 5,
    "vanishing_grad_threshold": 1e-7,
    "exploding_grad_threshold": 1e2,
    "frozen_update_ratio_threshold": 1e-12,
    "frozen_patience_steps": 3,
}
TRAINER_CONFIG = {
    "model_name": "transformer",
    "result_dir": "result",
    "gradient_clip": 1.0,
    "log_interval": 100,
    "snapshot_interval": 0,
    "snapshot_per_epoch": True,
    "keep_last_n_snapshots": 5,
    "delete_snapshots_after_training": True,
    "max_steps": None,
    **MONITOR_FIELDS,
}
TRAINING_CONFIG = {
    "epochs": 20,
    "batch_size": 32,
    "learning_rate": 3e-4,
    "weight_decay": 0.1,
    "gradient_clip": 1.0,
    "log_interval": 100,
    "snapshot_interval": 0,
    "keep_last_n_snapshots": 3,
    "delete_snapshots_after_training": True,
    "enable_gradient_monitor": False,
    "gradient_monitor_interval": 0,
    "enable_early_stopping": False,
    "early_stop_patience": 5,
    "early_stop_min_delta": 0.001,
    "early_stop_restore_best": True,
    **MONITOR_FIELDS,
}
ARGUMENTS = [
    "epochs",
    "batch_size",
    "lr",
    "snapshot_interval",
    "keep_last_n_snapshots",
    "delete_snapshots_after_training",
    "gradient_monitor",
    "gradient_monitor_interval",
    "early_stopping",
    "early_stop_patience",
    "early_stop_min_delta",
    "early_stop_restore_best",
    "weight_monitor",
    "weight_monitor_interval",
    "weight_monitor_sample_size",
]
TAGS = {
    "tag-grad-median": "grad_median",
    "tag-grad-p95": "grad_p95",
    "tag-grad-min": "grad_min",
    "tag-grad-max": "grad_max",
    "tag-vanishing": "vanishing_count",
    "tag-exploding": "exploding_count",
    "tag-update-median": "update_ratio_median",
    "tag-update-p95": "update_ratio_p95",
    "tag-update-min": "update_ratio_min",
    "tag-update-max": "update_ratio_max",
    "tag-frozen": "frozen_count",
}


def fields_of(prefix, config):
    """A row for each field of a configuration."""
    return rows("updates", {f"{prefix}-{name.replace('_', '-')}": (name, value) for name, value in config.items()})


@pytest.fixture(scope="module")
def trainer():
    """The names that the trainer defines."""
    return names_of(TRAINER)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One short monitored training: what it printed, and its TensorBoard scalars."""
    script(TRAINER)
    folder = tmp_path_factory.mktemp("lm")
    words = "--dataset wikitext --epochs 1 --weight_monitor --weight_monitor_interval 2"
    said = program(TRAINER, words, at=folder)
    (events,) = folder.glob("result/**/runs")
    scalars = accumulated(events)
    return SimpleNamespace(
        said=said, folder=events, tags={tag: scalars.Scalars(tag) for tag in scalars.Tags()["scalars"]}
    )


@WAITS
@pytest.mark.parametrize(("name", "default"), fields_of("trainer", TRAINER_CONFIG))
def test_trainer_config_has_the_documents_field(trainer, name, default):
    """The fields of “TrainerConfig” exist with their defaults."""
    assert {field.name: field.default for field in fields(trainer.TrainerConfig)}[name] == default


@WAITS
@pytest.mark.parametrize(("name", "default"), fields_of("training", TRAINING_CONFIG))
def test_training_config_has_the_documents_field(trainer, name, default):
    """The fields of “TrainingConfig” exist with their defaults."""
    assert {field.name: field.default for field in fields(trainer.TrainingConfig)}[name] == default


@WAITS
@pytest.mark.parametrize("name", rows("updates", {f"argument-{name.replace('_', '-')}": name for name in ARGUMENTS}))
def test_the_command_line_has_the_documents_argument(name):
    """Each argument that the document hands on to TrainingConfig is one of the command line."""
    assert re.search(rf"--{name}\b(?!_)", program(TRAINER, "--help"))


@WAITS
@pytest.mark.promise("updates/argument-help", "updates/argument-interval-least")
def test_the_help_says_what_the_arguments_do():
    """“Enable weight update monitoring to detect frozen weights.”, and of the interval:

    “Monitor weight updates every N steps (must be >= 1)”.
    """
    said = " ".join(program(TRAINER, "--help").split())
    assert "Enable weight update monitoring to detect frozen weights." in said
    assert "Monitor weight updates every N steps (must be >= 1). Default: 100" in said


@WAITS
@pytest.mark.promise("updates/off-by-default", "updates/usage-without")
def test_nothing_is_monitored_by_default(tmp_path):
    """“weight_monitor: Optional[WeightUpdateMonitor] = None”: “Train WITHOUT monitoring (default, no overhead)”."""
    said = program(TRAINER, "--dataset wikitext --epochs 1", at=tmp_path)
    assert "Weight update monitoring enabled" not in said


@WAITS
@pytest.mark.promise("updates/announcement", "updates/usage-with")
def test_monitoring_is_announced(trained):
    """“Train WITH monitoring (decisive frozen weight detection)”: “Weight update monitoring enabled (sample_size=”."""
    assert "Weight update monitoring enabled (sample_size=1024, interval=2 steps)" in trained.said.splitlines()


@WAITS
@pytest.mark.promise("updates/usage-custom", "updates/config-passed")
def test_interval_and_sample_size_can_be_chosen(tmp_path):
    """“Custom interval and sample size” reach the monitor.

    They are handed on as in “enable_weight_monitor=self.training_config.enable_weight_monitor”.
    """
    words = (
        "--dataset wikitext --weight_monitor --weight_monitor_interval 50 --weight_monitor_sample_size 2048 --epochs 1"
    )
    said = program(TRAINER, words, at=tmp_path)
    assert "Weight update monitoring enabled (sample_size=2048, interval=50 steps)" in said.splitlines()


@WAITS
@pytest.mark.parametrize("tag", rows("updates", TAGS))
def test_the_aggregates_are_tensorboard_tags(trained, tag):
    """Each of the document's “monitor/…” scalars is there, with a finite value at every interval."""
    points = trained.tags[f"monitor/{tag}"]
    assert [point.step % 2 for point in points] == [0] * len(points) != []
    assert all(math.isfinite(point.value) for point in points)


@WAITS
@pytest.mark.promise("updates/tag-topk-grad", "updates/tag-topk-frozen", "updates/tags-topk")
def test_the_top_k_are_tags_of_their_parameters(trained):
    """“monitor/topk_grad/{name}”, “monitor/topk_frozen/{name}”: “topk tags (topk_grad/{name}, topk_frozen/{name})”."""
    for kind in ("topk_grad", "topk_frozen"):
        assert any(tag.startswith(f"monitor/{kind}/") for tag in trained.tags)


@WAITS
@pytest.mark.promise("updates/tags-base", "updates/no-per-parameter")
def test_the_base_tags_are_the_eleven_that_the_document_names(trained):
    """“12 base tags (grad_median, grad_p95, etc.)” are eleven by the document's own code.

    “aggregate only, no per-parameter tags”.
    """
    base = {tag.removeprefix("monitor/") for tag in trained.tags if tag.startswith("monitor/") and "topk" not in tag}
    assert base == set(TAGS.values())


@WAITS
@pytest.mark.promise("updates/tags-total")
def test_one_reading_has_at_most_22_tags(trained):
    """“Total: 12-22 tags”: so many points stand at any one step, whatever the number of parameters."""
    steps = Counter(point.step for tag, points in trained.tags.items() if "monitor/" in tag for point in points)
    assert max(steps.values()) <= 22


@WAITS
@pytest.mark.promise("updates/old-removed")
def test_the_old_tags_are_gone(trained):
    """“DELETE these entire methods”: no tag of weight statistics, gradient flow or updates of single parameters."""
    assert not [
        tag for tag in trained.tags if re.match(r"(weights?|gradients?|grad_flow|updates?)/", tag, re.IGNORECASE)
    ]


@WAITS
@pytest.mark.promise("updates/tensorboard-folder")
def test_the_events_lie_in_runs(trained):
    """“log_dir=self.model_root_dir / "runs"”: TensorBoard's files stand in the model's own folder."""
    assert list(trained.folder.glob("events.out.tfevents.*"))


@WAITS
@pytest.mark.promise("updates/trainer-name")
def test_the_model_is_named_after_its_data(trained):
    """“model_name=f"lm_{self.dataset_key}"”: the folder of a run on wikitext says so."""
    assert "lm_wikitext" in str(trained.folder)


@WAITS
@pytest.mark.promise("updates/order-gradients", "updates/order-updates", "updates/call-timing")
def test_the_checks_stand_after_clipping_and_after_the_step(trained):
    """“ADD AFTER _clip_gradients():” and “ADD AFTER optimizer.step():”.

    “Correct call timing (after clipping, after step)”: no norm is above the clip, and the updates are there.
    """
    assert max(point.value for point in trained.tags["monitor/grad_max"]) <= 1.0 + 1e-3  # gradient_clip is 1.0
    assert max(point.value for point in trained.tags["monitor/update_ratio_median"]) > 0.0


@WAITS
@pytest.mark.promise("updates/warnings-real")
def test_a_healthy_run_warns_of_nothing(trained):
    """“Console warnings only for actual issues (is_frozen=True)”: no line of this run names a frozen parameter."""
    assert max(point.value for point in trained.tags["monitor/frozen_count"]) == 0
    assert "frozen params" not in trained.said


@WAITS
@pytest.mark.promise("updates/frozen-warning", "updates/frozen-names")
def test_frozen_parameters_are_named(tmp_path):
    """“frozen params” and below them “{name}: {ratio:.2e}”, once the rate moves none of them.

    The warning's emoji, which is mis-encoded in the document, is mended.
    """
    words = "--dataset wikitext --epochs 1 --lr 1e-30 --weight_monitor --weight_monitor_interval 1"
    lines = program(TRAINER, words, at=tmp_path).splitlines()
    warning = r"  ⚠️  Step \d+: \d+ frozen params \(update_ratio <= 1e-12 for 3 consecutive steps\)"
    first = next(number for number, line in enumerate(lines) if re.fullmatch(warning, line))
    assert re.fullmatch(r"      [\w.]+: \d\.\d\de[+-]\d\d", lines[first + 1])
