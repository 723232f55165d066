"""A file that was damaged gives every record that is whole, and says what was skipped."""

import pytest

from stepscope.codec import encode
from stepscope.readers.run_file import read_run
from stepscope.records import Allocator, End, Eval, Event, Header, Message, Metrics, Segment, Step

from .conftest import as_file

pytestmark = pytest.mark.usefixtures("storage")

RECORDS = [
    Header(time="2026-01-15T10:30:00.123456", id="a1", argv=["train.py", "]"], config={"model": {"width": [64, 128]}}),
    Step(time="2026-01-15T10:30:01.000000", step=1, loss=2.5, norm=float("nan")),
    Allocator(step=1, stats=[Segment(name="weights", device=4096)]),
    Message(step=1, message='a "quoted" {line},\n]\n[ of \\ text é \ud800'),
    Eval(step=1, loss=float("inf"), eval_tokens=10),
    Metrics(step=1, values={"acc/top 1": 0.5, "done": True}),
    Event(step=1, rule="spike", evidence=[{"log": "step", "step": 1}]),
    End(status="finished"),
]


def whys(run):
    """Why parts were skipped."""
    return [problem.why for problem in run.problems]


def test_a_file_cut_at_every_byte_gives_the_whole_records(tmp_path):
    """Wherever the file ends, what stands whole before it is read, and nothing else."""
    data, path = as_file(RECORDS), tmp_path / "training.json"
    ends = [data.index(line) + len(line) for line in map(encode, RECORDS)]
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        run = read_run(path)
        whole = sum(end <= size for end in ends)
        found = list(run.records())
        assert [repr(record) for record in found] == [repr(record) for record in RECORDS[:whole]], size
        assert bool(run.problems) == (size < len(data) - 1), size
        assert len(run.records()) == whole


@pytest.mark.parametrize("line", range(len(RECORDS)))
def test_a_line_torn_in_the_middle_is_skipped_and_named(read, line):
    """At every byte of it: the others are read, and the problem has its line, place and beginning."""
    lines = [encode(record) for record in RECORDS]
    offset = 2 + sum(len(text) + 2 for text in lines[:line])
    expected = [repr(record) for number, record in enumerate(RECORDS) if number != line]
    for size in range(1, len(lines[line])):
        torn = [*lines[:line], lines[line][:size], *lines[line + 1 :]]
        run = read(b"[\n" + b",\n".join(torn) + b"\n]\n")
        assert [repr(record) for record in run.records()] == expected, size
        (problem,) = run.problems
        assert (problem.line, problem.offset) == (line + 2, offset), size
        assert problem.text.startswith(repr(lines[line][:size].decode("utf-8", "replace"))[:9]), size


def test_a_torn_line_among_thousands_is_found(read):
    """A problem deep in a long file has its line; the series and the count leave it out."""
    lines = [encode(Step(step=number, loss=1.0)) for number in range(5000)]
    lines[4000] = lines[4000][:30]
    run = read(b"[\n" + b",\n".join(lines) + b"\n]\n")
    assert [(problem.line, problem.why) for problem in run.problems] == [(4002, "not a whole record")]
    assert len(run.steps) == len(list(run.steps)) == len(run.series("loss")) == 4999
    assert run.steps[4000].step == 4001


def test_two_records_on_a_line_after_a_tear_are_named(read):
    """A record that was appended behind half of another is not guessed at."""
    glued = encode(RECORDS[1])[:40] + encode(RECORDS[1])
    run = read(b"[\n" + encode(RECORDS[0]) + b",\n" + glued + b",\n" + encode(RECORDS[4]) + b"\n]\n")
    assert [record.kind for record in run.records()] == ["run", "eval"]
    assert whys(run) == ["not a whole record"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"[", "the closing bracket is missing"),
        (b"[\n", "the closing bracket is missing"),
        (b'[\n{"log":"ru', "not a whole record"),
        (b'[\n{"lo', "not a whole record"),
        (b'[\n{"log":"run","time":"20', "not a whole record"),
    ],
)
def test_a_run_that_has_hardly_begun_is_empty(read, content, why):
    """It is a run without records, not an error, and the problem says why."""
    run = read(content)
    assert list(run.records()) == list(run.steps) == list(run.series("loss")) == []
    assert (run.header, run.end, run.kinds) == (None, None, {})
    assert whys(run) == [why]


def test_an_array_without_records_has_no_problem(read):
    """A logger that has only opened its file leaves one of these."""
    for content in (b"[]", b"[\n]\n", b"[\n\n]\n"):
        assert (read(content).problems, read(content).kinds) == ([], {})


def test_a_missing_bracket_is_named(read):
    """All records are there, but a plain JSON reader fails."""
    run = read(as_file(RECORDS)[:-2])
    assert len(run.records()) == len(RECORDS)
    assert whys(run) == ["the closing bracket is missing"]


def test_zeros_after_a_loss_of_power_are_skipped(read):
    """At the end, in place of the last record, as the whole file, and between two records."""
    whole = as_file(RECORDS)
    run = read(whole + bytes(100_000))
    assert (len(run.records()), whys(run)) == (len(RECORDS), ["not written to the disk before a loss of power"])
    assert (run.problems[0].offset, run.problems[0].text) == (len(whole), "100000 bytes of zero")
    run = read(whole[:-20] + bytes(4096))
    assert len(run.records()) == len(RECORDS) - 1
    assert list(read(bytes(5000)).records()) == []
    middle = whole.index(encode(RECORDS[4]))
    assert len(read(whole[:middle] + bytes(512) + b"\n" + whole[middle:]).records()) == len(RECORDS)


def test_text_between_records_is_named(read):
    """What somebody else printed into the file costs no record."""
    whole = as_file(RECORDS)
    middle = whole.index(encode(RECORDS[4]))
    run = read(whole[:middle] + b"Killed\n" + whole[middle:])
    assert len(run.records()) == len(RECORDS)
    assert [(problem.text, problem.offset) for problem in run.problems] == [("'Killed'", middle)]


def test_text_before_the_first_record_is_named(read):
    """A shell's words at the head of the file do not hide the run."""
    run = read(b"nohup: ignoring input\n" + as_file(RECORDS))
    assert len(run.records()) == len(RECORDS)
    assert [(problem.line, problem.offset) for problem in run.problems] == [(1, 0)]


def test_windows_line_ends_and_a_byte_order_mark_are_taken(read):
    """As an editor on another system saves them, with nothing to complain of."""
    lines = [encode(record) for record in RECORDS]
    run = read(b"\xef\xbb\xbf[\r\n" + b",\r\n".join(lines) + b"\r\n]\r\n")
    assert [repr(record) for record in run.records()] == [repr(record) for record in RECORDS]
    assert run.problems == []


def test_bytes_that_are_no_text_cost_one_character(read):
    """A message in another encoding is kept, with a mark where it cannot be read."""
    run = read(b'[\n{"log":"message","step":1,"message":"na\xefve"},\n{"log":"step","step":2,"loss":1.0}\n]\n')
    assert [message.message for message in run.records("message")] == ["na�ve"]
    assert run.series("loss").steps.tolist() == [2]


def test_nesting_without_end_is_skipped(read):
    """A line that would exhaust the stack is a problem like others."""
    deep = b'{"log":"event","evidence":' + b"[" * 100_000
    run = read(b"[\n" + deep + b",\n" + encode(RECORDS[1]) + b"\n]\n")
    assert [record.kind for record in run.records()] == ["step"]
    assert whys(run) == ["not a whole record"]


def test_a_field_that_does_not_fit_is_left_out(read):
    """The rest of the record is read, the field is named, and its series has no point there."""
    run = read(b'[\n{"log":"step","step":1,"loss":"high","lr":0.1},\n{"log":"step","step":2,"loss":2.0}\n]\n')
    assert list(run.steps) == [Step(step=1, lr=0.1), Step(step=2, loss=2.0)]
    assert [(problem.text, problem.why) for problem in run.problems] == [("loss: 'high'", "does not fit a step record")]
    assert run.series("loss").steps.tolist() == [2]
    assert run.series("lr").values.tolist() == [0.1]
