"""The console's lines: the document's to the character, and what it leaves open."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepscope.records import (
    Allocator,
    Dataset,
    End,
    Eval,
    Event,
    Gpu,
    GpuModel,
    Header,
    Message,
    Metrics,
    Moe,
    Other,
    Record,
    Rewind,
    Segment,
    SpeedOfLight,
    Step,
)
from stepscope.sinks.console import Console

GOLDEN = Path(__file__).parents[1] / "golden"
TIME = "2026-01-15T10:{:02d}:{:02d}.000000"


def printed(*records: Record | Other, verbosity: int = 0, color: bool = False) -> list[str]:
    """The lines of the records."""
    stream = io.StringIO()
    console = Console(verbosity, stream, color)
    for record in records:
        console.write(record)
    console.close()
    return stream.getvalue().splitlines()


def step(number: int = 100, **fields: Any) -> Step:
    """The document's step; 19,547 tokens in 156 ms are its 125.3k tokens a second."""
    known = {"step_tokens": 19547, "duration_ms": 156, "norm": 0.1234, "loss": 2.3456, "lr": 2e-4}
    return Step(step=number, **{**known, **fields})


def test_the_dense_line_is_the_documents() -> None:
    """Trend, percent of the run, sol and eta included."""
    before = [step(n, loss=2.4, time=TIME.format(0, 0)) for n in (98,)]
    at = step(99, loss=2.4, time="2026-01-15T10:00:11.571429")
    line = printed(Header(total_steps=800), *before, at, step(time="2026-01-15T10:00:23.142858", sol=78.2))[-1]
    assert line == (
        r":: step     100 [ 12.5%] \ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms | sol 78.2 | eta 02h15m"
    )


def test_the_moe_line_is_the_documents() -> None:
    """Auxiliary loss and imbalance stand between duration and sol."""
    moe = {"moe_aux_loss": 0.0234, "moe_z_loss": 0.0012, "moe_load_imbalance": 1.45}
    line = printed(step(99, loss=2.4), step(epoch=0.125, sol=78.2, **moe))[-1]
    assert line == (
        r":: step     100 [ 12.5%] \ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms "
        "| aux 0.0234 | imbal 1.45 | sol 78.2"
    )


def test_the_evaluations_line_is_the_documents() -> None:
    """The gap is to the mean training loss since the last evaluation."""
    record = Eval(step=500, epoch=1.5, eval_tokens=33977, duration_ms=234, loss=2.1234)
    lines = printed(step(499, loss=2.1012), step(500, loss=2.1210), record, record)
    assert lines[2] == ">> eval                      loss 2.1234 | gap +0.0123 | 145.2k tps |   234 ms"
    assert lines[3] == ">> eval                      loss 2.1234 | gap     n/a | 145.2k tps |   234 ms"


def test_the_speed_of_light_block_is_the_documents() -> None:
    """With one peak, its number format is known."""
    record = SpeedOfLight(blocks=123.4e9, lm_head=45.6e9, attention=78.9e9, tps=156000, bf16_peak=989.5)
    assert printed(record) == [
        "[Speed of Light]",
        "  Peak BF16:    989.5 TFLOP/s",
        "  Blocks:       123.4 GFLOP   in bf16",
        "  LM-Head:       45.6 GFLOP   in bf16",
        "  Attention:     78.9 GFLOP   in bf16",
        "  SOL:          156000 tok/s",
    ]


def test_a_norm_is_flagged_above_five_times_its_average() -> None:
    """Not at five times, not before the average is known, and always when it is not finite."""
    steady = [step(n, norm=0.1) for n in range(10)]
    assert "norm  0.49" in printed(*steady, step(norm=0.49))[-1]
    assert "norm !0.51" in printed(*steady, step(norm=0.51))[-1]
    assert "norm  0.51" in printed(*steady[:2], step(norm=0.51))[-1]
    assert "norm !   nan" in printed(step(norm=float("nan")))[0]


def test_one_nan_neither_hides_nor_makes_a_flag() -> None:
    """The average leaves out what it flagged."""
    norms = [0.1] * 10 + [float("nan"), float("inf"), 9.0, 9.0, 0.1, 0.6]
    flags = [line[line.index("norm") + 5] for line in printed(*(step(n, norm=x) for n, x in enumerate(norms)))]
    assert flags[10:] == ["!", "!", "!", "!", " ", "!"]


def test_the_trend_follows_the_loss() -> None:
    """A blank at first and for what is not finite; one NaN changes nothing."""
    losses = [2.5, 2.4, float("nan"), 2.3, 2.9, 2.9]
    assert [line[25] for line in printed(*(step(n, loss=x) for n, x in enumerate(losses)))] == list(r" \ \//")


@pytest.mark.parametrize(
    ("header", "fields", "percent"),
    [
        (Header(total_steps=400), {}, " 25.0%"),
        (Header(total_epochs=10.0), {"epoch": 1.25}, " 12.5%"),
        (Header(total_tokens=19547 * 202), {}, " 50.0%"),
        (Header(), {"epoch": 1.25}, " 25.0%"),
        (Header(), {}, "   n/a"),
        (Header(total_steps=50), {}, "100.0%"),
    ],
)
def test_percent_is_of_the_run_where_its_length_is_known(header: Header, fields: dict[str, Any], percent: str) -> None:
    """Else of the epoch, else not available in the same width."""
    assert printed(header, step(**fields))[-1][17:23] == percent


def test_what_is_unknown_is_not_available_in_the_same_width() -> None:
    """No column moves."""
    full, none, zero = printed(step(), Step(step=100), step(duration_ms=0))
    assert none == ":: step     100 [   n/a]   loss    n/a | norm     n/a |    n/a tps |   n/a ms"
    assert zero == ":: step     100 [   n/a]   loss 2.3456 | norm  0.1234 |    n/a tps |     0 ms"
    assert len(full) == len(none) == len(zero)


@pytest.mark.parametrize("value", [12.3456, 123.4567, 99999.4, 1234567.8, 1.2e30, 3e-7, -2.3456, -1e-9, float("-inf")])
def test_wide_values_do_not_break_the_columns(value: float) -> None:
    """Decimals go before the column does."""
    usual = printed(step())[0]
    line = printed(step(loss=value, norm=abs(value), step_tokens=10**9, duration_ms=123_456))[0]
    assert [n for n, c in enumerate(line) if c == "|"] == [n for n, c in enumerate(usual) if c == "|"]


def test_all_other_lines_are_as_they_were_looked_at() -> None:
    """One golden file a verbosity; `UPDATE_GOLDEN=1` writes them anew, to be looked at."""
    records = [
        Header(id="a", name="brisk-otter", project="mae", attempt=2, total_steps=200),
        GpuModel(
            name="NVIDIA H200", memory=150_000_000_000, free=149_000_000_000, cuda_driver=13000, cuda_runtime=13000
        ),
        Dataset(split="train", files=2, tokens=329_663, file_tokens=[("data/a.bin", 300_000), ("data/b.bin", 29_663)]),
        Dataset(split="eval", files=1, tokens=1_500_000),
        SpeedOfLight(blocks=3.6e9, lm_head=4.5e7, tps=None, bf16_peak=989.0, fp8_peak=1979.0, dtype="fp8"),
        SpeedOfLight(blocks=3.6e9, bf16_peak=989.0, tf32_peak=494.5),
        Allocator(stats=[Segment(name="weights", device=1 << 32), Segment(name="optimizer", pinned=1 << 33)]),
        step(1, share=0.0042, time=TIME.format(0, 1)),
        step(2, share=0.0042, norm=float("inf"), time=TIME.format(0, 2)),
        Metrics(step=2, values={"accuracy": 0.93, "a/very/long/name": 123456.789, "flag": True}),
        Moe(step=2, aux_loss=0.0234, z_loss=0.0012, expert_utilization=0.9375, load_imbalance=1.45),
        Gpu(step=2, id=0, clock=1800, power=350000, temperature=72, temp_slowdown=83, pcie_rx=1 << 30, pcie_tx=1 << 29),
        Gpu(step=2, id=1, dram_free=10_000_000_000, throttle="power cap, thermal"),
        Event(step=2, severity="warning", rule="r", message="the norm is not finite", advice="look at step 2"),
        Event(step=2, severity="info", rule="r", message="for your information"),
        Event(step=2, severity="error", rule="r", message="the disk is gone"),
        Message(step=2, message="saved checkpoint\nto out/"),
        Eval(step=2, loss=2.5),
        Rewind(step=1, last_step=2, attempt=3),
        step(1, time=TIME.format(1, 0)),
        Other("future", {"log": "future"}),
        End(step=1, status="failed", reason="ValueError: no", duration_ms=7_500_000),
    ]
    for verbosity in (-2, -1, 0, 1):
        golden = GOLDEN / f"console_{verbosity}.txt"
        text = "".join(line + "\n" for line in printed(*records, verbosity=verbosity))
        if os.environ.get("UPDATE_GOLDEN"):
            golden.write_text(text)
        assert text == golden.read_text()


def test_colour_comes_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not where NO_COLOR is set."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, no_color, colored in [(Terminal(), "", True), (Terminal(), "1", False), (io.StringIO(), "", False)]:
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", "xterm")
        console = Console(0, stream)
        console.write(Eval(step=1, loss=2.0))
        console.close()
        assert ("\x1b[1m>> eval" in stream.getvalue()) is colored


def test_a_closed_stream_is_given_up() -> None:
    """Training goes on."""
    stream = io.StringIO()
    console = Console(0, stream)
    stream.close()
    console.write(step())
    assert console.verbosity == -2
    assert Console(0, stream).verbosity == 0


def test_a_terminal_that_is_slow_loses_a_line_and_no_more() -> None:
    """A stream that would block is tried again."""

    class Slow(io.StringIO):
        calls = 0

        def write(self, text: str) -> int:
            self.calls += 1
            if self.calls == 1:
                raise BlockingIOError
            return super().write(text)

    stream = Slow()
    console = Console(0, stream)
    console.write(step(1))
    console.write(step(2))
    assert stream.getvalue().startswith(":: step       2")


def test_a_stream_that_knows_no_degree_sign_gets_a_question_mark() -> None:
    """An ASCII terminal is no reason to stop."""
    raw = io.BytesIO()
    console = Console(1, io.TextIOWrapper(raw, encoding="ascii"))
    console.write(Gpu(step=1, id=0))
    assert b"?C" in raw.getvalue()


def test_a_long_phase_without_a_step_shows_on_a_terminal_that_it_lives(tmp_path: Path) -> None:
    """In place, and the next line stands alone."""
    program = (
        "import time, stepscope\n"
        f"run = stepscope.init(output_dir={str(tmp_path)!r})\n"
        "time.sleep(2.8)\n"
        "run.progress('evaluation', 3, 7)\n"
        "time.sleep(1)\n"
        "run.log_step(1, loss=2.0)\n"
        "run.close()\n"
    )
    out = in_terminal([sys.executable, "-c", program])
    assert "… setting up 2 s" in out
    assert "… evaluation 3/7 3 s" in out
    assert "\r\x1b[2K:: step       1" in out


def in_terminal(command: list[str]) -> str:
    """What a command shows on a terminal."""
    main, side = pty.openpty()
    process = subprocess.Popen(command, stdout=side, env={**os.environ, "TERM": "xterm"})
    os.close(side)
    out = b""
    while True:
        try:
            data = os.read(main, 4096)
        except OSError:
            break
        if not data:
            break
        out += data
    assert process.wait() == 0
    os.close(main)
    return out.decode()
