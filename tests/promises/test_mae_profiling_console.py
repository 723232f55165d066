"""What the document on *MAE profiling* promises to print: the summary of an epoch, and its warnings."""

import re

import pytest

from .profiled import profile
from .rows import rows

# The document's lines with any number in place of its own. Mended: the emoji, which is mis-encoded there, and the
# colons of ema_update and other/overhead, which stand one or two columns to the left of the others.
SHARE = r" {1,2}\d{1,3}\.\d% \( *\d+\.\d\ds\)"
SUMMARY = {
    "summary-header": r"=== Epoch [12] Profiling Summary ===",
    "summary-total": r"Total time: \d+\.\d\ds",
    "summary-batch": r"Avg batch time: \d+\.\d{3}s",
    "summary-throughput": r"Throughput: \d+\.\d batches/hour",
    "summary-breakdown": r"📊 Time Breakdown:",
    "summary-forward-pass": r"  forward_pass             :" + SHARE,
    "summary-backward-pass": r"  backward_pass            :" + SHARE,
    "summary-data-transfer": r"  data_transfer            :" + SHARE,
    "summary-optimizer-step": r"  optimizer_step           :" + SHARE,
    "summary-validation-epoch": r"  validation_epoch         :" + SHARE,
    "summary-ema-update": r"  ema_update               :" + SHARE,
    "summary-visualization": r"  visualization_generation :" + SHARE,
    "summary-other": r"  other/overhead           :" + SHARE,
    "summary-rule": r"={50}",
}
DATA_WARNING = "⚠️ Data generation may be a bottleneck! (>30% of batch time)"
MEMORY_WARNING = "⚠️ High memory usage detected! (>85% RAM usage)"


@pytest.mark.parametrize("line", rows("mae", SUMMARY))
def test_each_epoch_prints_the_line(profiled, line):
    """“Per-Epoch Summary”: the document's line to the character, the numbers apart."""
    assert len([said for said in profiled.said if re.fullmatch(line, said)]) == 2


@pytest.mark.promise("mae/warning-data", "mae/comprehensive")
def test_slow_data_is_warned_of(slow_data, profiled):
    """“Data generation may be a bottleneck!** (>30% of batch time)”, without the stars of Markdown.

    So the console is “helping identify bottlenecks and optimize performance”.
    """
    assert DATA_WARNING in slow_data.said
    assert DATA_WARNING not in profiled.said


@pytest.mark.promise("mae/warning-memory")
def test_full_memory_is_warned_of(tmp_path, monkeypatch, profiled):
    """“High memory usage detected!** (>85% RAM usage)”, here of a machine that says it has 91 % in use."""
    import psutil

    real = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real._replace(percent=91.0, available=real.total * 9 // 100))
    assert MEMORY_WARNING in profile(tmp_path).said
    assert MEMORY_WARNING not in profiled.said
