"""TensorBoard's event file, read with TensorBoard's own reader."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepscope.records import Event, Header, Record, Rewind, Step
from stepscope.sinks.tensorboard import TensorBoard

from .mixed_run import HEADER, at, mixed_run
from .read_back import accumulated, difference, same, single, tensorboard_points


def written(folder: Path, records: list[Record]) -> Path:
    """The folder with these records."""
    sink = TensorBoard(str(folder))
    for record in records:
        sink.write(record)
    sink.close()
    return folder


def test_a_mixed_run_comes_back_whole(tmp_path: Path) -> None:
    """Every tag, step and value of 2,000 records, in single precision."""
    records, points = mixed_run(2000)
    found = tensorboard_points(written(tmp_path, records))
    wanted = single(points["tensorboard"])
    assert len(wanted) > 10_000
    assert same(found, wanted, digits=7), difference(found, wanted, digits=7)


def test_what_is_not_finite_arrives_as_it_is(tmp_path: Path) -> None:
    """NaN and both infinities."""
    losses = [math.nan, math.inf, -math.inf]
    events = accumulated(written(tmp_path, [Step(step=s, loss=loss) for s, loss in enumerate(losses)]))
    nan, *rest = [event.value for event in events.Scalars("train/loss")]
    assert math.isnan(nan)
    assert rest == [math.inf, -math.inf]


def test_the_time_is_that_of_the_record(tmp_path: Path) -> None:
    """So that a file that is filled later shows the times of the run."""
    (event,) = accumulated(written(tmp_path, [Step(time=at(0), step=1, loss=2.0)])).Scalars("train/loss")
    assert event.wall_time == 1768471200.5


def test_a_rewind_drops_what_was_superseded(tmp_path: Path) -> None:
    """TensorBoard's reader shows the newest history."""
    old = [Step(step=step, loss=1.0) for step in range(10)]
    new = [Step(step=step, loss=2.0) for step in range(5, 8)]
    events = accumulated(written(tmp_path, [*old, Rewind(step=5, last_step=9), *new]))
    found = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert found == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (5, 2.0), (6, 2.0), (7, 2.0)]


def test_the_configuration_is_in_the_hparams_tab(tmp_path: Path) -> None:
    """With nested names, and as text besides."""
    from tensorboard.plugins.hparams import metadata

    events = accumulated(written(tmp_path, [HEADER]))
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    found = metadata.parse_session_start_info_plugin_data(content).hparams
    assert found["lr"].number_value == 2e-4
    assert found["stepscope/id"].string_value == "a1b2c3"
    (text,) = events.Tensors("config/layers")
    assert text.tensor_proto.string_val[0].decode().strip() == "12"


def test_an_event_is_a_text(tmp_path: Path) -> None:
    """At its step."""
    events = accumulated(written(tmp_path, [Event(step=4, rule="slow", message="data is late", advice="add workers")]))
    (text,) = events.Tensors("event/slow")
    assert (text.step, text.tensor_proto.string_val[0]) == (4, b"data is late: add workers")


def test_readers_see_what_was_written_seconds_ago(tmp_path: Path) -> None:
    """While the file is still open."""
    now = 0.0
    sink = TensorBoard(str(tmp_path), clock=lambda: now)
    sink.write(Step(step=0, loss=1.0))
    assert "train/loss" not in accumulated(tmp_path).Tags()["scalars"]
    now = 2.5
    sink.write(Step(step=1, loss=1.0))
    assert len(accumulated(tmp_path).Scalars("train/loss")) == 2
    sink.close()


def test_each_sink_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Also many of one process within a second; TensorBoard reads them in the order in which they were made."""
    for step in range(12):
        written(tmp_path, [Step(step=step, loss=1.0)])
    assert len(list(tmp_path.iterdir())) == 12
    assert [event.step for event in accumulated(tmp_path).Scalars("train/loss")] == list(range(12))


@pytest.mark.parametrize("module", ["torch", "tensorflow", "tensorboard.compat.notf"])
def test_neither_torch_nor_tensorflow_is_loaded(tmp_path: Path, module: str) -> None:
    """A file is written without them, even where TensorFlow is there."""
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from stepscope.records import Header, Step\n"
        "from stepscope.sinks.tensorboard import TensorBoard\n"
        f"sink = TensorBoard({str(tmp_path / 'out')!r})\n"
        "sink.write(Header(id='a', config={'lr': 1})); sink.write(Step(step=1, loss=1.0)); sink.close()\n"
        f"assert {module!r} not in sys.modules"
    )
    done: Any = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_later_attempt_adds_its_configuration_as_text(tmp_path: Path) -> None:
    """The HParams tab knows one configuration a run: that of the first attempt."""
    from tensorboard.plugins.hparams import metadata

    attempts = [Header(id="a", config={"lr": 1.0}), Header(id="a", attempt=2, config={"lr": 2.0})]
    events = accumulated(written(tmp_path, list(attempts)))
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert metadata.parse_session_start_info_plugin_data(content).hparams["lr"].number_value == 1.0
    texts = [event.tensor_proto.string_val[0].decode().strip() for event in events.Tensors("config/lr")]
    assert texts == ["1.0", "2.0"]
