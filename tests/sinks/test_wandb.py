"""W&B's run: written offline and read with W&B's own reader, and online against a server of our own."""

import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import StepscopeError
from stepscope.records import Allocator, End, Eval, Event, Gpu, Header, Metrics, Record, Segment, Step
from stepscope.sinks.wandb import Wandb, live_id

from .mixed_run import HEADER, at, mixed_run
from .read_back import difference, same, wandb_config, wandb_log, wandb_points, wandb_rows
from .wandb_server import WandbServer


def written(folder: Path, records: list[Record], header: Header = HEADER) -> Path:
    """The folder of an offline run with these records."""
    sink = Wandb(header, mode="offline", folder=str(folder))
    for record in records:
        sink.write(record)
    sink.close()
    assert sink.address is not None
    return Path(sink.address)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A server that W&B's client takes for W&B's."""
    with WandbServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def program(text: str, *words: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """What a program of its own does, until nothing holds its output any more."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, words)]
    variables = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables, stdin=subprocess.DEVNULL)


def test_a_mixed_run_comes_back_whole(tmp_path: Path) -> None:
    """Every tag, step and value of 2,000 records."""
    records, points = mixed_run(2000)
    found = wandb_points(written(tmp_path, records))
    assert len(points["wandb"]) > 10_000
    assert same(found, points["wandb"]), difference(found, points["wandb"])


def test_all_is_drawn_over_the_training_step(tmp_path: Path) -> None:
    """W&B's own step only counts rows."""
    log = wandb_log(written(tmp_path, [Step(step=700, loss=1.0)]))
    metrics = [record["metric"] for record in log if record["type"] == "metric"]
    assert ("*", "trainer/step") in [(metric.get("glob_name"), metric.get("step_metric")) for metric in metrics]
    (row,) = [record["history"]["item"] for record in log if record["type"] == "history"]
    assert (row["trainer/step"], row["_step"]) == (700, 0)


def test_the_records_of_a_step_make_one_row(tmp_path: Path) -> None:
    """Rows are what W&B limits."""
    records: list[Record] = []
    for step in range(3):
        records += [Gpu(step=step, id=0, clock=1), Step(step=step, loss=1.0), Metrics(step=step, values={"a": 1})]
    rows = wandb_rows(written(tmp_path, records))
    assert [row["trainer/step"] for row in rows] == [0, 1, 2]
    assert {"gpu/clock", "train/loss", "a"} <= rows[1].keys()


def test_records_in_any_order_of_steps_all_arrive(tmp_path: Path) -> None:
    """A late evaluation, and a history that begins again earlier: W&B alone would drop them."""
    steps = [Step(step=step, loss=float(step)) for step in (0, 1, 2, 0, 1)]
    rows = wandb_rows(written(tmp_path, [*steps, Eval(step=1, loss=9.0), Eval(step=0, loss=8.0)]))
    assert [(r["trainer/step"], r["train/loss"]) for r in rows if "train/loss" in r] == [
        (s.step, s.loss) for s in steps
    ]
    assert [(r["trainer/step"], r["eval/loss"]) for r in rows if "eval/loss" in r] == [(1, 9.0), (0, 8.0)]


def test_a_name_that_comes_twice_in_a_step_makes_a_second_row(tmp_path: Path) -> None:
    """So that the first is not overwritten."""
    rows = wandb_rows(written(tmp_path, [Metrics(step=1, values={"a": value}) for value in (1, 2)]))
    assert [(row["trainer/step"], row["a"]) for row in rows] == [(1, 1), (1, 2)]


def test_what_is_not_finite_arrives_as_such(tmp_path: Path) -> None:
    """In the form in which W&B's own client writes a float that is not finite."""
    (row,) = wandb_rows(written(tmp_path, [Step(step=1, loss=math.nan, norm=math.inf)]))
    assert (row["train/loss"], row["train/norm"]) == ("NaN", "Infinity")


def test_the_row_has_the_time_of_its_records(tmp_path: Path) -> None:
    """So that a run that is filled later shows when it ran."""
    (row,) = wandb_rows(written(tmp_path, [Step(time=at(0), step=1, loss=2.0)]))
    assert row["_timestamp"] == 1768471200.5


def test_one_gpu_has_no_index(tmp_path: Path) -> None:
    """As the document names it."""
    rows = wandb_rows(written(tmp_path, [Gpu(step=step, id=0, clock=1800, dram_free=2**30) for step in range(2)]))
    assert all(row["gpu/clock"] == 1800 and row["gpu/dram_free"] == 1024 for row in rows)


def test_several_gpus_are_told_apart_without_being_announced(tmp_path: Path) -> None:
    """Those of one step make one row, so the first row knows already."""
    records = [Gpu(step=step, id=id_, clock=1800 + id_) for step in range(2) for id_ in range(2)]
    rows = wandb_rows(written(tmp_path, records))
    assert [(row["gpu/0/clock"], row["gpu/1/clock"]) for row in rows] == [(1800, 1801)] * 2
    assert not any("gpu/clock" in row for row in rows)


def test_allocations_are_a_pie_for_each_gpu(tmp_path: Path) -> None:
    """Its slices are the segments, in MiB; none overwrites another's."""
    stats = [Segment(name="weights", device=2**32), Segment(name="optimizer", device=2**31)]
    folder = written(tmp_path, [Allocator(step=0, id=id_, stats=stats[: 2 - id_]) for id_ in (0, 1)])
    (row,) = wandb_rows(folder)
    pies = [json.loads((folder / "files" / row[f"allocations/{id_}.path"]).read_text()) for id_ in (0, 1)]
    assert [pie["data"][0]["type"] for pie in pies] == ["pie", "pie"]
    assert pies[0]["data"][0]["labels"] == ["weights", "optimizer"]
    assert pies[0]["data"][0]["values"] == [4096.0, 2048.0]
    assert pies[1]["data"][0]["labels"] == ["weights"]


def test_the_run_has_the_headers_configuration(tmp_path: Path) -> None:
    """Its name, project and id too; a later record adds to it."""
    folder = written(tmp_path, [HEADER, End(step=9, status="finished", duration_ms=12)])
    config = wandb_config(folder)
    assert (config["lr"], config["layers"]) == (2e-4, 12)
    assert config["stepscope"]["id"] == "a1b2c3"
    assert config["end"]["status"] == "finished"
    (run,) = [record["run"] for record in wandb_log(folder) if record["type"] == "run"]
    assert (run["project"], run["display_name"], run["run_id"]) == ("mixed", "tidy-otter", "a1b2c3")


@pytest.mark.parametrize(("severity", "levels"), [("info", []), ("warning", ["WARN"]), ("error", ["ERROR"])])
def test_an_event_alerts_and_stands_in_its_row(tmp_path: Path, severity: str, levels: list[str]) -> None:
    """W&B sends alerts where the user wants them; information is no alert."""
    log = wandb_log(written(tmp_path, [Event(step=4, severity=severity, rule="slow", message="late", advice="mend")]))
    alerts = [record["alert"] for record in log if record["type"] == "alert"]
    assert [(alert["level"], alert["title"], alert["text"]) for alert in alerts] == [
        (level, "slow", "late: mend") for level in levels
    ]
    (row,) = [record["history"]["item"] for record in log if record["type"] == "history"]
    assert (row["trainer/step"], row["event/slow"]) == (4, "late: mend")


@pytest.mark.parametrize(("status", "code"), [("finished", 0), ("failed", 1), ("stopped", 1)])
def test_the_end_decides_how_the_run_counts(tmp_path: Path, status: str, code: int) -> None:
    """A failed run is failed in W&B."""
    log = wandb_log(written(tmp_path, [Step(step=1, loss=1.0), End(step=1, status=status)]))
    (end,) = [record["exit"] for record in log if record["type"] == "exit"]
    assert end["exit_code"] == code


@pytest.mark.parametrize(("attempt", "id_"), [(1, "9f-2c"), (2, "9f-2c-2")])
def test_each_attempt_is_a_run_of_its_own(attempt: int, id_: str) -> None:
    """W&B cannot go on with an offline run, nor with an earlier step."""
    assert live_id(Header(id="9f/2c", attempt=attempt)) == id_


def test_online_rows_reach_the_server(tmp_path: Path, server: WandbServer) -> None:
    """All of them, with the exit code."""
    sink = Wandb(HEADER, folder=str(tmp_path))
    assert sink.address == f"{server.url}/someone/mixed/runs/a1b2c3"
    for step in range(50):
        sink.write(Step(step=step, loss=1.0))
    sink.write(End(step=49, status="failed"))
    sink.close()
    assert [row["trainer/step"] for row in server.rows["a1b2c3"]] == list(range(50))
    assert server.exit_codes == {"a1b2c3": 1}


def test_rows_that_the_server_has_are_left_out(tmp_path: Path, server: WandbServer) -> None:
    """Numbered rows can be sent again and again."""
    for steps in (30, 50):
        sink = Wandb(HEADER, folder=str(tmp_path), first_row=0)
        for step in range(steps):
            sink.write(Step(step=step, loss=1.0))
        sink.close()
        assert sink.next_row == steps
    assert [(row["_step"], row["trainer/step"]) for row in server.rows["a1b2c3"]] == [(s, s) for s in range(50)]


def test_without_a_key_it_does_not_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W&B would take the terminal of the training for it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(StepscopeError, match="wandb login"):
        Wandb(HEADER, folder=str(tmp_path))


WRITE = """
    import sys
    from stepscope.records import Header, Step
    from stepscope.sinks.wandb import Wandb
    folder = sys.argv[1]
"""


def test_the_program_stays_as_it_was(tmp_path: Path) -> None:
    """Its exit, its exception hook, its signals, its output, its environment."""
    done = program(
        WRITE
        + """
    import os, signal, threading
    def state():
        handlers = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
        known = {k: v for k, v in os.environ.items() if k.startswith("WANDB")}
        return sys.exit, sys.excepthook, sys.stdout, sys.stderr, handlers, known
    before = state()
    sink = Wandb(Header(id="a"), mode="offline", folder=folder)
    assert state() == before, (before, state())
    sink.write(Step(step=1, loss=1.0))
    sink.close()
    assert state() == before
    print("done")
    """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_of_the_programs_own_is_left_to_it(tmp_path: Path, closed: bool) -> None:
    """It goes on, and is finished at the end as W&B does it, whether ours is closed or not."""
    done = program(
        WRITE
        + f"""
    sink = Wandb(Header(id="ours"), mode="offline", folder=folder)
    import wandb
    own = wandb.init(project="own", id="theirs", mode="offline", dir=folder, settings=wandb.Settings(silent=True))
    assert wandb.run is own
    sink.write(Step(step=1, loss=1.0))
    own.log({{"a": 1}})
    if {closed}:
        sink.close()
    own.log({{"a": 2}})
    """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (folder,) = [log.parent for log in tmp_path.glob("wandb/offline-run-*/run-theirs.wandb")]
    assert [row["a"] for row in wandb_rows(folder)] == [1, 2]
    assert wandb_log(folder)[-1]["type"] == "exit"


def test_a_run_that_the_program_began_before_is_left_to_it(tmp_path: Path) -> None:
    """Then the service is its own, and W&B's handlers stay."""
    done = program(
        WRITE
        + """
    import wandb
    own = wandb.init(project="own", id="theirs", mode="offline", dir=folder, settings=wandb.Settings(silent=True))
    theirs = sys.exit
    sink = Wandb(Header(id="ours"), mode="offline", folder=folder)
    sink.write(Step(step=1, loss=1.0))
    sink.close()
    assert wandb.run is own and sys.exit is theirs
    own.log({"a": 1})
    """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    folders = {log.stem: log.parent for log in tmp_path.glob("wandb/offline-run-*/run-*.wandb")}
    assert [row["a"] for row in wandb_rows(folders["run-theirs"])] == [1]
    assert [row["train/loss"] for row in wandb_rows(folders["run-ours"])] == [1.0]


def test_two_runs_of_a_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The first to end does not take W&B's service along."""
    sinks: list[Any] = [Wandb(Header(id=f"run{n}"), mode="offline", folder=str(tmp_path)) for n in range(2)]
    for sink in sinks:
        sink.write(Step(step=1, loss=1.0))
        sink.close()
    assert [len(wandb_rows(Path(sink.address))) for sink in sinks] == [1, 1]
