"""A record becomes a line and comes back equal, whatever it holds."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.codec import MAX_DEPTH, decode, encode, escape, parse
from stepscope.errors import BadType, BadValue
from stepscope.records import KINDS, Dataset, Event, Header, Message, Metrics, Other, Record, Segment, Step, fields

FLOATS = st.floats()
INTEGERS = st.integers(-(2**63), 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=[]))  # lone surrogates too
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXT, children, max_size=4),
    max_leaves=20,
)


def same(a: Any, b: Any) -> bool:
    """Equality that takes NaN for equal to itself and tells 1 from 1.0 and True."""
    if isinstance(a, float) and isinstance(b, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@given(JSON)
def test_any_json_in_a_free_form_field_comes_back_equal(value: Any) -> None:
    """Strings that look like numbers stay strings, and numbers that are not finite stay numbers."""
    back = decode(encode(Event(time="t", evidence=value)), "event")
    assert isinstance(back, Event)
    assert same(back.evidence, value)


@given(st.dictionaries(TEXT, FLOATS | INTEGERS | st.booleans(), max_size=5))
def test_any_number_in_metrics_comes_back_equal(values: dict[str, Any]) -> None:
    """Whatever its name and its value."""
    back = decode(encode(Metrics(time="t", step=1, values=values)))
    assert isinstance(back, Metrics)
    assert same(back.values, values)


@given(FLOATS, FLOATS, st.none() | FLOATS, INTEGERS)
def test_any_step_comes_back_equal(loss: float, norm: float, lr: float | None, step: int) -> None:
    """Each float to the last bit, a missing one as missing."""
    record = Step(time="t", step=step, loss=loss, norm=norm, lr=lr)
    back = decode(encode(record), "step")
    assert isinstance(back, Step)
    assert same([back.loss, back.norm, back.lr, back.step], [loss, norm, lr, step])


@given(TEXT)
def test_any_text_comes_back_equal(text: str) -> None:
    """Quotes, line breaks, control characters and lone surrogates."""
    line = encode(Message(time="t", message=text))
    assert b"\n" not in line
    assert json.loads(line)["message"] == text
    assert decode(line) == Message(time="t", message=text)


def test_numbers_that_are_not_finite_are_named_as_strings() -> None:
    """As protobuf's JSON has them, and the line stays JSON."""
    line = encode(Step(step=1, loss=math.nan, norm=math.inf, lr=-math.inf))
    assert b'"norm":"Infinity","loss":"NaN","lr":"-Infinity"' in line


def test_what_is_unknown_is_left_out_and_what_is_zero_is_written() -> None:
    """Missing is missing, zero is zero."""
    assert json.loads(encode(Step(time="", step=0, loss=0.0))) == {"log": "step", "time": "", "step": 0, "loss": 0.0}


@pytest.mark.parametrize("value", [{"$float": "NaN"}, {"$float": 1}, {"$$float": "x"}, {"$float": math.nan}])
def test_data_that_looks_like_an_escape_is_not_mistaken_for_one(value: Any) -> None:
    """The escape escapes itself."""
    back = decode(encode(Event(evidence=value)))
    assert isinstance(back, Event)
    assert same(back.evidence, value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, {math.nan: 1}, {1.5: 1}, {None: 1}, {True: 1}])
def test_what_json_cannot_hold_is_an_error(value: Any) -> None:
    """Rather than a file that says something else."""
    with pytest.raises(BadValue):
        escape(value)


def test_nesting_is_limited_where_readers_would_fail() -> None:
    """200 levels pass, 201 do not."""

    def nested(depth: int) -> Any:
        return [nested(depth - 1)] if depth else 0

    assert decode(encode(Event(evidence=nested(MAX_DEPTH)))).evidence == nested(MAX_DEPTH)  # type: ignore[union-attr]
    with pytest.raises(BadValue, match="200"):
        escape(nested(MAX_DEPTH + 1))


def test_an_object_is_not_json() -> None:
    """The error names it."""
    with pytest.raises(BadType, match="object"):
        escape({"a": object()})


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        (b'  {"log": "step", "time": "2026-01-15 10:30:00.123456789", "step": 1, "loss": nan}', math.nan),
        (b'{"log": "step", "step": 1, "loss": -inf, "x": "inf, nan"}', -math.inf),
        (b'{"log": "step", "step": 1, "loss": "nan"}', math.nan),
        (b'{"log": "step", "step": 1, "loss": "inf"}', math.inf),
        (b'{"log": "step", "step": 1, "loss": Infinity}', math.inf),
        (b'{"log": "step", "step": 1, "loss": 1e999}', math.inf),
    ],
)
def test_lines_of_other_writers_are_read(line: bytes, loss: float) -> None:
    """Bare and quoted names of numbers that are not finite, in any spelling that was seen."""
    record = decode(line.strip(), "step")
    assert isinstance(record, Step)
    assert same(record.loss, loss)


def test_a_bare_nan_is_not_looked_for_inside_a_text() -> None:
    """Text is text."""
    assert parse(b'{"log": "info", "message": "nan \\"inf\\" nan", "x": nan}')["message"] == 'nan "inf" nan'


def test_a_kind_that_is_not_known_is_kept_as_it_is() -> None:
    """With all its fields."""
    record = decode(b'{"log":"option","step":3,"name":"lr","value":0.1}')
    assert record == Other("option", {"log": "option", "step": 3, "name": "lr", "value": 0.1})
    assert record.step == 3


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"3", b'{"log":"step","step":1', b'{"step":1}', b"\xff\xfe"])
def test_a_torn_line_is_no_record(line: bytes) -> None:
    """It raises, and the reader skips it."""
    with pytest.raises(ValueError):  # noqa: PT011 - any of msgspec's and json's
        decode(line)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_kind_says_what_it_means(kind: str) -> None:
    """Documentation and screens are made from that."""
    assert all(info.meaning for info in fields(kind).values())
    assert [name for name, info in fields(kind).items() if "float" in str(info.type) and not info.reduce] in (
        [],
        ["total_epochs"],
        ["values"],
        ["duration_ms"],
    )


@pytest.mark.parametrize("struct", KINDS.values())
def test_an_empty_record_of_every_kind_comes_back(struct: type[Record]) -> None:
    """No field is needed to make one."""
    record = struct(time="t")
    assert decode(encode(record), record.kind) == record


def test_nested_structs_come_back() -> None:
    """Segments and pairs too."""
    data = Dataset(file_tokens=[("a.bin", 3)])
    assert decode(encode(data)) == data
    segment = Segment(name="weights", device=3)
    assert (segment.managed, segment.pinned, segment.pageable) == (0, 0, 0)


def test_a_headers_configuration_keeps_its_types() -> None:
    """Numbers, text that looks like numbers, nothing at all."""
    config = {"lr": 2e-4, "name": "NaN", "limit": math.inf, "layers": [1, 2], "x": None}
    back = decode(encode(Header(id="a", config=config)))
    assert isinstance(back, Header)
    assert same(back.config, config)
