"""A run file is followed while it grows."""

import os
import threading

import pytest

from stepscope.codec import encode
from stepscope.errors import RunFileError
from stepscope.readers import on_disk
from stepscope.readers.follow import Follower
from stepscope.readers.run_file import read_run
from stepscope.records import End, Eval, Header, Message, Metrics, Step
from stepscope.sinks.jsonfile import JsonFile

from .conftest import as_file

RECORDS = [
    Header(id="a", config={"x": [1]}),
    Step(step=1, loss=2.5),
    Message(step=1, message='}\n]\n{"log":"step"'),
    Eval(step=1, loss=float("inf")),
    Metrics(step=1, values={"a": 0.5}),
    End(),
]


@pytest.fixture
def path(tmp_path):
    """Where the run file will be."""
    return tmp_path / "training.json"


def test_each_record_comes_once(path):
    """As the file is after each append: whole, with its tail rewritten."""
    follower = Follower(path)
    for number in range(len(RECORDS)):
        path.write_bytes(as_file(RECORDS[: number + 1]))
        assert follower.poll() == [RECORDS[number]]
        assert follower.poll() == []
    assert (follower.restarts, follower.problems) == (0, [])


def test_a_file_that_grows_by_the_byte_gives_whole_records_only(path):
    """A record comes with its last byte, not before and not twice, wherever a write was caught."""
    data, follower, found = as_file(RECORDS), Follower(path), []
    ends = [data.index(line) + len(line) for line in map(encode, RECORDS)]
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        found += follower.poll()
        assert found == RECORDS[: sum(end <= size for end in ends)], size
    assert (follower.restarts, follower.problems) == (0, [])


def test_a_poll_reads_only_what_is_new(path):
    """The offset stands behind the last record; what is before it is not looked at again."""
    path.write_bytes(as_file(RECORDS[:3]))
    follower = Follower(path)
    follower.poll()
    assert follower.offset == len(as_file(RECORDS[:3])) - 3
    size = follower.offset
    data = as_file(RECORDS)
    path.write_bytes(b"#" * (size - 300 if size > 300 else 0) + data[max(size - 300, 0) :])
    assert follower.poll() == RECORDS[3:]


def test_another_follower_goes_on_from_an_offset(path):
    """Also from one in the middle of a record: then with the next."""
    path.write_bytes(as_file(RECORDS[:3]))
    first = Follower(path)
    first.poll()
    path.write_bytes(as_file(RECORDS))
    assert Follower(path, first.offset).poll() == RECORDS[3:]
    assert Follower(path, as_file(RECORDS).index(encode(RECORDS[3]))).poll() == RECORDS[3:]
    assert Follower(path, as_file(RECORDS).index(encode(RECORDS[3])) + 9).poll() == RECORDS[4:]


def test_a_file_that_is_not_there_yet_is_waited_for(path):
    """Nothing comes until it does; neither does its vanishing for a while lose or repeat anything."""
    follower = Follower(path)
    assert follower.poll() == []
    path.write_bytes(as_file(RECORDS[:2]))
    assert follower.poll() == RECORDS[:2]
    path.unlink()
    assert follower.poll() == []
    path.write_bytes(as_file(RECORDS))
    assert follower.poll() == RECORDS[2:]
    assert follower.restarts == 0


def test_a_file_that_shrank_is_read_again(path):
    """A new run under the same name: from its beginning, and it says so."""
    path.write_bytes(as_file(RECORDS))
    follower = Follower(path)
    follower.poll()
    path.write_bytes(as_file([Header(id="b")]))
    assert follower.poll() == [Header(id="b")]
    assert follower.restarts == 1
    assert "read again from its beginning" in follower.problems[0].why


def test_a_file_that_was_replaced_by_a_longer_one_is_read_again(path):
    """What was read before does not stand there any more."""
    path.write_bytes(as_file(RECORDS[:2]))
    follower = Follower(path)
    follower.poll()
    other = [Header(id="b"), *(Step(step=step) for step in range(100))]
    path.with_suffix(".new").write_bytes(as_file(other))
    os.replace(path.with_suffix(".new"), path)
    assert follower.poll() == other
    assert follower.restarts == 1


def test_a_torn_end_that_was_repaired_costs_nothing(path):
    """Half a record waits; after the repair and a new attempt, what follows comes."""
    path.write_bytes(as_file(RECORDS[:2])[:-3] + b",\n" + encode(RECORDS[2])[:-4])
    follower = Follower(path)
    assert follower.poll() == RECORDS[:2]
    path.write_bytes(as_file([*RECORDS[:2], Header(attempt=2), Step(step=2)]))
    assert follower.poll() == [Header(attempt=2), Step(step=2)]
    assert (follower.restarts, follower.problems) == (0, [])


def test_a_tear_that_others_were_written_behind_is_named(path):
    """It is skipped once a record follows it, with its line and place."""
    lines = [encode(record) for record in RECORDS]
    follower = Follower(path)
    path.write_bytes(b"[\n" + lines[0] + b",\n" + lines[1][:-9])
    assert follower.poll() == RECORDS[:1]
    path.write_bytes(b"[\n" + lines[0] + b",\n" + lines[1][:-9] + b",\n" + lines[3] + b"\n]\n")
    assert follower.poll() == [RECORDS[3]]
    assert [(problem.line, problem.offset) for problem in follower.problems] == [(3, len(lines[0]) + 4)]


def test_superseded_records_are_followed_too(path):
    """A follower tells what is written, in the order of the file."""
    path.write_bytes(b'[\n{"log":"step","step":5},\n{"log":"rewind","step":2},\n{"log":"step","step":2}\n]\n')
    assert [(record.kind, record.step) for record in Follower(path).poll()] == [("step", 5), ("rewind", 2), ("step", 2)]


def test_a_foreign_file_is_followed(path):
    """With indented lines, bare nan, and a record of several lines that comes in two halves."""
    head = b'[\n  {"log": "step", "step": 1, "loss": 2.0, "norm": nan}'
    maxes = b',\n  {"log": "abs-maxes", "step": 1, "abs_maxes": [\n          {"name": "a", "value": nan}'
    follower, counts = Follower(path), []
    for content in (head + b"\n]\n", head + maxes, head + maxes + b"]}\n]\n"):
        path.write_bytes(content)
        counts.append([record.kind for record in follower.poll()])
    assert counts == [["step"], [], ["abs-maxes"]]


def test_a_path_that_cannot_be_read_is_an_error(tmp_path):
    """A folder, say."""
    with pytest.raises(RunFileError, match="cannot read"):
        Follower(tmp_path).poll()


class Writer(threading.Thread):
    """Writes long and short records as fast as it can."""

    def __init__(self, path, number=3000):
        super().__init__()
        self.records = [Message(step=step, message="x" * (step * 37 % 5000)) for step in range(number)]
        self.file = JsonFile.create(path)

    def run(self):
        """Write them all."""
        for record in self.records:
            self.file.write(record)
        self.file.close()


def messages(records):
    """Those of the records that the writer wrote."""
    return [record for record in records if isinstance(record, Message)]


def test_a_follower_beside_a_writer_misses_nothing(path):
    """It polls as fast as it can, and sees each record once and in order."""
    writer, follower, found, polls = Writer(path), Follower(path), [], 0
    writer.start()
    while writer.is_alive():
        found += follower.poll()
        polls += 1
    found += follower.poll()
    assert messages(found) == writer.records
    assert polls > 1
    assert (follower.restarts, follower.problems) == (0, [])


@pytest.mark.parametrize("small", [1 << 40, -1], ids=["small", "large"])
def test_a_run_beside_a_writer_is_read_as_far_as_it_is(path, small, monkeypatch):
    """Each reading finds the records up to some point, none missing before it, and at most the last one torn."""
    monkeypatch.setattr(on_disk, "SMALL", small)
    writer, lengths = Writer(path, 1500), []
    writer.start()
    while writer.is_alive():
        run = read_run(path)
        found = messages(run.records())
        assert found == writer.records[: len(found)]
        assert len(run.problems) <= 1
        lengths.append(len(found))
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 1
