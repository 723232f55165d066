"""`stepscope export`."""

import csv
import io
import json
import math
import os
import sys

import pytest

from stepscope.codec import decode
from stepscope.records import Gpu, Header, Message, Metrics, Rewind, Segment, Step

from .conftest import at, step, whole_run


def table(text: str) -> list[dict[str, str]]:
    """CSV as a reader that is not ours reads it."""
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_a_row_a_step(call, write):
    """Fields in their order, the computed throughput, and further numbers in the row of their step."""
    done = call("export", write(whole_run()), "--to", "csv")
    assert done.stdout.splitlines()[0] == "time,step,step_tokens,duration_ms,tokens_per_second,norm,loss,lr,acc/train"
    rows = table(done.stdout)
    assert [row["step"] for row in rows] == [str(n) for n in range(1, 11)]
    assert rows[3]["loss"] == "2.5"
    assert {row["tokens_per_second"] for row in rows} == {"1000.0"}
    assert [row["acc/train"] for row in rows] == [""] * 9 + ["0.75"]


def test_csv_unites_all_columns(call, write):
    """A name that comes late is a column of every row; a step with further numbers alone has its row, in order."""
    records = [
        step(1),
        Metrics(step=2, values={"b": 1}),
        Step(step=3, sol=78.5),
        Metrics(step=3, values={"loss": 7, "ok": True}),
    ]
    rows = table(call("export", write(records), "--to", "csv").stdout)
    assert [(row["step"], row["loss"], row["sol"], row["b"], row["metrics/loss"], row["ok"]) for row in rows] == [
        ("1", "2.0", "", "", "", ""),
        ("2", "", "", "1", "", ""),
        ("3", "", "78.5", "", "7", "true"),
    ]


def test_csv_names_what_is_not_finite(call, write):
    """NaN and the infinities are written as the run file writes them."""
    records = [step(1, loss=math.nan), step(2, loss=math.inf), step(3, loss=-math.inf)]
    rows = table(call("export", write(records), "--to", "csv").stdout)
    assert [row["loss"] for row in rows] == ["NaN", "Infinity", "-Infinity"]


def test_only_the_newest_history(call, write):
    """What a rewind superseded is left out."""
    records = [step(1, loss=1.0), step(2, loss=2.0), Rewind(step=2, last_step=2, attempt=2), step(2, loss=3.0)]
    rows = table(call("export", write(records), "--to", "csv").stdout)
    assert [(row["step"], row["loss"]) for row in rows] == [("1", "1.0"), ("2", "3.0")]


def test_other_kinds_have_their_own_columns(call, write):
    """--kind takes any kind that the run has; text with commas, quotes and line breaks comes back."""
    text = 'a "b",\nc'
    rows = table(call("export", write([Message(step=1, message=text)]), "--to", "csv", "--kind", "message").stdout)
    assert rows[0]["message"].splitlines() == text.splitlines()


def test_an_unknown_kind_is_said_with_the_nearest(call, write):
    """A kind that the run does not have is exit code 2, and the nearest one is named."""
    done = call("export", write(whole_run()), "--to", "csv", "--kind", "evl")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "did you mean 'eval'" in done.stderr


def test_ranks_are_told_apart(call, write):
    """Records of every rank are exported, with their rank."""
    path = write([Header(id="x", rank=0), Gpu(step=1, id=0, power=1)])
    write([Header(id="x", rank=1), Gpu(step=1, id=0, power=2)], "training.rank1.json")
    rows = table(call("export", path, "--to", "csv", "--kind", "gpu").stdout)
    assert [(row["rank"], row["power"]) for row in rows] == [("0", "1"), ("1", "2")]


def test_jsonl_has_every_record(call, write):
    """Each line is a record that decodes to what was written, in its order."""
    records = [*whole_run(config={"x": math.nan}), step(11, loss=math.nan)]
    lines = call("export", write(records), "--to", "jsonl").stdout.splitlines()
    assert [repr(decode(line.encode())) for line in lines] == [repr(record) for record in records]


def test_jsonl_keeps_kinds_that_are_not_known(call, write):
    """A record of a kind that this version does not know is passed on."""
    path = write(whole_run())
    path.write_bytes(path.read_bytes().replace(b"\n]\n", ',\n{"log":"option","name":"lr","value":"Ω"}\n]\n'.encode()))
    last = call("export", path, "--to", "jsonl", "--kind", "option").stdout
    assert json.loads(last) == {"log": "option", "name": "lr", "value": "Ω"}


def test_parquet_comes_back_typed(call, write, tmp_path):
    """Read with pyarrow: whole numbers, doubles with NaN and null, truth values, text, times in UTC."""
    parquet = pytest.importorskip("pyarrow.parquet")
    records = [step(1, loss=math.nan), Metrics(step=1, values={"ok": True, "n": 3}), step(2, norm=None)]
    done = call("export", write(records), "--to", "parquet", "-o", tmp_path / "x.parquet")
    assert done.exit_code == 0
    read = parquet.read_table(tmp_path / "x.parquet")
    types = {field.name: str(field.type) for field in read.schema}
    expected = {"step": "int64", "loss": "double", "ok": "bool", "n": "int64", "time": "timestamp[us, tz=UTC]"}
    assert types | expected == types
    first, second = read.to_pylist()
    assert math.isnan(first["loss"])
    assert (first["step"], first["ok"], first["time"].isoformat()) == (1, True, "2026-01-15T10:30:01+00:00")
    assert (second["norm"], second["ok"]) == (None, None)


def test_parquet_takes_nested_records(call, write, tmp_path):
    """What is nested becomes JSON text."""
    parquet = pytest.importorskip("pyarrow.parquet")
    from stepscope.records import Allocator

    path = write([Allocator(step=0, stats=[Segment(name="weights", device=2**32)])])
    call("export", path, "--to", "parquet", "--kind", "allocator", "-o", tmp_path / "x.parquet")
    (row,) = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert json.loads(row["stats"])[0]["device"] == 2**32


def test_parquet_without_pyarrow_says_what_to_install(process, write, tmp_path):
    """A missing package is exit code 2 and the command that installs it; nothing is left behind."""
    path = write(whole_run())
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide/pyarrow.py").write_text("raise ImportError\n")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "hide"), *sys.path])}
    done = process("export", path, "--to", "parquet", "-o", tmp_path / "x.parquet", env=env)
    assert done.returncode == 2
    assert "pip install 'stepscope[parquet]'" in done.stderr
    assert not list(tmp_path.glob("x.parquet*"))


def test_an_existing_file_is_not_overwritten(call, write, tmp_path):
    """Exit code 2 and the file as it was, unless --force is given."""
    path, target = write(whole_run()), tmp_path / "out.csv"
    target.write_text("mine")
    assert call("export", path, "--to", "csv", "-o", target).exit_code == 2
    assert target.read_text() == "mine"
    assert call("export", path, "--to", "csv", "-o", target, "--force").exit_code == 0
    assert len(table(target.read_text())) == 10


def test_json_tells_what_was_written(call, write, tmp_path):
    """--json prints one document on the export, and needs -o, because both would go to stdout."""
    path, target = write(whole_run()), tmp_path / "out.csv"
    done = call("export", path, "--to", "csv", "-o", target, "--json")
    expected = {"path": str(path), "output": str(target), "format": "csv", "rows": 10}
    assert json.loads(done.stdout) == expected
    refused = call("export", path, "--to", "csv", "--json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "-o PATH" in refused.stderr


def test_a_folder_that_is_not_there_is_said(call, write, tmp_path):
    """A target that cannot be made is exit code 2, and named."""
    done = call("export", write(whole_run()), "--to", "csv", "-o", tmp_path / "no/out.csv")
    assert done.exit_code == 2
    assert "no/out.csv" in done.stderr


def test_a_run_without_steps_is_said(call, write):
    """There is nothing to put in rows: exit code 2, naming the kinds that there are."""
    done = call("export", write([Header(time=at(0), id="x")]), "--to", "csv")
    assert done.exit_code == 2
    assert "run" in done.stderr
