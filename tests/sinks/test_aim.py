"""Aim's run, read with Aim's own SDK; where Aim is not installed, test_aim_environment.py runs these."""

import math
import socket
from pathlib import Path
from typing import Any

import pytest

from stepscope.records import Allocator, End, Event, Gpu, Header, Moe, Record, Segment, Step

from .mixed_run import HEADER, mixed_run
from .read_back import aim_points, aim_run, difference, same
from .test_exit import LIMIT_S, train

pytest.importorskip("aim", reason="Aim has an environment of its own: see test_aim_environment.py")


def written(repo: Path, records: list[Record], **options: Any) -> str:
    """The hash of a run with these records."""
    from stepscope.sinks.aim import Aim

    sink = Aim(HEADER, repo=str(repo), **options)
    for record in records:
        sink.write(record)
    sink.close()
    return sink.run_hash


def test_a_mixed_run_comes_back_whole(tmp_path: Path) -> None:
    """Every tag, step and value of 2,000 records."""
    records, points = mixed_run(2000)
    found = aim_points(tmp_path, written(tmp_path, records))
    assert len(points["aim"]) > 10_000
    assert same(found, points["aim"]), difference(found, points["aim"])


def test_the_documents_names(tmp_path: Path) -> None:
    """`gpu/0/power`, `allocator/weights_mib`, `moe/aux_loss`."""
    records = [
        Gpu(step=1, id=0, power=350000, dram_free=2**30),
        Allocator(step=1, id=0, stats=[Segment(name="weights", device=2**32)]),
        Moe(step=1, aux_loss=0.02),
    ]
    found = {point.tag: point.value for point in aim_points(tmp_path, written(tmp_path, list(records)))}
    wanted = {"gpu/0/power": 350000, "gpu/0/dram_free": 1024, "allocator/weights_mib": 4096, "moe/aux_loss": 0.02}
    assert found == wanted


def test_what_is_not_finite_arrives_as_it_is(tmp_path: Path) -> None:
    """NaN and both infinities."""
    losses = [1.0, math.nan, math.inf, -math.inf]
    run_hash = written(tmp_path, [Step(step=step, loss=loss) for step, loss in enumerate(losses)])
    found = {point.step: point.value for point in aim_points(tmp_path, run_hash)}
    assert math.isnan(found.pop(1))
    assert found == {0: 1.0, 2: math.inf, 3: -math.inf}


def test_the_run_has_the_headers_name_and_configuration(tmp_path: Path) -> None:
    """And is over."""
    run = aim_run(tmp_path, written(tmp_path, [HEADER, End(step=1, status="failed", reason="ValueError: x")]))
    assert (run.name, run.experiment, run.active) == ("tidy-otter", "mixed", False)
    assert (run["lr"], run["stepscope", "id"], run["end", "reason"]) == (2e-4, "a1b2c3", "ValueError: x")


def test_name_and_experiment_can_be_given(tmp_path: Path) -> None:
    """As the settings say."""
    run = aim_run(tmp_path, written(tmp_path, [], experiment="mine", name="first"))
    assert (run.name, run.experiment) == ("first", "mine")


def test_an_event_is_a_text(tmp_path: Path) -> None:
    """At its step."""
    (point,) = aim_points(tmp_path, written(tmp_path, [Event(step=4, rule="slow", message="late", advice="mend")]))
    assert point == ("event/slow", 4, "late: mend")


def test_a_run_can_be_gone_on_with(tmp_path: Path) -> None:
    """A step that is tracked again has its newest value, once."""
    run_hash = written(tmp_path, [Step(step=step, loss=1.0) for step in range(3)])
    written(tmp_path, [Step(step=step, loss=2.0) for step in range(2, 5)], run_hash=run_hash)
    found = {point.step: point.value for point in aim_points(tmp_path, run_hash)}
    assert found == {0: 1.0, 1: 1.0, 2: 2.0, 3: 2.0, 4: 2.0}


@pytest.mark.parametrize("ending", ["close", "exit"])
def test_all_arrives_when_the_program_ends_early(tmp_path: Path, ending: str) -> None:
    """Aim's own exit handler does not close the run before."""
    _, code, said, errors = train(tmp_path, "aim", "offline", ending)
    assert "Traceback" not in errors
    assert code == (3 if ending == "exit" else 0)
    assert set(said) == {"lost 0"}
    (run_hash,) = [path.name for path in (tmp_path / ".aim/meta/chunks").iterdir()]
    assert len(aim_points(tmp_path, run_hash)) == 100


def test_a_server_that_does_not_answer_does_not_hold_the_end(tmp_path: Path) -> None:
    """Nor change the exit code."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        repo = f"aim://127.0.0.1:{server.getsockname()[1]}"
        took, code, said, _ = train(tmp_path, "aim", "online", "exit", aim_repo=repo)
    assert took < LIMIT_S
    assert code == 3
    assert said[-1].startswith("lost ")


def test_the_header_may_be_empty(tmp_path: Path) -> None:
    """Then Aim's own name for the run is its name."""
    from stepscope.sinks.aim import Aim

    sink = Aim(Header(), repo=str(tmp_path))
    sink.close()
    assert aim_run(tmp_path, sink.run_hash).name == sink.run_hash
