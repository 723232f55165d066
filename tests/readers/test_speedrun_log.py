"""The text logs of modded-nanogpt and its relatives are read as runs."""

import math

import pytest

from stepscope.errors import RunFileError
from stepscope.readers.follow import Follower
from stepscope.readers.run_file import find_runs, read_run
from stepscope.records import Eval, Header, Metrics, Step

SAMPLES = [
    ("step:0/1750 val_loss:10.8258 train_time:0ms step_avg:0.03ms", Eval(step=0, loss=10.8258), (0.0, 0.03)),
    ("step:1/1750 train_time:146ms step_avg:146.43ms", Step(step=1), (146.0, 146.43)),
    (
        "step:1750/1750 val_loss:3.2771 train_time:171743ms step_avg:98.14ms",
        Eval(step=1750, loss=3.2771),
        (171743.0, 98.14),
    ),
    ("step:0/6200 val_loss:10.9264 train_time:285ms step_avg:nanms", Eval(step=0, loss=10.9264), (285.0, math.nan)),
    (
        "step:1/6200 train_loss:10.9184 train_time:74701ms step_avg:nanms",
        Step(step=1, loss=10.9184),
        (74701.0, math.nan),
    ),
    (
        "step:5820/5820 val_loss:2.919093 train_time:1424449ms step_avg:244.75ms",
        Eval(step=5820, loss=2.919093),
        (1424449.0, 244.75),
    ),
    (
        "step:125/3350 val_loss:4.66393 train_time:22.870s step_avg:182.95ms",
        Eval(step=125, loss=4.66393),
        (22870.0, 182.95),
    ),
    (
        "step:1000/1750 val_loss:3.2847 train_time:180420.0ms step_avg:180.42ms",
        Eval(step=1000, loss=3.2847),
        (180420.0, 180.42),
    ),
    ("s:9536 tel:3.275959", Eval(step=9536, loss=3.275959), None),
    ("s:1 trl:10.9598 lr:0.000002 norm:15.24", Step(step=1, loss=10.9598, lr=2e-6, norm=15.24), None),
    (
        "[2025-08-31 14:30:22] step:100/1750 train_time:9500ms step_avg:95.00ms",
        Step(time="2025-08-31 14:30:22", step=100),
        (9500.0, 95.0),
    ),
]

SOURCE = """import os
print0(f"step:{step}/{train_steps} val_loss:{val_loss:.4f} train_time:{t:.0f}ms step_avg:{t/step:.2f}ms", console=True)
step:{step}/{train_steps} val_loss:{val_loss:.4f} train_time:{training_time_ms:.0f}ms
    step:1/2 train_time:3ms step_avg:3.00ms
print0(f"peak memory allocated: {torch.cuda.max_memory_allocated() // 1024 // 1024} MiB")
s:{step} tel:{loss}
====================================================================================================
Running Python 3.12.7 and PyTorch 2.9.0.dev20250713+cu126
| N/A   39C    P0             121W /  700W |    5858MiB /  81559MiB |      0%      Default |
====================================================================================================
"""


@pytest.fixture
def log(tmp_path):
    """Writes lines as a log and reads the run in it."""

    def write_and_read(text):
        path = tmp_path / "0b5a-uuid.txt"
        path.write_text(text, newline="")
        return read_run(path)

    return write_and_read


@pytest.mark.parametrize(("line", "record", "times"), SAMPLES, ids=[line for line, _, _ in SAMPLES])
@pytest.mark.parametrize("end", ["\n", "", "\r\n"], ids=["newline", "no newline", "windows"])
def test_a_literal_sample_is_read(log, line, record, times, end):
    """Each line that these programs have printed, alone in a log."""
    _, first, *rest = log(line + end).records()
    assert first == record
    assert [metrics.step for metrics in rest] == ([] if times is None else [record.step])
    if times is not None:
        assert repr(rest[0].values) == repr({"training_time_ms": times[0], "step_avg_ms": times[1]})


@pytest.mark.parametrize("prefix", ["", "[2025-08-31 14:30:22] "])
def test_peak_memory_is_read(log, prefix):
    """As metrics of the step before it."""
    line = f"{prefix}peak memory allocated: 34004 MiB reserved: 49660 MiB\n"
    run = log("step:9/9 train_time:146ms step_avg:16.00ms\n" + line)
    assert run.records("metrics")[-1] == Metrics(
        time=prefix[1:20], step=9, values={"peak_memory_mb": 34004, "reserved_memory_mb": 49660}
    )


def test_the_program_s_source_is_no_log(log):
    """Its format strings and comments look alike, and are passed over."""
    run = log(SOURCE + "\n".join(line for line, _, _ in SAMPLES[:3]) + "\n")
    assert [record.step for record in run.records() if not isinstance(record, Header)] == [0, 0, 1, 1, 1750, 1750]
    with pytest.raises(RunFileError, match="no run file"):
        log(SOURCE)


def test_a_run_is_made_of_it(log):
    """With its total of steps, its curves, and durations where steps follow each other."""
    lines = ["step:0/3 val_loss:10.8 train_time:0ms step_avg:0.03ms"]
    lines += [f"step:{step}/3 train_time:{100 * step + 46}ms step_avg:{100 + 46 / step:.2f}ms" for step in (1, 2, 3)]
    run = log(SOURCE + "\n".join([*lines, "step:3/3 val_loss:3.3 train_time:346ms step_avg:115.33ms\n"]))
    assert (run.header.total_steps, run.header.name) == (3, "0b5a-uuid")
    assert list(run.series("eval/loss")) == [(0, 10.8), (3, 3.3)]
    assert list(run.series("duration_ms")) == [(1, 146.0), (2, 100.0), (3, 100.0)]
    assert list(run.series("training_time_ms")) == [(0, 0), (1, 146), (2, 246), (3, 346), (3, 346)]
    assert (run.problems, run.end) == ([], None)


def test_a_duration_needs_the_step_before(log):
    """Across a gap, or where the clock was set back after a warm-up, it is unknown."""
    run = log("step:5/9 train_time:500ms step_avg:1ms\nstep:7/9 train_time:700ms\nstep:8/9 train_time:80ms\n")
    assert [step.duration_ms for step in run.steps] == [None, None, None]


@pytest.mark.parametrize("cut", range(1, 67))
def test_a_number_that_is_cut_is_not_read(log, cut):
    """A live log that ends within a line gives its last whole numbers, never the half of one."""
    whole = "step:125/1750 val_loss:4.6373 train_time:12210ms step_avg:97.68ms"
    run = log("step:124/1750 train_time:12112ms step_avg:97.68ms\n" + whole[:cut])
    assert list(run.series("eval/loss")) in ([], [(125, 4.6373)])
    assert set(run.series("training_time_ms").values) <= {12112.0, 12210.0}
    assert set(run.series("step_avg_ms").values) == {97.68}


def test_further_numbers_are_metrics(log):
    """Under their own names, times in milliseconds."""
    run = log("s:250 eval:0.2567\nstep:2/9 train_time:5ms tokens_seen:1e6 compile_time:1.5s\n")
    assert [metrics.values for metrics in run.records("metrics")] == [
        {"eval": 0.2567},
        {"training_time_ms": 5.0, "tokens_seen": 1e6, "compile_time_ms": 1500.0},
    ]
    assert [step.step for step in run.steps] == [2]


def test_a_log_is_no_run_of_a_folder(log, tmp_path):
    """Only run files are; a log is read where it is named."""
    log("s:9536 tel:3.275959\n")
    assert find_runs(tmp_path) == []
    assert Follower(tmp_path / "0b5a-uuid.txt").poll() == []
