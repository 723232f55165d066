"""`stepscope sync`: what a run file has is in the backend, each record once, whatever happened on the way."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from stepscope.cli.main import Commands
from stepscope.cli.refill import Done, Where, refill
from stepscope.cli.sync import sync
from stepscope.cli.sync_state import SyncState
from stepscope.codec import encode
from stepscope.errors import RunFileError
from stepscope.records import End, Eval, Gpu, Header, Moe, Record, Rewind, Step

from .sinks.mixed_run import Point, at, mixed_run
from .sinks.read_back import aim_points, difference, same, single, tensorboard_points, wandb_points, wandb_rows
from .sinks.wandb_server import WandbServer

HEADER = Header(time=at(0), id="9f2c", name="tidy-otter", project="mixed", config={"lr": 0.1})
BACKENDS = [
    "tensorboard",
    "wandb",
    pytest.param("aim", marks=pytest.mark.skipif(not find_spec("aim"), reason="no Aim")),
]
OFFLINE = Where(offline=True)


def steps(first: int, end: int, loss: float = 1.0) -> list[Record]:
    return [Step(time=at(step), step=step, loss=loss) for step in range(first, end)]


def run_file(folder: Path, records: list[Record]) -> Path:
    """A run file with these records."""
    path = folder / "training.json"
    path.write_bytes(b"[\n" + b",\n".join(map(encode, records)) + b"\n]\n")
    return path


def bring(path: Path, backend: str) -> Done:
    """A sync without a network."""
    return refill(path, backend, OFFLINE if backend == "wandb" else Where())


def held(path: Path, backend: str, done: Done) -> list[Point]:
    """What the backend holds of the run that a sync has brought."""
    if backend == "tensorboard":
        return tensorboard_points(Path(str(done.address)))
    if backend == "aim":
        return aim_points(path.parent, done.parts[0])
    return [point for part in done.parts for point in wandb_points(Path(part))]


def losses(path: Path, backend: str, done: Done) -> list[tuple[int, float]]:
    """The steps that the backend holds, and their loss."""
    return sorted((p.step, p.value) for p in held(path, backend, done) if p.tag == "train/loss")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mixed_run_is_brought_whole(tmp_path: Path, backend: str) -> None:
    """Every tag, step and value of 2,000 records."""
    records, points = mixed_run(2000)
    path = run_file(tmp_path, records)
    done = bring(path, backend)
    assert (done.sent, done.total, done.began_anew) == (2000, 2000, None)
    is_single = backend == "tensorboard"
    wanted, digits = (single(points[backend]), 7) if is_single else (points[backend], 15)
    found = held(path, backend, done)
    assert same(found, wanted, digits), difference(found, wanted, digits)


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_goes_on_where_it_stopped(tmp_path: Path, backend: str) -> None:
    """A second time does nothing, a grown file brings what is new."""
    path = run_file(tmp_path, [HEADER, *steps(0, 10)])
    assert bring(path, backend).sent == 11
    assert bring(path, backend).sent == 0
    run_file(tmp_path, [HEADER, *steps(0, 15)])
    done = bring(path, backend)
    assert (done.sent, done.began_anew) == (5, None)
    assert losses(path, backend, done) == [(step, 1.0) for step in range(15)]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from stepscope.cli.refill import Where, refill
    path, backend, offline = sys.argv[1:4]
    if backend == "wandb":
        from stepscope.sinks.wandb import Wandb as Sink
    elif backend == "aim":
        from stepscope.sinks.aim import Aim as Sink
    else:
        from stepscope.sinks.tensorboard import TensorBoard as Sink
    write, count = Sink.write, [0]
    def counted(self, record):
        write(self, record)
        count[0] += 1
        if count[0] == 40:
            getattr(self, "flush", lambda: None)()
            os.kill(os.getpid(), signal.SIGKILL)
    Sink.write = counted
    refill(Path(path), backend, Where(offline=bool(offline)))
"""


def killed(path: Path, backend: str, offline: bool) -> None:
    """A sync that dies after forty records."""
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(path), backend, "yes" if offline else ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_kill_nothing_is_there_twice(tmp_path: Path, backend: str) -> None:
    """In a first session and in a later one."""
    path = run_file(tmp_path, [HEADER, *steps(0, 60)])
    killed(path, backend, backend == "wandb")
    done = bring(path, backend)
    assert losses(path, backend, done) == [(step, 1.0) for step in range(60)]
    run_file(tmp_path, [HEADER, *steps(0, 120)])
    killed(path, backend, backend == "wandb")
    done = bring(path, backend)
    assert losses(path, backend, done) == [(step, 1.0) for step in range(120)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_rewind_the_newest_history_goes_into_a_new_run(tmp_path: Path, backend: str) -> None:
    """Complete, and without what was superseded."""
    path = run_file(tmp_path, [HEADER, *steps(0, 10)])
    before = bring(path, backend)
    again = Header(time=at(11), id="9f2c", attempt=2, name="tidy-otter")
    rewound = [
        HEADER,
        *steps(0, 10),
        again,
        Rewind(time=at(11), step=5, last_step=9, attempt=2),
        *steps(5, 8, loss=2.0),
    ]
    run_file(tmp_path, rewound)
    done = bring(path, backend)
    assert done.target == f"{before.target}-2"
    assert done.began_anew == "the run was rewound since"
    assert losses(path, backend, done) == [*((step, 1.0) for step in range(5)), *((step, 2.0) for step in range(5, 8))]
    assert bring(path, backend).sent == 0


def test_several_gpus_are_known_from_the_begin(tmp_path: Path) -> None:
    """Although the second comes late in the file: a sync sees all of it first."""
    gpus = [Gpu(time=at(step), step=step, id=int(step > 5), clock=1800) for step in range(10)]
    done = bring(run_file(tmp_path, [HEADER, *gpus]), "wandb")
    tags = {point.tag for part in done.parts for point in wandb_points(Path(part))}
    assert tags == {"gpu/0/clock", "gpu/1/clock"}


def test_a_session_knows_what_the_one_before_has_brought(tmp_path: Path) -> None:
    """A moe number that came with the step does not come again from its record."""
    begin = [HEADER, Step(time=at(1), step=1, moe_aux_loss=0.02)]
    path = run_file(tmp_path, begin)
    bring(path, "tensorboard")
    run_file(tmp_path, [*begin, Moe(time=at(1), step=1, aux_loss=0.02, z_loss=0.5)])
    done = bring(path, "tensorboard")
    assert [p.tag for p in held(path, "tensorboard", done)] == ["moe/aux_loss", "moe/z_loss"]


def test_folders_for_wandb_sync_make_one_run(tmp_path: Path) -> None:
    """W&B's own command sends what two sessions wrote, each row once and in order."""
    path = run_file(tmp_path, [HEADER, *steps(0, 10)])
    bring(path, "wandb")
    run_file(tmp_path, [HEADER, *steps(0, 25), End(time=at(25), step=24, status="failed")])
    done = bring(path, "wandb")
    with WandbServer() as server:
        command = [str(Path(sys.executable).parent / "wandb"), "sync", *done.parts]
        environment = {**os.environ, **server.environment}
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True, timeout=60)
    assert [(row["_step"], row["trainer/step"]) for row in server.rows["9f2c-offline"]] == [(s, s) for s in range(25)]
    assert server.exit_codes["9f2c-offline"] == 1


def test_what_was_uploaded_before_it_was_whole_is_left(tmp_path: Path) -> None:
    """Its rows cannot be taken back, so the complete history goes into a new run."""
    path = run_file(tmp_path, [HEADER, *steps(0, 10)])
    bring(path, "wandb")
    run_file(tmp_path, [HEADER, *steps(0, 60)])
    killed(path, "wandb", offline=True)
    for log in tmp_path.glob("wandb/offline-run-*/run-9f2c-offline.wandb"):
        log.with_name(f"{log.name}.synced").touch()
    done = bring(path, "wandb")
    assert done.target == "9f2c-offline-2"
    assert done.began_anew == "a part of it was uploaded before it was whole"
    assert losses(path, "wandb", done) == [(step, 1.0) for step in range(60)]


def test_online_rows_reach_wandb_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a kill at which W&B had some of them."""
    path = run_file(tmp_path, [HEADER, *steps(0, 20)])
    with WandbServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        assert refill(path, "wandb", Where()).sent == 21
        run_file(tmp_path, [HEADER, *steps(0, 80)])
        killed(path, "wandb", offline=False)
        assert refill(path, "wandb", Where()).sent == 60
        assert refill(path, "wandb", Where()).sent == 0
    rows = server.rows["9f2c-sync"]
    assert [(row["_step"], row["trainer/step"]) for row in rows] == [(step, step) for step in range(80)]


def test_a_foreign_file_has_an_id_as_well(tmp_path: Path) -> None:
    """That stays the same while the file grows."""
    path = tmp_path / "training.json"
    line = '  {"log": "step", "time": "2026-01-15 10:30:00.123456789", "step": %d, "loss": %s}'
    path.write_text("[\n" + ",\n".join(line % (step, "nan" if step == 3 else 1.5) for step in range(20)) + "\n]\n")
    first = bring(path, "tensorboard")
    path.write_text("[\n" + ",\n".join(line % (step, "nan" if step == 3 else 1.5) for step in range(30)) + "\n]\n")
    done = bring(path, "tensorboard")
    assert (first.sent, done.sent, done.target) == (20, 10, first.target)
    found = dict(losses(path, "tensorboard", done))
    assert len(found) == 30
    assert found.pop(3) != 1.5
    assert set(found.values()) == {1.5}


def test_the_file_of_another_run_begins_anew(tmp_path: Path) -> None:
    """A name may be used again."""
    path = run_file(tmp_path, [HEADER, *steps(0, 10)])
    bring(path, "tensorboard")
    run_file(tmp_path, [Header(time=at(0), id="77aa"), *steps(0, 3)])
    done = bring(path, "tensorboard")
    assert (done.target, done.sent) == ("77aa-sync", 4)


def test_another_project_is_another_run(tmp_path: Path) -> None:
    """And the reason is told."""
    path = run_file(tmp_path, [HEADER, *steps(0, 3)])
    bring(path, "wandb")
    done = refill(path, "wandb", OFFLINE._replace(project="other"))
    assert done.sent == 4
    assert "another project" in str(done.began_anew)


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    """They would bring the same records."""
    path = run_file(tmp_path, [HEADER, *steps(0, 3)])
    with SyncState(path), pytest.raises(RunFileError, match="another sync works"):
        bring(path, "tensorboard")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Calls the command; the result has exit_code, stdout and stderr."""
    app = typer.Typer(cls=Commands, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    app.command("sync")(sync)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return lambda *words: CliRunner().invoke(app, ["sync", *map(str, words)])


def test_the_command_says_what_it_did(tmp_path: Path, call: Any) -> None:
    """And that there is nothing left to do."""
    path = run_file(tmp_path, [HEADER, *steps(0, 3)])
    first, second = call(path, "--to", "tensorboard"), call(path, "--to", "tensorboard")
    assert (first.exit_code, second.exit_code) == (0, 0)
    folder = tmp_path / "tensorboard/9f2c-sync"
    assert first.stdout == f"4 of 4 records to tensorboard: {folder}\n"
    assert second.stdout == f"tensorboard has all 4 records: {folder}\n"


def test_the_command_gives_json(tmp_path: Path, call: Any) -> None:
    """One document."""
    done = call(run_file(tmp_path, [HEADER, *steps(0, 3)]), "--to", "wandb", "--offline", "--json")
    found = json.loads(done.stdout)
    assert (found["backend"], found["mode"], found["sent"], found["total"]) == ("wandb", "offline", 4, 4)
    assert [len(wandb_rows(Path(part))) for part in found["parts"]] == [3]


@pytest.mark.parametrize("reason", ["no key", "closed port", "WANDB_MODE"])
def test_without_a_network_a_folder_is_written(
    tmp_path: Path, call: Any, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """And how to send it is said."""
    monkeypatch.setattr("stepscope.cli.sessions.TIMEOUT_S", 2.0)
    if reason == "closed port":
        monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
        monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    if reason == "WANDB_MODE":
        monkeypatch.setenv("WANDB_MODE", "offline")
    done = call(run_file(tmp_path, [HEADER, *steps(0, 3)]), "--to", "wandb")
    assert done.exit_code == 0
    (folder,) = [log.parent for log in tmp_path.glob("wandb/offline-run-*/run-9f2c-offline.wandb")]
    assert done.stdout.endswith(f"send them with: wandb sync {folder}\n")
    assert ("did not take" in done.stderr) == (reason != "WANDB_MODE")


def test_a_backend_that_cannot_take_it_is_an_error(tmp_path: Path, call: Any) -> None:
    """Exit code 1, and the next try begins where the last one did."""
    path = run_file(tmp_path, [HEADER, *steps(0, 3)])
    (tmp_path / "tensorboard").write_text("in the way")
    done = call(path, "--to", "tensorboard")
    assert done.exit_code == 1
    assert "tensorboard did not take the run: NotADirectoryError" in done.stderr
    (tmp_path / "tensorboard").unlink()
    assert call(path, "--to", "tensorboard").stdout.startswith("4 of 4 records")


@pytest.mark.parametrize("words", [["nowhere.json", "--to", "tensorboard"], ["--to", "wand"], ["training.json"]])
def test_misuse_is_an_error_of_its_own(tmp_path: Path, call: Any, words: list[str], monkeypatch: Any) -> None:
    """Exit code 2: no such file, no such backend, none given."""
    monkeypatch.chdir(tmp_path)
    run_file(tmp_path, [HEADER, Eval(time=at(1), step=1, loss=2.0)])
    assert call(*words).exit_code == 2


@pytest.mark.skipif(bool(find_spec("aim")), reason="Aim is there")
def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path: Path, call: Any) -> None:
    """Exit code 2."""
    done = call(run_file(tmp_path, [HEADER]), "--to", "aim")
    assert done.exit_code == 2
    assert "pip install 'stepscope[aim]'" in done.stderr
