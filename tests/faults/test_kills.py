"""Processes that are killed while they log: no record that was acknowledged is missing from any file."""

import random
import signal
from pathlib import Path

import pytest
from benchmarks import kills
from benchmarks.kills import Death, Plan, burst, deaths, examine, near_a_write
from benchmarks.victim import expected, log

from stepscope import TrainingRunLogger

PLAN = Plan(seed=1, signal=signal.SIGKILL, pause=0.0, aimed=False, after_s=0.0, jitter_s=0.0)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The file of a run of five records that was cut off."""
    run = TrainingRunLogger(tmp_path / "whole.json", verbosity=-2)
    for number in range(5):
        log(run, number, *expected(PLAN.seed, number))
    lines = (tmp_path / "whole.json").read_bytes()
    run.close()
    (tmp_path / "training.json").write_bytes(lines)
    return tmp_path / "training.json"


@pytest.mark.parametrize(
    ("count", "near"), [(10, 1), pytest.param(kills.DEATHS, kills.NEAR_BAR, marks=pytest.mark.slow)]
)
def test_no_acknowledged_record_is_lost(tmp_path: Path, count: int, near: int) -> None:
    """Whenever SIGKILL or SIGTERM comes, all that a returned call has logged can be read, and the run can go on."""
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)
    found = list(deaths(count, seed, tmp_path))
    assert len(found) == count
    assert [death for death in found if death.lost or death.unreadable or death.wrong] == []
    assert sum(death.near for death in found) >= near
    assert all(death.acknowledged for death in found)


def test_a_burst_survives_sigkill(tmp_path: Path) -> None:
    """Five thousand steps as fast as they go, then SIGKILL: five thousand are read back."""
    assert burst(tmp_path) == kills.BURST


def examined(path: Path, acknowledged: int = 5, status: int = -signal.SIGKILL, **plan: int) -> Death:
    """What the benchmark sees in a file."""
    return examine(path, PLAN._replace(**plan), acknowledged, False, status)


def test_the_benchmark_finds_a_whole_file_good(killed: Path) -> None:
    """A file that holds what was acknowledged, and more, is in order."""
    death = examined(killed, acknowledged=4)
    assert (death.lost, death.torn, death.unreadable, death.wrong) == ((), False, "", "")


def test_the_benchmark_sees_a_lost_record(killed: Path) -> None:
    """A line that is missing counts as lost, and one that says something else does too."""
    lines = killed.read_bytes().split(b",\n")
    killed.write_bytes(b",\n".join(lines[:2] + lines[3:]))
    assert examined(killed).lost == (1,)


def test_the_benchmark_sees_a_changed_record(killed: Path) -> None:
    """A record that says something else than what was logged counts as lost."""
    assert examined(killed, seed=2).lost == (0, 1, 2, 3, 4)


def test_the_benchmark_sees_a_torn_file(killed: Path) -> None:
    """A half-written last line is torn; what it held was acknowledged, so it is lost as well."""
    killed.write_bytes(killed.read_bytes()[:-40])
    death = examined(killed)
    assert (death.torn, death.lost, death.wrong) == (True, (4,), "")


def test_the_benchmark_sees_what_cannot_be_read(tmp_path: Path) -> None:
    """A file that is no run file is counted as unreadable, with all that should be in it."""
    (tmp_path / "training.json").write_text("not a run file")
    death = examined(tmp_path / "training.json")
    assert "RunFileError" in death.unreadable
    assert death.lost == (0, 1, 2, 3, 4)


def test_the_benchmark_sees_a_wrong_death(killed: Path) -> None:
    """An exit status that is not the signal's, and a SIGTERM that left no end, are faults."""
    assert "exit status 0" in examined(killed, status=0).wrong
    assert "no `end`" in examined(killed, status=-signal.SIGTERM, signal=signal.SIGTERM).wrong


@pytest.mark.parametrize(("sent_ms", "near"), [(8.9, False), (9.1, True), (10.5, True), (11.9, True), (12.1, False)])
def test_a_death_is_near_a_write_by_its_time(sent_ms: float, near: bool) -> None:
    """Within a millisecond before a call, in it, or within a millisecond after it, and not otherwise."""
    calls = [(0, 1_000_000, 2_000_000), (1, 10_000_000, 11_000_000)]
    assert near_a_write(calls, int(sent_ms * 1e6)) is near
