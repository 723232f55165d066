"""Files that Surogate and llmq wrote are read, and so are files that another tool wrote anew."""

import json
import math

import pytest

from stepscope.codec import encode
from stepscope.records import Dataset, Eval, Gpu, GpuModel, Header, Metrics, Other, Step

from .conftest import as_file

pytestmark = pytest.mark.usefixtures("storage")

TIME = "2026-01-15 10:30:00.123456789"
SUROGATE = [
    f'{{"log": "cmd", "time": "{TIME}", "step": 0, "cmd": ["surogate", "sft", "c.yaml"]}}',
    f'{{"log": "option", "time": "{TIME}", "step": 0, "name": "learning_rate", "value": 0.0002}}',
    f'{{"log": "dataset", "split": "train", "time": "{TIME}", "step": 0, "files": 2, "tokens": 329663, '
    '"file_index": 0, "chunk_index": 0, "seed": 42}',
    f'{{"log": "step", "time": "{TIME}", "step": 100, "epoch": 1.25, "step_tokens": 16384, "duration_ms": 156, '
    '"norm": 0.1234, "loss": 2.3456, "lr": 0.0002, "phase": "converging"}',
    f'{{"log": "step", "time": "{TIME}", "step": 101, "epoch": 1, "step_tokens": 16384, "duration_ms": 156, '
    '"norm": "nan", "loss": "inf", "lr": 1e-05, "kd_loss": 0.5678, "phase": "unstable"}',
    f'{{"log": "eval", "time": "{TIME}", "step": 500, "epoch": nan, "eval_tokens": 32768, "duration_ms": 234, '
    '"loss": "-inf"}',
    f'{{"log": "info", "time": "{TIME}", "step": 0, "message": "done"}}',
]
LLMQ = [
    f'{{"log": "gpu-model", "time": "{TIME}", "rank": 0, "step": 0, "id": 0, "name": "NVIDIA H100 80GB HBM3", '
    '"l2_size": 52428800, "sm_count": 132, "major": 9, "minor": 0, "memory": 85, "free": 84, "reserved": 5, '
    '"uuid": "ab", "ecc": 1, "shared_mem": 233472, "cuda_driver": 12080, "cuda_runtime": 12080}',
    f'{{"log": "step", "time": "{TIME}", "step": 7, "step_tokens": 65536, "duration_ms": 1709, "norm": nan, '
    '"loss": 3.31, "lr": 1e-05, "lse_max": 31.2, "lse_mean": -inf, "loss_1k": 3.35}',
    f'{{"log": "abs-maxes", "time": "{TIME}", "step": 1, "abs_maxes": [\n          '
    '{"name": "l0.qkv", "value": 3.5},\n          {"name": "l0.up", "value": nan}]}',
    f'{{"log": "gpu", "time": "{TIME}", "step": 8, "id": 0, "clock": 1800, "power": 4294967295, "gpu_util": 98.4, '
    '"throttle": "no cap", "pcie_rx": 18446744073709551615}',
    f'{{"log": "step", "time": "{TIME}", "step": 8, "step_tokens": 65536, "duration_ms": 1709, "norm": 8.4, '
    '"loss": 3.3, "lr": 1e-05, "lse_max": 31.3}',
]


def foreign(lines):
    """A file as these two programs write it: two spaces before each record."""
    return ("[\n" + ",\n".join("  " + line for line in lines) + "\n]\n").encode()


def test_surogate_s_file_is_read(read):
    """Its time, its "nan" and "inf" strings, its bare nan, its own kinds, without a complaint."""
    run = read(foreign(SUROGATE))
    first, second = run.steps
    assert (first.time, first.step, first.epoch, first.loss) == (TIME, 100, 1.25, 2.3456)
    assert math.isnan(second.norm)
    assert (second.loss, second.lr) == (math.inf, 1e-5)
    assert (run.evals[0].loss, math.isnan(run.evals[0].epoch)) == (-math.inf, True)
    assert isinstance(run.records("dataset")[0], Dataset)
    assert run.records("cmd")[0].data["cmd"] == ["surogate", "sft", "c.yaml"]
    assert run.kinds == {"cmd": 1, "option": 1, "dataset": 1, "step": 2, "eval": 1, "info": 1}
    assert (run.problems, run.header, run.end) == ([], None, None)


def test_llmq_s_file_is_read(read):
    """Its bare nan, its records of several lines, its truth values as numbers, its unsigned -1."""
    run = read(foreign(LLMQ))
    assert [step.loss for step in run.steps] == [3.31, 3.3]
    assert math.isnan(run.steps[0].norm)
    (maxes,) = run.records("abs-maxes")
    assert [entry["name"] for entry in maxes.data["abs_maxes"]] == ["l0.qkv", "l0.up"]
    (model,) = run.records("gpu-model")
    assert isinstance(model, GpuModel)
    assert (model.ecc, model.cuda_driver) == (True, 12080)
    assert isinstance(run.records("gpu")[0], Gpu)
    assert run.problems == []


def test_fields_that_only_the_file_knows_are_series(read):
    """llmq's lse_max and Surogate's kd_loss are fields of no record here, and still have a course."""
    run = read(foreign(LLMQ))
    assert list(run.series("lse_max")) == [(7, 31.2), (8, 31.3)]
    assert list(run.series("lse_mean")) == [(7, -math.inf)]
    assert list(run.series("gpu/0/gpu_util")) == [(8, 98.4)]
    assert list(read(foreign(SUROGATE)).series("kd_loss")) == [(101, 0.5678)]


def test_a_foreign_file_cut_at_every_byte_gives_the_whole_records(read):
    """Also in the middle of a record of several lines."""
    data, kinds = foreign(LLMQ), [json.loads(line.replace("nan", "0").replace("-inf", "0"))["log"] for line in LLMQ]
    ends = [data.index(line.encode()) + len(line) for line in LLMQ]
    for size in range(len(data)):
        run = read(data[:size])
        assert [record.kind for record in run.records()] == kinds[: sum(end <= size for end in ends)], size


def test_thousands_of_foreign_records_agree_with_their_columns(read):
    """Record by record or by column, with a number in eight not finite."""
    lines = [LLMQ[1 + 3 * (number % 8 > 0)].replace('"step": ', f'"step": {number}') for number in range(1, 3001)]
    run = read(foreign(lines))
    steps = [step for step in run.steps if step.norm is not None]
    norms = run.series("norm")
    assert len(run.steps) == len(steps) == len(norms) == 3000
    assert norms.steps.tolist() == [step.step for step in steps]
    assert [repr(value) for value in norms.values] == [repr(step.norm) for step in steps]
    assert sum(map(math.isnan, norms.values)) == 375


RECORDS = [Header(id="a", config={"log": "x"}), Step(step=1, loss=math.nan), Eval(step=1, loss=2.0)]
RECORDS += [Metrics(step=number, values={"a": number}) for number in range(2, 900)]


@pytest.mark.parametrize("layout", [{"indent": 2}, {"indent": 0}, {}, {"separators": (",", ":")}], ids=str)
def test_a_file_written_anew_by_json_dump_is_read(read, layout):
    """With a line for each key, or all on one line."""
    run = read(json.dumps(json.loads(as_file(RECORDS)), **layout).encode())
    assert [repr(record) for record in run.records()] == [repr(record) for record in RECORDS]
    assert len(run.records("metrics")) == 898
    assert list(run.series("a"))[-1] == (899, 899.0)
    assert run.problems == []


def test_json_on_one_line_that_is_torn_loses_its_last_record(read):
    """The records before the tear are read, and the tear is named."""
    data = json.dumps(json.loads(as_file(RECORDS[:4]))).encode()
    run = read(data[: data.rindex(b'{"log"') + 30])
    assert [record.kind for record in run.records()] == ["run", "step", "eval"]
    assert [problem.why for problem in run.problems] == ["not a whole record"]


def test_json_lines_are_read(read):
    """What `export --to jsonl` wrote is a run as well, with nothing amiss."""
    run = read(b"".join(encode(record) + b"\n" for record in RECORDS))
    assert [repr(record) for record in run.records()] == [repr(record) for record in RECORDS]
    assert run.problems == []


def test_records_of_a_later_version_are_kept(read):
    """A kind and a field that this version does not know come as they are."""
    run = read(b'[\n{"log":"norms","step":3,"total":1.5},\n{"log":"step","step":3,"loss":1.0,"entropy":0.5}\n]\n')
    assert run.records("norms") == [Other("norms", {"log": "norms", "step": 3, "total": 1.5})]
    assert list(run.steps) == [Step(step=3, loss=1.0)]
    assert list(run.series("norms/total")) == [(3, 1.5)]
    assert list(run.series("entropy")) == [(3, 0.5)]
    assert run.names() == ["entropy", "loss", "norms/total"]


def test_a_text_that_speaks_of_nan_is_not_touched(read):
    """Beside bare numbers in other lines, words in a message stay words."""
    words = '{"log":"message","step":1,"message":"loss: nan, [inf, -inf] and {x: NaN}"}'
    run = read(foreign([LLMQ[1], words, LLMQ[4], words, LLMQ[1]]))
    assert [message.message for message in run.records("message")] == ["loss: nan, [inf, -inf] and {x: NaN}"] * 2
    assert [math.isnan(step.norm) for step in run.steps] == [True, False, True]
    assert run.problems == []
