"""After a rewind, readers show the newest history, and the superseded one on request."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.readers.run_file import read_run
from stepscope.records import Dataset, Eval, Event, Gpu, Header, Message, Metrics, Moe, Rewind, Step

from .conftest import as_file

pytestmark = pytest.mark.usefixtures("storage")


def attempt(number, steps, rewind=None):
    """The records of one attempt; each loss tells its attempt."""
    begin = [Header(id="a", attempt=number)]
    begin += [] if rewind is None else [Rewind(step=rewind, last_step=99, attempt=number)]
    return begin + [Step(step=step, loss=float(number)) for step in steps]


def test_steps_at_and_above_the_rewind_are_superseded(read):
    """The second attempt's take their place; those below it stay."""
    run = read(attempt(1, range(6)) + attempt(2, range(4, 8), rewind=4))
    assert list(run.series("loss")) == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2), (7, 2)]
    assert [step.step for step in run.steps] == list(range(8))
    assert len(run.steps) == run.kinds["step"] == 8
    assert run.steps[4].loss == 2.0


def test_the_superseded_history_is_there_on_request(read):
    """All records in the order of the file, as a sequence and as a series."""
    run = read(attempt(1, range(6)) + attempt(2, range(4, 8), rewind=4))
    steps = run.records("step", superseded=True)
    assert [step.step for step in steps] == [0, 1, 2, 3, 4, 5, 4, 5, 6, 7]
    assert len(steps) == 10
    assert run.series("loss", superseded=True).steps.tolist() == [0, 1, 2, 3, 4, 5, 4, 5, 6, 7]


def test_rewinds_compose(read):
    """A later rewind to an earlier step supersedes the history in between as well."""
    run = read(attempt(1, range(9)) + attempt(2, range(6, 12), rewind=6) + attempt(3, range(3, 5), rewind=3))
    assert list(run.series("loss")) == [(0, 1), (1, 1), (2, 1), (3, 3), (4, 3)]
    run = read(attempt(1, range(9)) + attempt(2, range(3, 5), rewind=3) + attempt(3, range(8, 10), rewind=8))
    assert [value for _, value in run.series("loss")] == [1, 1, 1, 2, 2, 3, 3]


def test_a_rewind_to_the_beginning_supersedes_every_step(read):
    """Also the step 0."""
    run = read(attempt(1, range(5)) + attempt(2, range(2), rewind=0))
    assert list(run.series("loss")) == [(0, 2), (1, 2)]


def test_what_happened_is_never_superseded(read):
    """Events, messages, headers, rewinds, data and GPUs stay; measurements of superseded steps go."""
    kept = [Event(step=5, rule="x"), Message(step=5, message="y"), Dataset(step=5, split="train")]
    gone = [Eval(step=5, loss=1.0), Gpu(step=5, id=0, clock=1), Moe(step=5, aux_loss=1.0), Metrics(step=5, values={})]
    run = read([Header(), *kept, *gone, Header(attempt=2), Rewind(step=2)])
    assert run.kinds == {"run": 2, "event": 1, "message": 1, "dataset": 1, "rewind": 1}
    assert [record.kind for record in run.records()] == ["run", "event", "message", "dataset", "run", "rewind"]
    assert run.events == kept[:1]
    with_all = run.records(superseded=True)
    assert len(with_all) == len(list(with_all)) == 10


def test_what_the_new_attempt_measures_before_its_first_step_stands(read):
    """A checkpoint is evaluated before training goes on from it."""
    first = [Header(), *(Step(step=step) for step in range(10)), Eval(step=9, loss=1.0)]
    second = [Header(attempt=2), Eval(step=7, loss=2.0), Rewind(step=7), Step(step=7), Eval(step=8, loss=3.0)]
    run = read(first + second)
    assert [record.loss for record in run.evals] == [2.0, 3.0]
    assert [step.step for step in run.steps] == list(range(8))


def test_two_records_of_a_step_are_both_kept(read):
    """Without a rewind, nothing says which of them would be the right one."""
    run = read([Header(), Step(step=3, loss=1.0), Step(step=3, loss=2.0)])
    assert [step.loss for step in run.steps] == [1.0, 2.0]
    assert run.series("loss").values.tolist() == [1.0, 2.0]


def test_a_torn_rewind_changes_nothing(read):
    """Half a rewind does not say to which step."""
    data = as_file([Step(step=1, loss=1.0), Rewind(step=0), Step(step=1, loss=2.0)])
    run = read(data.replace(b'"step":0', b'"ste'))
    assert run.series("loss").values.tolist() == [1.0, 2.0]
    assert len(run.problems) == 1


def test_a_foreign_spelling_of_a_rewind_counts(read):
    """A file that was written anew with other spaces keeps its history."""
    data = as_file(attempt(1, range(6)) + attempt(2, range(2), rewind=2)).replace(b'"log":', b'"log": ')
    assert [step.step for step in read(data).steps] == [0, 1, 0, 1]


def test_unknown_kinds_are_superseded_by_their_step(read):
    """A later version's measurements go with the steps that they belong to; those without a step stay."""
    lines = [b'{"log":"norms","step":5}', b'{"log":"norms","step":1}', b'{"log":"note"}', b'{"log":"rewind","step":2}']
    run = read(b"[\n" + b",\n".join(lines) + b"\n]\n")
    assert run.kinds == {"norms": 1, "note": 1, "rewind": 1}
    assert [record.step for record in run.records("norms")] == [1]
    assert [record.step for record in run.records("norms", superseded=True)] == [5, 1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 300)), min_size=1, max_size=6))
def test_any_history_agrees_with_a_plain_replay(tmp_path, attempts):
    """Whatever the attempts, what stands is what a list holds from which each rewind cuts."""
    records, expected = [], []
    for number, (begin, length) in enumerate(attempts):
        records += attempt(number, range(begin, begin + length), rewind=begin)
        expected = [pair for pair in expected if pair[0] < begin]
        expected += [(step, float(number)) for step in range(begin, begin + length)]
    path = tmp_path / "training.json"
    path.write_bytes(as_file(records))
    run = read_run(path)
    assert [(step.step, step.loss) for step in run.steps] == expected
    assert len(run.steps) == len(expected)
    assert list(run.series("loss")) == expected
