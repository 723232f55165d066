"""The way of *MAE profiling*, walked: a baseline, its bottleneck, the mend, the proof, and nothing more to find."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples/slow_data.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same training with slow data, before and after it is given loader workers."""
    folder = tmp_path_factory.mktemp("runs")
    for name, workers in (("before", 0), ("after", 4)):
        words = [EXAMPLE, "--output", folder / name, "--workers", workers, "--epochs", 3]
        subprocess.run([sys.executable, *map(str, words)], check=True, capture_output=True, timeout=120)
    return folder


def asked(*words: Any) -> Any:
    """What a command answers with --json."""
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, words), "--json"], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_the_bottleneck_is_identified(runs: Path) -> None:
    """Of the baseline the wait for data is named first, with its advice and what mending it would save."""
    first = asked("doctor", runs / "before")["verdicts"][0]
    assert first["rule"] == "data_generation"
    assert "Increase `num_workers` in DataLoader" in first["advice"]
    assert first["gain"] > 0.3


def test_the_mended_run_is_better_and_has_it_no_more(runs: Path) -> None:
    """The comparison is sure of it, and the doctor has nothing to say of the data."""
    assert "data_generation" not in {verdict["rule"] for verdict in asked("doctor", runs / "after")["verdicts"]}
    compared = asked("compare", runs / "before", runs / "after")
    rows = {row["name"]: row for row in compared["rows"]}
    assert rows["batch_time_avg"]["verdict"] == "better"
    assert rows["data_gen_percentage"]["verdict"] == "better"


def test_the_estimated_gain_is_the_wait_that_the_mend_took_away(runs: Path) -> None:
    """Within 30 %, of what a step took. What computing took beside it is the machine's: benchmarks hold both."""
    estimated = asked("doctor", runs / "before")["verdicts"][0]["gain"]
    rows = {row["name"]: row for row in asked("compare", runs / "before", runs / "after")["rows"]}
    waited, step = rows["timing_data_generation_avg"], rows["batch_time_avg"]["a"]
    assert estimated == pytest.approx((waited["a"] - waited["b"]) / step, rel=0.3)
