"""A torn file becomes whole, and what was cut is kept."""

import json
from pathlib import Path

import pytest

from stepscope.codec import encode
from stepscope.errors import RunFileError
from stepscope.records import Message, Step
from stepscope.sinks.repair import repair
from tests.conftest import load

RECORDS = [Step(step=0, loss=1.5), Message(message='a ] } , [ { " \\ é'), Step(step=1, loss=float("nan"))]
WHOLE = b"[\n" + b",\n".join(map(encode, RECORDS)) + b"\n]\n"


@pytest.mark.parametrize("size", range(len(WHOLE) + 1))
def test_a_file_cut_at_any_byte_keeps_its_whole_records(tmp_path: Path, size: int) -> None:
    """The rest lies beside it, byte for byte."""
    path = tmp_path / "a.json"
    path.write_bytes(WHOLE[:size])
    whole = sum(encode(record) in WHOLE[:size] for record in RECORDS)
    done = repair(path)
    assert len(load(path)) == whole
    assert path.read_bytes().endswith(b"\n]\n")
    if done.kept_in:
        assert done.kept_in.read_bytes().rstrip(b"\n") in WHOLE[:size]
    again = repair(path)
    assert (again.changed, again.cut) == (False, 0)


@pytest.mark.parametrize(
    "tail", [b"\0" * 5000, b',\n{"log":"step","st', b"\n\xff\xfe\n", b',\n{"log":"a"\n{"log"', b"   \n\n"]
)
def test_what_stands_behind_the_last_record_is_cut(tmp_path: Path, tail: bytes) -> None:
    """Zeros of a power loss, half a record, rubbish."""
    path = tmp_path / "a.json"
    path.write_bytes(WHOLE[:-3] + tail)
    repair(path)
    assert path.read_bytes() == WHOLE


def test_a_long_torn_record_is_found_by_looking_further_back(tmp_path: Path) -> None:
    """However long it is."""
    path = tmp_path / "a.json"
    path.write_bytes(WHOLE[:-3] + b',\n{"log":"message","message":"' + b"x" * 1_000_000)
    done = repair(path)
    assert path.read_bytes() == WHOLE
    assert done.cut > 1_000_000
    assert done.kept_in
    assert done.kept_in.stat().st_size == done.cut + 1


def test_an_array_that_another_program_wrote_loses_nothing(tmp_path: Path) -> None:
    """Indented, or with a record over several lines at its end."""
    path = tmp_path / "a.json"
    for text in (
        '[\n  {"log": "step", "step": 1},\n  {"log": "abs-maxes", "step": 1, "abs_maxes": [\n      {"a": 1}\n  ]}\n]\n',
        json.dumps([{"log": "step", "step": 1}, {"log": "step", "step": 2}], indent=2),
        '[{"log": "step", "step": 1}, {"log": "step", "step": 2}]',
    ):
        path.write_text(text)
        before = json.loads(text)
        done = repair(path)
        assert (load(path), done.cut) == (before, 0)
        assert path.read_bytes().endswith(b"\n]\n")


@pytest.mark.parametrize("text", ["[section]\nkey = 1\n", "[1, 2, 3]", '[{"lr": 1}]', "{}"])
def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, text: str) -> None:
    """Even where it begins like an array."""
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(RunFileError, match="nothing was changed"):
        repair(path)
    assert path.read_text() == text


def test_what_is_no_run_file_is_left_alone(tmp_path: Path) -> None:
    """And the error says so."""
    path = tmp_path / "a.txt"
    path.write_text("step:1/10 val_loss:3\n")
    with pytest.raises(RunFileError, match="nothing was changed"):
        repair(path)
    with pytest.raises(RunFileError, match="No such file"):
        repair(tmp_path / "none.json")
    assert path.read_text() == "step:1/10 val_loss:3\n"
