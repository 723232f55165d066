"""What the document on *surogate metrics* promises of the run file: its lines, their fields, and how to read them."""

import json
import re

import pytest

import stepscope
from stepscope.records import KINDS, fields

from .rows import rows

STEP = (100, 1.25, 16384, 156, 0.1234, 2.3456, 0.0002)
SHOWN = '"time": "2026-01-15T10:30:00.123456", "step": 100'
SEGMENTS = [
    {"name": "weights", "device": 4294967296, "managed": 0, "pinned": 0, "pageable": 0},
    {"name": "gradients", "device": 1073741824, "managed": 0, "pinned": 0, "pageable": 0},
    {"name": "optimizer", "device": 2147483648, "managed": 0, "pinned": 8589934592, "pageable": 0},
]
GPU = {
    "gpu-clock": ("clock", 1800, "MHz"),
    "gpu-max-clock": ("max_clock", 2100, "MHz"),
    "gpu-fan": ("fan", 65, "%"),
    "gpu-power": ("power", 350000, "mW"),
    "gpu-power-limit": ("power_limit", 400000, "mW"),
    "gpu-temperature": ("temperature", 72, "°C"),
    "gpu-temp-slowdown": ("temp_slowdown", 83, "°C"),
    "gpu-util": ("gpu_util", 98, "%"),
    "gpu-mem-util": ("mem_util", 85, "%"),
    "gpu-throttle": ("throttle", "", ""),
    "gpu-dram-free": ("dram_free", 8589934592, "bytes"),
    "gpu-pcie-rx": ("pcie_rx", 1073741824, "bytes/s"),
    "gpu-pcie-tx": ("pcie_tx", 536870912, "bytes/s"),
}
SOL = {
    "sol-blocks": ("blocks", 123.4e9, "FLOP"),
    "sol-lm-head": ("lm_head", 45.6e9, "FLOP"),
    "sol-attention": ("attention", 78.9e9, "FLOP"),
    "sol-tps": ("tps", 156000, "tokens/s"),
    "sol-tf32": ("tf32_peak", 494.7, "TFLOP/s"),
    "sol-bf16": ("bf16_peak", 989.5, "TFLOP/s"),
    "sol-fp16": ("fp16_peak", 989.4, "TFLOP/s"),
    "sol-fp8": ("fp8_peak", 1978.9, "TFLOP/s"),
}
DATASET = {
    "dataset-split": ("split", "train"),
    "dataset-files": ("files", 2),
    "dataset-tokens": ("tokens", 329663),
    "dataset-file-index": ("file_index", 1),
    "dataset-chunk-index": ("chunk_index", 3),
    "dataset-seed": ("seed", 42),
}
GPU_MODEL = {
    "gpu-model-name": {"name": "NVIDIA H100 80GB HBM3"},
    "gpu-model-sm-count": {"sm_count": 132},
    "gpu-model-capability": {"major": 9, "minor": 0},
    "gpu-model-memory": {"memory": 85899345920},
    "gpu-model-free": {"free": 84825604096},
    "gpu-model-l2-size": {"l2_size": 52428800},
    "gpu-model-uuid": {"uuid": "GPU-00000000-0000-0000-0000-000000000000"},
    "gpu-model-ecc": {"ecc": True},
    "gpu-model-driver": {"cuda_driver": 13000},
    "gpu-model-runtime": {"cuda_runtime": 12080},
}


@pytest.fixture
def written(tmp_path):
    """A function that logs by one call and gives the record's line as `json.load` reads it."""

    def line(name, /, *arguments, **options):
        with stepscope.TrainingRunLogger(tmp_path / "log.json", verbosity=-2) as log:
            getattr(log, name)(*arguments, **options)
        with open(tmp_path / "log.json") as file:
            (found,) = (line for line in json.load(file) if line["log"] not in ("run", "end"))
        return found

    return line


def assert_equal(line, shown):
    """The line is the document's, keys in the same order; its time is another, in the same form."""
    shown = json.loads(shown)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", line["time"])
    assert list(line.items()) == list({**shown, "time": line["time"]}.items())


@pytest.mark.promise("surogate/step-json-dense", "surogate/step-every", "surogate/to-file")
def test_a_dense_step_is_the_documents_line(written):
    """“logged to file (JSON)”, “Logged every training step via `log_step()`”: “"log": "step"”."""
    shown = f'{{"log": "step", {SHOWN}, "epoch": 1.25, "step_tokens": 16384, "duration_ms": 156, "norm": 0.1234, '
    assert_equal(written("log_step", *STEP), shown + '"loss": 2.3456, "lr": 0.0002}')


@pytest.mark.promise("surogate/step-json-moe")
def test_a_moe_step_is_the_documents_line(written):
    """“(includes MoE metrics inline)”: given by keyword, they stand after the others."""
    line = written("log_step", *STEP, moe_aux_loss=0.0234, moe_z_loss=0.0012, moe_load_imbalance=1.45)
    shown = f'{{"log": "step", {SHOWN}, "epoch": 1.25, "step_tokens": 16384, "duration_ms": 156, "norm": 0.1234, '
    shown += '"loss": 2.3456, "lr": 0.0002, "moe_aux_loss": 0.023400, "moe_z_loss": 0.001200, '
    assert_equal(line, shown + '"moe_load_imbalance": 1.4500}')


@pytest.mark.promise("surogate/eval-json", "surogate/eval-every", "surogate/eval-gap-console")
def test_an_evaluation_is_the_documents_line(written):
    """“Logged during validation via `log_eval()`”: “"log": "eval"”, without the gap, which is “(console only)”."""
    shown = '{"log": "eval", "time": "2026-01-15T10:35:00.123456", "step": 500, "epoch": 1.5, '
    line = written("log_eval", 500, 1.5, 32768, 234, 2.1234)
    assert_equal(line, shown + '"eval_tokens": 32768, "duration_ms": 234, "loss": 2.1234}')


@pytest.mark.promise("surogate/moe-json")
def test_moe_statistics_are_the_documents_line(written):
    """“"log": "moe"” with the four metrics of the routers."""
    shown = f'{{"log": "moe", {SHOWN}, "aux_loss": 0.0234, "z_loss": 0.0012, '
    line = written("log_moe_stats", 100, 0.0234, 0.0012, 0.9375, 1.45)
    assert_equal(line, shown + '"expert_utilization": 0.9375, "load_imbalance": 1.45}')


@pytest.mark.promise("surogate/gpu-json", "surogate/gpu-logged")
def test_a_gpu_is_the_documents_line(written):
    """“Hardware telemetry logged via `log_gpu_state()`”: “"log": "gpu"”."""
    values = {field: value for field, value, _ in GPU.values()}
    shown = f'{{"log": "gpu", {SHOWN}, "id": 0, ' + json.dumps(values)[1:]
    assert_equal(written("log_gpu_state", 100, id=0, **dict(reversed(values.items()))), shown)


@pytest.mark.promise("surogate/memory-json", "surogate/memory-logged")
def test_an_allocator_is_the_documents_line(written):
    """“Memory allocation tracking via `log_allocator()`”: “"log": "allocator"” with the document's three segments."""
    shown = SHOWN.replace("100", "0")
    line = written("log_allocator", 0, SEGMENTS)
    assert_equal(line, f'{{"log": "allocator", {shown}, "stats": {json.dumps(SEGMENTS)}}}')
    assert [list(segment) for segment in line["stats"]] == [list(segment) for segment in SEGMENTS]


@pytest.mark.parametrize(
    ("field", "kind", "value"),
    rows(
        "surogate",
        {
            "step-loss": ("loss", float, 2.3456),
            "step-norm": ("norm", float, 0.1234),
            "step-lr": ("lr", float, 0.0002),
            "step-epoch": ("epoch", float, 1.25),
            "step-tokens": ("step_tokens", int, 16384),
            "step-duration": ("duration_ms", int, 156),
        },
    ),
)
def test_a_step_holds_the_metric(written, field, kind, value):
    """“Training Metrics”: the metric stands in the line under its name, of its type, as it was given."""
    line = written("log_step", *STEP)
    assert type(line[field]) is kind
    assert line[field] == value


@pytest.mark.parametrize(
    ("field", "kind", "value"),
    rows(
        "surogate",
        {
            "eval-loss": ("loss", float, 2.1234),
            "eval-tokens": ("eval_tokens", int, 32768),
            "eval-duration": ("duration_ms", int, 234),
        },
    ),
)
def test_an_evaluation_holds_the_metric(written, field, kind, value):
    """“Evaluation Metrics”: the metric stands in the line under its name, of its type, as it was given."""
    line = written("log_eval", 500, 1.5, 32768, 234, 2.1234)
    assert type(line[field]) is kind
    assert line[field] == value


@pytest.mark.promise("surogate/step-tps", "surogate/eval-tps")
def test_throughput_is_computed_on_reading(tmp_path):
    """“Throughput (computed: `step_tokens / duration_ms * 1000`)”, and “Evaluation throughput” in the same way."""
    with stepscope.TrainingRunLogger(tmp_path / "log.json", verbosity=-2) as log:
        log.log_step(*STEP)
        log.log_eval(500, 1.5, 32768, 234, 2.1234)
    run = stepscope.read_run(tmp_path / "log.json")
    assert run.steps[0].tokens_per_second == pytest.approx(16384 / 156 * 1000)
    assert run.evals[0].tokens_per_second == pytest.approx(32768 / 234 * 1000)


@pytest.mark.parametrize(("field", "value", "unit"), rows("surogate", GPU))
def test_a_gpu_holds_the_metric_in_its_unit(written, field, value, unit):
    """“GPU Metrics”: the metric is written as it was given, and its record says the unit of the document."""
    assert written("log_gpu_state", 100, id=0, **{field: value})[field] == value
    assert fields("gpu")[field].unit == unit


@pytest.mark.parametrize(("field", "value", "unit"), rows("surogate", SOL))
def test_an_estimate_holds_the_metric_in_its_unit(written, field, value, unit):
    """“Speed-of-Light (SOL) Metrics”: the metric is written as it was given, and its record says its unit."""
    assert written("log_sol_estimate", 0, **{field: value})[field] == value
    assert fields("sol")[field].unit == unit


@pytest.mark.promise("surogate/sol-logged")
def test_an_estimate_has_the_documents_order(written):
    """“estimates via `log_sol_estimate()`”: the keys stand in the order of the table."""
    values = {field: value for field, value, _ in SOL.values()}
    line = written("log_sol_estimate", 0, **dict(reversed(values.items())))
    assert list(line.items())[3:] == list(values.items())


@pytest.mark.parametrize(
    "field",
    rows("surogate", {f"memory-{name}": name for name in ("name", "device", "managed", "pinned", "pageable")}),
)
def test_a_segment_holds_the_field(written, field):
    """“Memory Metrics”: the field of the last of the document's segments is written as it was given."""
    assert written("log_allocator", 0, SEGMENTS)["stats"][-1][field] == SEGMENTS[-1][field]


@pytest.mark.parametrize(("field", "value"), rows("surogate", DATASET))
def test_a_dataset_holds_the_field(written, field, value):
    """“Dataset Metrics”: the field is written as it was given."""
    assert written("log_dataset", **{field: value})[field] == value


@pytest.mark.promise("surogate/dataset-logged")
def test_a_dataset_is_logged_at_startup_in_the_documents_order(written):
    """“Dataset information logged at startup via `log_dataset()`”: at step 0, keys in the order of the table."""
    line = written("log_dataset", **dict(reversed(DATASET.values())))
    assert line["step"] == 0
    assert list(line.items())[3:] == list(DATASET.values())


@pytest.mark.parametrize("values", rows("surogate", GPU_MODEL))
def test_a_gpu_model_holds_the_field(written, values):
    """“GPU Model Information”: the field is written as it was given."""
    line = written("log_gpu_model", **values)
    assert {field: line[field] for field in values} == values


@pytest.mark.promise("surogate/gpu-model-logged")
def test_a_gpu_model_is_logged_at_startup_in_the_documents_order(written):
    """“logged at startup via `log_gpu_model()`”: at step 0, keys in the order of the table."""
    values = {field: value for row in GPU_MODEL.values() for field, value in row.items()}
    line = written("log_gpu_model", **dict(reversed(values.items())))
    assert line["step"] == 0
    assert list(line.items())[3:] == list(values.items())


@pytest.mark.parametrize(
    ("kind", "names"),
    rows(
        "surogate",
        {
            "overview-training": ("step", "loss norm lr epoch tokens_per_second"),
            "overview-evaluation": ("eval", "loss tokens_per_second"),
            "overview-gpu": ("gpu", "power temperature gpu_util mem_util dram_free pcie_rx pcie_tx"),
            "overview-moe": ("moe", "aux_loss z_loss expert_utilization load_imbalance"),
            "overview-performance": ("sol", "tps blocks lm_head attention"),
            "overview-memory": ("allocator", "stats"),
        },
    ),
)
def test_a_category_has_a_record_with_its_metrics(kind, names):
    """“Metrics Overview”: each category is a kind of record that has what the row lists."""
    assert all(hasattr(KINDS[kind], name) for name in names.split())
