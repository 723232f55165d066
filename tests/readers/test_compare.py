"""Two runs side by side."""

import random

import pytest

from stepscope.errors import BadValue
from stepscope.readers.compare import compare, slowdown
from stepscope.readers.measured import measure, warm_up_of
from stepscope.records import Epoch, Eval, GpuMemory, Header, Phases, Spent, Step, System

GIB = 1 << 30


def run_of(seed=1, steps=200, wait=2.0, work=18.0, tokens=1000, epochs=0, **known):
    """A run of noisy steps, of which a part is the wait for data; the first three take ten times as long."""
    chance = random.Random(seed)
    yield Header(id=str(seed), name=f"run-{seed}")
    for n in range(1, steps + 1):
        slow = 10 if n <= 3 else 1
        a, b = wait * chance.uniform(0.9, 1.1), slow * work * chance.uniform(0.95, 1.05)
        host = {"data_generation": a, "forward_pass": b / 3, "forward_pass/attention": b / 9, "backward_pass": b / 2}
        yield Phases(step=n, duration_ms=a + b, host_ms=host, **known)
        yield Step(step=n, duration_ms=b, step_tokens=tokens, loss=5 - n / steps, sol=100 * 10 / (a + b))
    for n in range(steps):
        gpus = [GpuMemory(id=0, allocated=3 * GIB, total=12 * GIB)]
        yield System(step=n, ram_percent=40 + chance.uniform(-1, 1), memory_pressure=0.4, cpu_percent=50.0, gpus=gpus)
    spent = [Spent(name="validation_epoch", ms=500.0), Spent(name="forward_pass", ms=1.0, count=100)]
    for n in range(1, epochs + 1):
        yield Epoch(step=n, epoch=n, total_ms=20_000.0 + n, batches=1000, phases=spent)


def verdicts(result):
    """The verdict of each number."""
    return {row.name: row.verdict for row in result.rows}


def test_a_mended_wait_is_better_where_it_should_be(read):
    """Pace and wait are better; what was not touched is not different; losses are not judged."""
    result = compare(read(run_of(1, wait=12.0)), read(run_of(2), "b.json"))
    found = verdicts(result)
    better = {
        "batch_time_avg",
        "batch_time_p50",
        "batches_per_second",
        "tokens_per_second",
        "sol",
        "data_gen_percentage",
    }
    assert {name for name, verdict in found.items() if verdict == "better"} == better | {"timing_data_generation_avg"}
    assert "worse" not in found.values()
    assert found["timing_forward_pass_avg"] == found["memory_pressure"] == "no difference"
    assert (found["loss_final"], found["cpu_usage_percent"], found["batch_time_p95"]) == (None, None, None)


def test_the_other_way_round_is_worse(read):
    """The same numbers, and the interval is the reciprocal."""
    a, b = read(run_of(1, wait=12.0)), read(run_of(2), "b.json")
    there, back = compare(a, b).row("batch_time_avg"), compare(b, a).row("batch_time_avg")
    assert back.verdict == "worse"
    assert (back.low, back.high) == (pytest.approx(1 / there.high), pytest.approx(1 / there.low))
    assert there.low < 20 / 30 < there.high


def test_a_share_that_changes_with_the_rest_of_the_step_is_no_difference(read):
    """The wait is as long as before: that it is a larger part of a shorter step is nobody's fault."""
    result = compare(read(run_of(1, wait=6.0, work=30.0)), read(run_of(2, wait=6.0), "b.json"))
    assert result.row("data_gen_percentage").low > 1.3
    assert verdicts(result)["data_gen_percentage"] == "no difference"


def test_a_run_is_no_better_than_itself(read):
    """Every verdict is that there is no difference."""
    run = read(run_of(1, epochs=3))
    assert set(verdicts(compare(run, run)).values()) == {"no difference", None}


def test_two_runs_of_one_program_are_rarely_different(read):
    """Twenty runs with other seeds against the first: no number of pace is called better or worse."""
    first = read(run_of(100))
    for seed in range(101, 121):
        found = verdicts(compare(first, read(run_of(seed), f"{seed}.json")))
        assert {found["batch_time_avg"], found["tokens_per_second"], found["data_gen_percentage"]} == {"no difference"}


def test_numbers_are_those_of_the_document(read):
    """Seconds a batch, percent of the wait, batches an hour, GB, a share of RAM: each in its unit."""
    found = {row.name: row for row in compare(*[read(run_of(1, epochs=6))] * 2).rows}
    expected = {
        "batch_time_avg": (0.020, "s"),
        "batches_per_second": (50.0, "1/s"),
        "data_gen_percentage": (10.0, "%"),
        "timing_forward_pass_avg": (0.006, "s"),
        "timing_validation_epoch_avg": (0.5, "s"),
        "epoch_total_time": (20.0, "s"),
        "epoch_throughput_batches_per_hour": (180_000.0, "1/h"),
        "memory_pressure": (0.4, "0-1"),
        "ram_usage_percent": (40.0, "%"),
        "gpu_0_memory_allocated_gb": (3.0, "GB"),
        "gpu_0_memory_utilization": (25.0, "%"),
        "tokens_per_second": (50_000.0, "tokens/s"),
        "sol": (50.0, "%"),
    }
    for name, (value, unit) in expected.items():
        assert (found[name].a, found[name].unit) == (pytest.approx(value, rel=0.12), unit), name
    assert "timing_forward_pass/attention_avg" not in found


def test_batch_time_is_without_the_warm_up(read):
    """Three steps of ten times the length at the start change nothing; how many are left out is said."""
    result = compare(*[read(run_of(1))] * 2)
    assert result.a.warm_up == 10
    assert result.row("batch_time_avg").a == pytest.approx(0.020, rel=0.02)
    assert compare(*[read(run_of(1))] * 2, skip=0).row("batch_time_avg").a > 0.022


@pytest.mark.parametrize(("steps", "left_out"), [(0, 0), (3, 0), (40, 10), (400, 20), (10_000, 200), (20, 5)])
def test_the_warm_up_grows_with_the_run(steps, left_out):
    """Ten steps or 5 %, at most 200, and never more than a quarter."""
    assert warm_up_of(steps) == left_out


def test_another_amount_of_work_is_noted_and_taken_into_account(read):
    """Twice the tokens in 1.9 times the time: the batch is slower, the work is faster."""
    result = compare(read(run_of(1)), read(run_of(2, wait=4.0, work=34.0, tokens=2000), "b.json"))
    assert verdicts(result)["batch_time_avg"] == "worse"
    assert verdicts(result)["tokens_per_second"] == "better"
    assert result.notes[0] == "a step holds 1,000 tokens in A and 2,000 in B: compare tokens_per_second"
    ((low, high),) = slowdown(result)
    assert low < 0.95 < high < 1


def test_device_and_host_times_are_not_mixed(read):
    """One run with device times against one without is compared on the host's clock, and that is said."""
    a = read(run_of(1, device_ms={"forward_pass": 1.0}))
    assert measure(a).totals["timing_forward_pass_avg"].value == pytest.approx(0.001)
    result = compare(a, read(run_of(2), "b.json"))
    assert result.row("timing_forward_pass_avg").a == pytest.approx(0.006, rel=0.02)
    assert "host's clock" in result.notes[0]


def test_bare_logs_compare_what_they_have(read):
    """Steps with a duration and a loss: pace and loss, and nothing that is not known."""

    def bare(ms):
        return [Step(step=n, duration_ms=ms + n % 3, loss=2.0) for n in range(100)] + [Eval(step=99, loss=1.5)]

    result = compare(read(bare(10)), read(bare(20), "b.json"))
    assert {"batch_time_avg", "loss_final", "loss_best", "eval_loss_final", "eval_loss_best"} < set(verdicts(result))
    assert not any("timing" in row.name or "memory" in row.name for row in result.rows)
    assert all(low > 1.5 for low, _ in slowdown(result))


def test_what_one_run_lacks_has_no_verdict(read):
    """A number of one run alone is shown and not judged; without any step there is nothing."""
    result = compare(read([Header()]), read(run_of(1), "b.json"))
    row = result.row("batch_time_avg")
    assert (row.a, row.ratio, row.verdict) == (None, None, None)
    assert slowdown(result) == []
    assert result.a.steps == 0


def test_the_median_sees_through_a_busy_machine(read):
    """Steps that stand still for three seconds make the mean uncertain; the median is better all the same."""

    def busy(ms, stood):
        return [Step(step=n, duration_ms=3000.0 if n in stood else ms + n % 3) for n in range(120)]

    result = compare(read(busy(30, (40, 90, 101))), read(busy(20, (35, 60, 110)), "b.json"))
    assert verdicts(result)["batch_time_p50"] == "better"
    assert verdicts(result)["batch_time_avg"] == "no difference"


def test_few_steps_have_no_verdict(read):
    """Five steps are shown without an interval."""
    run = read(run_of(1, steps=5))
    other = read(run_of(2, steps=5, work=40.0), "b.json")
    row = compare(run, other).row("batch_time_avg")
    assert (row.low, row.verdict) == (None, None)
    assert row.ratio is not None


def test_a_negative_skip_is_refused(read):
    """The message says what to give."""
    run = read(run_of(1))
    with pytest.raises(BadValue, match="give 0 or more"):
        compare(run, run, skip=-1)
