r"""What the document on *surogate metrics* promises of the console: its lines, to the character.

The lines are printed from records whose times are given, as they are when a file is shown again.
"""

import io
from datetime import datetime, timedelta

import pytest

import stepscope
from stepscope.records import Eval, Header, SpeedOfLight, Step
from stepscope.sinks.console import Console

from .rows import rows

# The document's line shows 125.3k tokens a second at 156 ms: 19547 tokens.
STEP = {"epoch": 1.0, "step_tokens": 19547, "duration_ms": 156, "norm": 0.1234, "loss": 2.3456, "lr": 0.0002}


def printed(*records, total_steps=None, verbosity=0):
    """The lines that records make, without those that belong to the run as a whole."""
    stream = io.StringIO()
    console = Console(verbosity, stream=stream)
    for record in (Header(id="x", total_steps=total_steps), *records):
        console.write(record)
    console.close()
    return [line for line in stream.getvalue().splitlines() if not line.startswith("==")]


def at(seconds):
    """A record's time."""
    return (datetime(2026, 1, 15, 10, 30) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def steps(losses=(), norms=()):
    """Steps with the losses, or the norms."""
    changes = [{"loss": loss} for loss in losses] or [{"norm": norm} for norm in norms]
    return [Step(time=at(number), step=number, **{**STEP, **change}) for number, change in enumerate(changes)]


def eight_hundred(**more):
    """Steps 99 and 100 of 800, 81/7 seconds apart: the other 700 take the two hours and a quarter of the document."""
    before = Step(time=at(0), step=99, **{**STEP, "loss": 2.5})
    return before, Step(time=at(8100 / 700), step=100, **STEP, **more)


@pytest.mark.promise("surogate/step-line-dense", "surogate/legend-eta")
def test_a_dense_step_is_the_documents_line():
    """“:: step 100 [ 12.5%]” and on to the “Estimated time remaining”."""
    assert printed(*eight_hundred(sol=78.2), total_steps=800)[-1] == (
        ":: step     100 [ 12.5%] \\ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms | sol 78.2 | eta 02h15m"
    )


@pytest.mark.promise("surogate/step-line-moe", "surogate/legend-aux", "surogate/legend-imbalance")
def test_a_moe_step_is_the_documents_line():
    """“(includes aux_loss and load_imbalance inline)”.

    “MoE auxiliary load balancing loss (MoE models only)”, “MoE load imbalance ratio (MoE models only)”.
    """
    moe = {"moe_aux_loss": 0.0234, "moe_load_imbalance": 1.45, "sol": 78.2}
    assert printed(*eight_hundred(**moe), total_steps=800)[-1] == (
        ":: step     100 [ 12.5%] \\ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms "
        "| aux 0.0234 | imbal 1.45 | sol 78.2 | eta 02h15m"
    )


@pytest.mark.promise("surogate/sol-per-step", "surogate/legend-sol")
def test_a_step_shows_its_share_of_the_speed_of_light():
    """“Each training step shows SOL percentage in the console”.

    It is the “Speed-of-light percentage (actual vs theoretical peak)”.
    """
    before, step = (
        Step(time="", step=n, **{**STEP, "epoch": 0.125, "loss": loss}, sol=78.2)
        for n, loss in ((99, 2.5), (100, 2.3456))
    )
    assert printed(before, step)[-1] == (
        ":: step     100 [ 12.5%] \\ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms | sol 78.2"
    )


@pytest.mark.promise("surogate/legend-trend", "surogate/practice-trend")
def test_the_trend_shows_which_way_the_loss_goes():
    r"""“Loss trend indicator (decreasing/increasing)”, to “help spot divergence early”."""
    falling = printed(*steps(losses=[3.0, 2.9, 2.8, 2.7]))
    rising = printed(*steps(losses=[2.7, 2.8, 2.9, 3.0]))
    assert ["\\" in line for line in falling] == ["/" in line for line in rising] == [False, True, True, True]


@pytest.mark.promise("surogate/legend-spike", "surogate/practice-spike")
def test_a_norm_above_five_times_the_average_is_marked():
    """“Gradient spike detected (>5x moving average)”: the “indicator flags potential instability”, and nothing else."""
    lines = printed(*steps(norms=[0.1] * 50 + [0.501, 0.499, 0.1]))
    assert ["!" in line for line in lines[-3:]] == [True, False, False]
    assert "norm !0.5010" in lines[-3]


@pytest.mark.promise("surogate/eval-line", "surogate/eval-gap")
def test_an_evaluation_is_the_documents_line():
    """“>> eval” with the “Difference between eval loss and average train loss”."""
    training = steps(losses=[2.2111, 2.0111])  # 2.1111 on average
    evaluation = Eval(time=at(9), step=500, epoch=1.5, eval_tokens=33977, duration_ms=234, loss=2.1234)
    assert printed(*training, evaluation)[-1] == (
        ">> eval                      loss 2.1234 | gap +0.0123 | 145.2k tps |   234 ms"
    )


@pytest.mark.promise("surogate/sol-block")
def test_an_estimate_is_the_documents_block():
    """“[Speed of Light]” and the five lines below it."""
    estimate = SpeedOfLight(
        step=0, blocks=123.4e9, lm_head=45.6e9, attention=78.9e9, tps=156000, bf16_peak=989.5, dtype="bf16"
    )
    assert printed(estimate) == [
        "[Speed of Light]",
        "  Peak BF16:    989.5 TFLOP/s",
        "  Blocks:       123.4 GFLOP   in bf16",
        "  LM-Head:       45.6 GFLOP   in bf16",
        "  Attention:     78.9 GFLOP   in bf16",
        "  SOL:          156000 tok/s",
    ]


def shown(tmp_path, capsys, verbosity):
    """The first words of the lines that a run of each kind of record prints at a verbosity."""
    with stepscope.TrainingRunLogger(tmp_path / "log.json", verbosity=verbosity) as log:
        log.log_dataset(split="train", files=1, tokens=329663, file_tokens=[("a.bin", 329663)])
        log.log_step(1, 0.1, 1024, 20, 0.7, 3.1, 1e-4)
        log.log_gpu_state(1, id=0, power=350000, temperature=72)
        log.log_eval(1, 0.1, 2048, 30, 3.0)
    return " ".join(line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith("=="))


@pytest.mark.promise("surogate/verbosity")
@pytest.mark.parametrize(
    ("verbosity", "lines"),
    rows(
        "surogate",
        {
            "verbosity-minimal": (-1, ">>"),
            "verbosity-normal": (0, "[Dataset] train: :: >>"),
            "verbosity-verbose-gpu": (1, "[Dataset] train: a.bin :: [G] >>"),
            "verbosity-verbose-files": (1, "[Dataset] train: a.bin :: [G] >>"),
        },
    ),
)
def test_verbosity_chooses_what_is_printed(tmp_path, capsys, verbosity, lines):
    """“Control console output detail”: evaluations only; the usual; with GPU telemetry and per-file dataset info."""
    assert shown(tmp_path, capsys, verbosity) == lines
