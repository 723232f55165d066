"""Whatever JSON allows comes back equal: encoded, written, read."""

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.readers.run_file import read_run
from stepscope.records import (
    Allocator,
    Dataset,
    End,
    Eval,
    Event,
    Gpu,
    GpuModel,
    Header,
    Message,
    Metrics,
    Segment,
    Step,
)

from .conftest import as_file

texts = st.text(st.characters(), max_size=20)  # lone surrogates, control characters and all
steps = st.integers(0, 2**63 - 2)
wholes = st.integers(-(2**63), 2**64 - 1)
numbers = st.floats() | wholes
free = st.recursive(
    st.none() | st.booleans() | wholes | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.just("$float"), inner, max_size=3),
    max_leaves=8,
)


def maybe(values):
    """A value, or None where it is unknown."""
    return st.none() | values


segments = st.builds(Segment, name=texts, device=wholes)
records = st.one_of(
    st.builds(Step, step=steps, time=texts, loss=maybe(st.floats()), norm=maybe(st.floats()), duration_ms=numbers),
    st.builds(Step, step=steps, step_tokens=maybe(wholes), epoch=maybe(st.floats()), lr=maybe(st.floats())),
    st.builds(Eval, step=steps, loss=maybe(st.floats()), eval_tokens=maybe(wholes)),
    st.builds(Gpu, step=steps, id=maybe(wholes), power=maybe(numbers), throttle=maybe(texts)),
    st.builds(Metrics, step=steps, values=st.dictionaries(texts, numbers | st.booleans(), max_size=4)),
    st.builds(Message, step=steps, message=texts),
    st.builds(Event, step=steps, rule=texts, message=texts, evidence=free),
    st.builds(Header, time=texts, id=texts, config=free, argv=maybe(st.lists(texts, max_size=3))),
    st.builds(Allocator, step=steps, stats=maybe(st.lists(segments, max_size=2))),
    st.builds(Dataset, step=steps, split=maybe(texts), file_tokens=maybe(st.lists(st.tuples(texts, wholes)))),
    st.builds(GpuModel, step=steps, ecc=maybe(st.booleans()), uuid=maybe(texts)),
    st.builds(End, status=texts, duration_ms=maybe(numbers)),
)


def same(one, other):
    """Equality in which a NaN is itself, and types and signs of zero count."""
    return repr(one) == repr(other)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(records, max_size=8))
def test_any_record_comes_back(tmp_path, written):
    """By all records, by kind, and in numbers; nothing is called a problem."""
    path = tmp_path / "training.json"
    path.write_bytes(as_file(written))
    run = read_run(path)
    assert same(list(run.records()), written)
    assert run.problems == []
    for kind, number in run.kinds.items():
        assert same(list(run.records(kind)), [record for record in written if record.kind == kind])
        assert len(run.records(kind)) == number
    assert sum(run.kinds.values()) == len(written)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.builds(Metrics, step=steps, values=st.dictionaries(texts, numbers, max_size=4)), max_size=8))
def test_any_number_has_its_series(tmp_path, written):
    """By any name, in the order of steps, as the float that it is."""
    path = tmp_path / "training.json"
    path.write_bytes(as_file(written))
    run = read_run(path)
    names = {name for record in written for name in record.values}
    assert set(run.names()) == names
    for name in names:
        expected = [(record.step, float(record.values[name])) for record in written if name in record.values]
        series = run.series(f"metrics/{name}")
        assert same(list(run.series(name)), list(series))
        assert same(list(series), sorted(expected, key=lambda point: point[0]))
        assert all(math.isfinite(step) for step in series.steps)
