"""A run is read as it was written, a record at a time and as a whole."""

import json
import os
from array import array
from itertools import count

import pytest

from stepscope.errors import RunFileError, UnknownSetting
from stepscope.readers.on_disk import OnDisk
from stepscope.readers.run_file import read_run
from stepscope.records import Dataset, End, Eval, Event, Header, Message, Metrics, Moe, Other, Step

from .conftest import as_file

pytestmark = pytest.mark.usefixtures("storage")


def long_run(steps=5000):
    """A run of many blocks, with rare records in between."""
    records = [Header(time="2026-01-15T10:30:00.123456", id="a", config={"lr": 1e-3}, name="otter")]
    for number in range(steps):
        records.append(Step(time="2026-01-15T10:30:01.000000", step=number, loss=5 / (number + 1), lr=1e-3))
        if number % 700 == 0:
            records.append(Eval(step=number, loss=3.0, eval_tokens=100))
            records.append(Event(step=number, rule="slow", message="data is late"))
    return [*records, End(status="finished", duration_ms=17)]


def test_every_record_comes_back_equal(read):
    """What was written is read, kind by kind and in the order of the file."""
    records = long_run()
    run = read(records)
    assert list(run.records()) == records
    assert list(run.steps) == [record for record in records if isinstance(record, Step)]
    assert list(run.evals) == [record for record in records if isinstance(record, Eval)]
    assert list(run.events) == [record for record in records if isinstance(record, Event)]
    assert run.problems == []


def test_a_sequence_is_indexed_as_a_list(read):
    """Length, index, slice, reversal and membership are those of a list, over the borders of blocks."""
    records = long_run()
    expected = [record for record in records if isinstance(record, Step)]
    steps = read(records).steps
    assert (steps[0], steps[-1]) == (expected[0], expected[-1])
    assert len(steps) == len(expected) == 5000
    for index in (0, 1, 183, 184, 185, 2500, 4999, -1, -2, -5000):
        assert steps[index] == expected[index]
    for part in (slice(150, 200), slice(-3, None), slice(None, None, 611), slice(9, 3), slice(20, 10, -3)):
        assert steps[part] == expected[part]
    assert list(reversed(steps)) == expected[::-1]
    assert expected[4321] in steps
    assert steps == expected
    assert steps != expected[:-1]


def test_an_index_beyond_the_end_raises(read):
    """As a list does, also where there is nothing."""
    steps = read(long_run(3)).steps
    for index in (3, -4, 1000):
        with pytest.raises(IndexError, match="there are 3"):
            steps[index]
    with pytest.raises(IndexError):
        read([Header()]).steps[-1]


def test_a_sequence_says_whether_it_is_empty(read):
    """An empty one is false, and equal to an empty list."""
    run = read([Header(), Step(step=1)])
    assert run.steps
    assert not run.evals
    assert run.evals == []
    assert repr(run.steps) == "<1 records>"


def test_the_header_is_that_of_the_newest_attempt(read):
    """A run that was resumed has a header for each attempt."""
    run = read([Header(id="a", attempt=1), Step(step=1), Header(id="a", attempt=2), Step(step=2)])
    assert [header.attempt for header in run.headers] == [1, 2]
    assert run.header == Header(id="a", attempt=2)


def test_the_end_is_that_of_the_newest_attempt(read):
    """It is missing where the newest attempt was cut off, whatever the ones before came to."""
    first = [Header(attempt=1), Step(step=1), End(status="failed", reason="SIGTERM")]
    assert read(first).end == End(status="failed", reason="SIGTERM")
    assert read([*first, Header(attempt=2), Step(step=2)]).end is None
    assert read([*first, Header(attempt=2), End()]).end == End()
    assert read([Step(step=1)]).end is None


def test_kinds_are_counted(read):
    """`kinds` says how many records of each kind there are."""
    records = [Header(), Step(step=1), Step(step=2), Metrics(step=2, values={"a": 1}), Message(message="hello")]
    run = read(as_file(records).replace(b"\n]\n", b',\n{"log":"later","step":3}\n]\n'))
    assert run.kinds == {"run": 1, "step": 2, "metrics": 1, "message": 1, "later": 1}
    assert len(run.records()) == 6
    assert run.records("later") == [Other("later", {"log": "later", "step": 3})]


def test_words_in_a_text_are_no_records(read):
    """A message that quotes a record, or names a kind, is a message."""
    words = '\n{"log":"eval","step":7,"loss":1.0},\n"eval" {"log":"rewind","step":0}'
    run = read([Header(), Step(step=5), Message(step=5, message=words)])
    assert run.evals == []
    assert [step.step for step in run.steps] == [5]
    assert [message.message for message in run.records("message")] == [words]


def test_an_unknown_kind_or_rank_names_what_is_known(read):
    """A slip is an error that names the nearest kind; a kind that the run could have is just empty."""
    run = read([Header(), Step(step=1)])
    with pytest.raises(UnknownSetting, match="did you mean 'metrics'"):
        run.records("metric")
    with pytest.raises(UnknownSetting, match=r"no rank 3 .* known are 0"):
        run.records("step", rank=3)
    assert run.records("moe") == []


def test_free_form_data_comes_back(read):
    """Configuration and evidence are read as they were given, with what looks like an escape."""
    config = {"a": {"$float": "NaN"}, "b": float("inf"), "c": "NaN", "d": [1, None, {"log": "step"}], "log": "eval"}
    run = read([Header(config=config), Event(rule="x", evidence=config), Step(step=1)])
    assert run.header.config == config
    assert run.events[0].evidence == config
    assert run.evals == []


def test_a_record_longer_than_a_block_is_read(read):
    """Neither a record of 200 kB nor its neighbours are lost."""
    records = [Header(config="x" * 200_000), Step(step=1), Message(message="y\n" * 100_000), Step(step=2), End()]
    run = read(records)
    assert list(run.records()) == records
    assert [len(run.steps), run.end, run.problems] == [2, End(), []]


def test_the_document_s_snippet_agrees(read, tmp_path):
    """A plain JSON reader sees the same records."""
    run = read(long_run(1000))
    with open(tmp_path / "training.json") as file:
        logs = json.load(file)
    assert [log["loss"] for log in logs if log.get("log") == "step"] == [step.loss for step in run.steps]
    assert len(logs) == len(run.records())


def test_a_run_stays_as_it_was_read(read, tmp_path):
    """What is appended or put in the place of the file later is not seen, and breaks nothing."""
    run = read(long_run(1000))
    path = tmp_path / "training.json"
    with path.open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b',\n{"log":"step","step":1000,"loss":1.0}\n]\n')
    assert [len(run.steps), run.problems] == [1000, []]
    path.unlink()
    path.write_bytes(b"[\n]\n")
    assert len(list(run.steps)) == 1000


def test_a_file_cut_while_it_is_read_is_an_error(tmp_path, storage):
    """Of a large file, bytes that are gone are missed and not passed over."""
    path = tmp_path / "training.json"
    path.write_bytes(as_file(long_run()))
    run = read_run(path)
    os.truncate(path, 1000)
    if storage == "small":
        assert len(run.steps) == 5000
    else:
        with pytest.raises(RunFileError, match="became shorter"):
            list(run.steps)


def test_a_large_file_is_closed_with_its_run(tmp_path):
    """A thousand runs that were read and dropped hold no file open."""
    path = tmp_path / "training.json"
    path.write_bytes(as_file(long_run(10)))
    before = len(os.listdir("/dev/fd"))
    for _ in range(20):
        assert len(read_run(path).steps) == 10
    assert len(os.listdir("/dev/fd")) == before


def test_bytes_on_the_disk_are_sliced_as_bytes(tmp_path):
    """Any part, also across the tail that is kept."""
    data = bytes(i % 251 for i in range(200_000))
    path = tmp_path / "data"
    path.write_bytes(data)
    there = OnDisk(path, os.open(path, os.O_RDONLY), len(data))
    tail = len(data) - (1 << 16)
    for start, stop in [(0, 9), (0, len(data)), (tail - 5, tail + 5), (tail, tail), (tail, None), (-3, None), (7, 3)]:
        assert there[start:stop] == data[start:stop]
    assert len(there) == len(data)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b'{"name": "demo"}', "no run file"), (b"\x89PNG\r\n\x1a\n\0\0", "no run file"), (b"[1, 2]", "no run file")],
)
def test_a_file_of_another_kind_is_refused(read, content, says):
    """The error says what the file begins with, and which file to give."""
    with pytest.raises(RunFileError, match=says) as error:
        read(content)
    assert "give the JSON file" in str(error.value)


def test_a_missing_file_and_an_empty_folder_are_errors(tmp_path):
    """Each says what to do; both are an OSError too."""
    with pytest.raises(OSError, match="check the name"):
        read_run(tmp_path / "nothing.json")
    with pytest.raises(RunFileError, match="give the file that the run wrote"):
        read_run(tmp_path)


def test_a_folder_is_read_as_its_newest_run(tmp_path):
    """The one that began last, by its header."""
    for number, name in zip(count(1), ("training.json", "training-2.json"), strict=False):
        (tmp_path / name).write_bytes(as_file([Header(time=f"2026-01-15T10:3{number}:00.000000", id=name)]))
    assert read_run(tmp_path).header.id == "training-2.json"


def test_a_moe_series_is_an_array(read):
    """Columns are arrays that numpy takes without a copy."""
    series = read([Header(), Moe(step=4, aux_loss=0.5), Dataset(split="train")]).series("moe/aux_loss")
    assert (series.steps, series.values) == (array("q", [4]), array("d", [0.5]))
