"""The door: what enters, what is refused, and what then stands in the file."""

import json
import math
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stepscope
from stepscope import StepscopeError, TrainingRunLogger
from stepscope.records import Gpu, Record, Step
from tests.conftest import kinds, load

Make = Callable[..., TrainingRunLogger]
STEP = (1.25, 16384, 156, 0.1234, 2.3456, 0.0002)


class Memory:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.closed = 0

    def write(self, record: Record) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.closed += 1


def test_a_step_stands_in_the_file_when_the_call_returns(make_run: Make) -> None:
    """Whole JSON, with the keys in the document's order."""
    run = make_run()
    run.log_step(100, *STEP)
    record = load(run.path)[-1]
    assert list(record) == ["log", "time", "step", "epoch", "step_tokens", "duration_ms", "norm", "loss", "lr"]
    assert [record["step"], *list(record.values())[3:]] == [100, *STEP]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", record["time"])


def test_the_common_call_and_the_careful_one_write_the_same(make_run: Make) -> None:
    """The short way is a short way, nothing else."""
    run = make_run()
    run.log_step(1, *STEP)
    run.log_step(1, np.float64(1.25), np.int64(16384), 156, torch.tensor(0.1234, dtype=torch.float64), 2.3456, 0.0002)
    short, careful = ({**record, "time": ""} for record in load(run.path)[-2:])
    assert short == careful


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (np.float32(0.5), 0.5),
        (np.array(2.5), 2.5),
        (np.array([2.5]), 2.5),
        (np.int32(3), 3),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
        (torch.tensor([0.25], requires_grad=True), 0.25),
        (torch.tensor(7), 7),
        (Fraction(1, 4), 0.25),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (torch.tensor(math.inf), "Infinity"),
    ],
)
def test_a_number_may_come_from_anywhere(make_run: Make, value: Any, number: Any) -> None:
    """Python, numpy and torch; what is not finite by its name."""
    run = make_run()
    run.log_step(1, loss=value)
    run.log({"x": value})
    assert [load(run.path)[-2]["loss"], load(run.path)[-1]["values"]["x"]] == [number, number]


@pytest.mark.parametrize(
    "value", ["2.3", b"2", True, [1.0], {"a": 1}, 1j, object(), Decimal, torch.ones(2), np.ones(3)]
)
def test_what_is_no_number_is_refused_by_name(make_run: Make, value: Any) -> None:
    """Nothing of it reaches the file."""
    run = make_run()
    with pytest.raises(StepscopeError, match="loss"):
        run.log_step(1, loss=value)
    assert kinds(run.path) == ["run"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: run.log_step(-1), "negative"),
        (lambda run: run.log_step(1.5), "whole number"),
        (lambda run: run.log_step("3"), "text"),
        (lambda run: run.log_step(None), "step"),
        (lambda run: run.log_step(2**64), "64 bits"),
        (lambda run: run.log_step(2**63), "64 bits with a sign"),
        (lambda run: run.log({"a": 1.0}, step=2**63), "64 bits with a sign"),
        (lambda run: run.log_step(1, tokens=2**64), "64 bits"),
        (lambda run: run.log_step(1, 1.0, 2**64, 1, 1.0, 1.0, 1.0), "64 bits"),
        (lambda run: run.log_step(-1, *STEP), "negative"),
        (lambda run: run.log_step(1, tokens=0.5), "whole number"),
        (lambda run: run.log_step(1, moe_aux=0.1), "did you mean 'moe_aux_loss'"),
        (lambda run: run.log_gpu_state(1, powr=3), "did you mean 'power'"),
        (lambda run: run.log_gpu_state(1, Step(step=1)), "Gpu record"),
        (lambda run: run.log_gpu_state(1, Gpu(id=0), power=3), "Gpu record"),
        (lambda run: run.log_gpu_state(1, throttle=3), "text"),
        (lambda run: run.log_allocator(0, [{"name": "weights", "devise": 3}]), "devise"),
        (lambda run: run.log_allocator(0, [{"device": 3}]), "name"),
        (lambda run: run.log_dataset(file_tokens=[("a", "b")]), "file_tokens"),
        (lambda run: run.log_gpu_model(ecc="on"), "True or False"),
        (lambda run: run.log([1.0]), "dict"),
        (lambda run: run.log({"a": "text"}), "message"),
        (lambda run: run.log({1: 2.0}), "must be text"),
        (lambda run: run.log({"a": 1.0}, step=-1), "negative"),
        (lambda run: run.message(3), "text"),
        (lambda run: run.event("x", severity="warn"), "did you mean 'warning'"),
        (lambda run: run.event("x", evidence={math.nan: 1}), "key"),
        (lambda run: run.log_step(1, time="x"), "no field 'time'"),
        (lambda run: run.log_step(1, tokens=5, step_tokens=6), "given twice: step_tokens"),
        (lambda run: run.log_step(1, typo=None), "no field 'typo'"),
        (lambda run: run.log_step(1, 1.0, -(2**70), 5, 1.0, 1.0, 1.0), "64 bits"),
        (lambda run: run.log_step(1, 2**70, 5, 5, 1.0, 1.0, 1.0), "64 bits"),
    ],
)
def test_misuse_is_an_error_that_names_value_and_remedy(make_run: Make, call: Any, words: str) -> None:
    """And the file stays as it was."""
    run = make_run()
    with pytest.raises(StepscopeError, match=words):
        call(run)
    assert kinds(run.path) == ["run"]


def test_a_step_may_not_go_back_in_one_attempt(make_run: Make) -> None:
    """The same step again may; other kinds may carry any step."""
    run = make_run()
    run.log_step(5)
    run.log_step(5)
    run.log_eval(2, loss=1.0)
    run.log({"x": 1.0}, step=0)
    with pytest.raises(StepscopeError, match=r"below step 5.*resume=True"):
        run.log_step(4)
    assert kinds(run.path) == ["run", "step", "step", "eval", "metrics"]


def test_every_kind_has_its_call(make_run: Make) -> None:
    """By keyword, or as a record."""
    run = make_run()
    run.log_eval(500, 1.5, 32768, 234, 2.1234)
    run.log_moe_stats(100, 0.0234, 0.0012, 0.9375, 1.45)
    run.log_gpu_state(100, id=0, power=350000)
    run.log_gpu_state(100, Gpu(id=1, power=360000))
    run.log_sol_estimate(0, blocks=1e9, bf16_peak=989.5)
    run.log_allocator(0, [{"name": "weights", "device": 4, "managed": 0, "pinned": 0, "pageable": 0}], id=0)
    run.log_dataset(split="train", files=2, file_tokens=[("a", 1)])
    run.log_gpu_model(name="NVIDIA H200", ecc=True)
    run.message("hello")
    run.event("look", "warning", rule="r", advice="a", evidence={"x": 1})
    run.log({"a": {"b": 1.0}, "c": True, "d": None})
    records = load(run.path)[1:]
    assert [r["log"] for r in records] == (
        ["eval", "moe", "gpu", "gpu", "sol", "allocator", "dataset", "gpu-model", "message", "event", "metrics"]
    )
    assert (records[2]["id"], records[3]["id"], records[3]["step"]) == (0, 1, 100)
    assert records[-1]["values"] == {"a/b": 1.0, "c": True}
    assert "id" not in records[4]


def test_log_without_a_step_counts_its_calls_until_steps_are_logged(make_run: Make) -> None:
    """As people who come from W&B expect."""
    run = make_run()
    for _ in range(2):
        run.log({"x": 1.0})
    run.log({"x": 1.0}, step=7)
    run.log({"x": 1.0})
    run.log_step(20)
    run.log({"x": 1.0})
    assert [r["step"] for r in load(run.path) if r["log"] == "metrics"] == [0, 1, 7, 8, 20]


def test_the_callback_gets_each_line_after_it_is_in_the_file(make_run: Make, tmp_path: Path) -> None:
    """As text, one object a line."""
    seen = []
    run = make_run(callback=lambda line: seen.append((json.loads(line), kinds(tmp_path / "training.json"))))
    run.log_step(1, loss=2.0)
    run.log_eval(1, loss=3.0)
    assert [(line["log"], in_file[-1]) for line, in_file in seen] == [
        ("run", "run"),
        ("step", "step"),
        ("eval", "eval"),
    ]


def test_a_callback_that_raises_is_said_once_and_training_goes_on(make_run: Make) -> None:
    """An event stands in the file, and how often it happened at the end."""

    def broken(line: str) -> None:
        raise RuntimeError("no")

    run = make_run(callback=broken, strict=False)
    for step in range(5):
        run.log_step(step)
    run.close()
    events = [r for r in load(run.path) if r["log"] == "event"]
    assert [e["rule"] for e in events] == ["callback-raised"] * 2
    assert "RuntimeError: no" in events[0]["message"]
    assert sum(kind == "step" for kind in kinds(run.path)) == 5


def test_a_sink_that_raises_does_not_stop_the_others(make_run: Make) -> None:
    """Each is told everything."""

    class Broken(Memory):
        def write(self, record: Record) -> None:
            raise ValueError

    broken, memory = Broken(), Memory()
    run = make_run(sinks=[broken, memory], strict=False)
    run.log_step(1, loss=2.0)
    run.close()
    assert "step" in [record.kind for record in memory.records]
    assert memory.closed == broken.closed == 1


def test_strict_raises_what_would_be_an_event(make_run: Make) -> None:
    """For tests of training code."""

    def broken(line: str) -> None:
        if "step" in json.loads(line)["log"]:
            raise RuntimeError("no")

    run = make_run(callback=broken)
    with pytest.raises(RuntimeError):
        run.log_step(1)


def test_close_writes_the_end_once_and_nothing_after_it(make_run: Make) -> None:
    """Again is nothing, and logging after it neither."""
    run = make_run()
    run.log_step(3)
    run.close()
    run.close("failed")
    run.log_step(4)
    run.log({"x": 1.0})
    assert kinds(run.path) == ["run", "step", "end"]
    end = load(run.path)[-1]
    assert (end["status"], end["step"]) == ("finished", 3)


def test_leaving_a_with_block_says_how_it_ended(make_run: Make) -> None:
    """Finished, failed with the exception's own words, or stopped."""
    for error, status in [(None, "finished"), (ValueError("bad\nline"), "failed"), (KeyboardInterrupt(), "stopped")]:
        run = make_run()
        with suppress(BaseException), run:
            if error:
                raise error
        end = load(run.path)[-1]
        assert end["status"] == status
        assert end.get("reason") in (None, "ValueError: bad", "KeyboardInterrupt")


def test_an_existing_file_is_left_as_it_is(make_run: Make, tmp_path: Path, capsys: Any) -> None:
    """The next free name is taken, and the console says which."""
    paths = [make_run(verbosity=0).path for _ in range(3)]
    assert [path.name for path in paths if path] == ["training.json", "training-2.json", "training-3.json"]
    assert "training-3.json (training.json exists and is left as it is)" in capsys.readouterr().out


def test_disabled_does_nothing_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """By argument or environment: no file, no console, no error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPSCOPE_MODE", "disabled")
    for run in (stepscope.init(report_to="wandb"), TrainingRunLogger("x.json", mode="disabled")):
        run.log_step(-1, loss="x")
        run.log({"a": object()})
        run.log_gpu_state("no")  # type: ignore[arg-type]
        run.message("hello")
        run.close()
        assert (run.path, run.id) == (None, None)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_init_is_one_line(tmp_path: Path) -> None:
    """Project, name and configuration stand in the header; the file lies in the output folder."""

    @dataclass
    class Config:
        lr: float = 2e-4
        path: Path = Path("data")

    run = stepscope.init(project="mae", config=Config(), output_dir=tmp_path / "out", verbosity=-2)
    other = stepscope.init(project="mae", name="mine", output_dir=tmp_path / "out", verbosity=-2)
    header = load(tmp_path / "out" / "training.json")[0]
    assert (header["project"], header["config"]) == ("mae", {"lr": 2e-4, "path": "data"})
    assert header["name"] == run.name != other.name == "mine"
    assert {"schema", "id", "attempt", "host", "pid", "rank", "world_size", "argv", "versions"} <= set(header)
    assert header["versions"]["torch"] == torch.__version__
    for each in (run, other):
        each.close()


def test_many_threads_may_log(make_run: Make) -> None:
    """Every record of every thread, none torn."""
    run = make_run()

    def work(thread: int) -> None:
        for number in range(200):
            run.log({f"t{thread}": number}, step=number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [record["values"] for record in load(run.path)[1:]]
    assert len(values) == 1600
    assert all([v[f"t{t}"] for v in values if f"t{t}" in v] == list(range(200)) for t in range(8))


def test_a_callback_may_log(make_run: Make) -> None:
    """The record that it logs comes after its own."""
    box: list[TrainingRunLogger] = []

    def also(line: str) -> None:
        if json.loads(line)["log"] == "step":
            box[0].log({"x": 1.0}, step=1)

    box.append(make_run(callback=also))
    box[0].log_step(1)
    assert kinds(box[0].path) == ["run", "step", "metrics"]


@pytest.mark.parametrize("background", [False, True])
def test_resume_goes_on_in_the_same_file(make_run: Make, background: bool) -> None:
    """Same id and name, the next attempt, and a rewind where it starts again from an earlier step."""
    first = make_run(name="mine", background=background)
    for step in range(10):
        first.log_step(step, loss=1.0)
    first.close()
    second = make_run(resume=True, background=background)
    second.log_eval(7, loss=1.0)
    second.log_step(7, loss=0.5)
    second.log_step(8, loss=0.5)
    second.close()
    records = load(second.path)
    assert second.path == first.path
    assert [r["log"] for r in records[11:]] == ["end", "run", "eval", "rewind", "step", "step", "end"]
    header, rewind = records[12], records[14]
    assert (header["attempt"], header["id"], header["name"]) == (2, records[0]["id"], "mine")
    assert (rewind["step"], rewind["last_step"], rewind["attempt"]) == (7, 9, 2)


def test_resume_without_going_back_writes_no_rewind(make_run: Make) -> None:
    """The normal continuation."""
    first = make_run()
    first.log_step(9)
    first.close()
    second = make_run(resume=True)
    second.log_step(10)
    assert kinds(second.path) == ["run", "step", "end", "run", "step"]


def test_resume_without_a_file_begins_one(make_run: Make) -> None:
    """So that a script can always say resume=True."""
    assert kinds(make_run(resume=True).path) == ["run"]


def test_resume_goes_on_counting(make_run: Make) -> None:
    """Where only `log` is used, its steps continue and may be rewound."""
    first = make_run()
    for _ in range(3):
        first.log({"x": 1.0})
    first.close()
    second = make_run(resume=True)
    second.log({"x": 1.0})
    second.close()
    third = make_run(resume=True)
    third.log({"x": 1.0}, step=2)
    assert [r["step"] for r in load(third.path) if r["log"] == "metrics"] == [0, 1, 2, 3, 2]
    assert [r["step"] for r in load(third.path) if r["log"] == "rewind"] == [2]


def test_numbers_of_other_kinds_neither_rewind_nor_hold_up_steps(make_run: Make) -> None:
    """An evaluation or a metric may stand anywhere, before and after a resume."""
    first = make_run()
    first.log({"x": 1.0}, step=500)
    first.log_step(1)
    first.log_step(9)
    first.close()
    second = make_run(resume=True)
    second.message("loaded")
    second.log({"x": 1.0}, step=3)
    second.log({"x": 1.0})
    second.log_step(10)
    assert [(r["log"], r["step"]) for r in load(second.path)[6:]] == [
        ("message", 9),
        ("metrics", 3),
        ("metrics", 9),
        ("step", 10),
    ]


def test_a_record_in_the_data_is_not_mistaken_for_one_of_the_run(make_run: Make) -> None:
    """A configuration or evidence that looks like a line does not confuse a resume."""
    first = make_run(config={"log": "run", "id": "no"})
    first.log_step(3)
    first.event("x", evidence={"log": "step", "step": 99})
    first.close()
    second = make_run(resume=True)
    second.log_step(4)
    assert (second.id, kinds(second.path)[-2:]) == (first.id, ["run", "step"])


def test_a_rank_above_zero_resumes_its_own_history(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a rewind of its own; one that speaks for the first time gets the run's id."""
    zero = make_run(rank=0, world_size=3)
    first = make_run(rank=1, world_size=3)
    for step in range(10):
        first.log_step(step)
    first.close()
    zero.close()
    monkeypatch.setenv("MASTER_PORT", "29777")  # another launch
    again = make_run(rank=1, world_size=3, resume=True)
    again.log_step(5)
    late = make_run(rank=2, world_size=3, resume=True)
    late.log_step(5)
    assert kinds(again.path)[-3:] == ["run", "rewind", "step"]
    assert again.id == late.id == zero.id


def test_a_path_means_what_it_meant_when_the_run_was_opened(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The home folder is filled in, and a program may change its folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        make_run("~/run/t.json", resume=True, verbosity=0).close()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["t.json"]
    assert "exists" not in capsys.readouterr().out
    run = make_run("x.json")
    monkeypatch.chdir("/")
    assert load(run.path)


def test_a_callback_may_close_the_run(make_run: Make) -> None:
    """Early stopping: the run ends behind the record that the callback was told of."""
    box: list[TrainingRunLogger] = []
    memory = Memory()
    box.append(make_run(callback=lambda line: box[0].close() if '"log":"eval"' in line else None, sinks=[memory]))
    box[0].log_step(1)
    box[0].log_eval(1)
    box[0].log_step(2)
    assert kinds(box[0].path) == ["run", "step", "eval", "end"]
    assert [record.kind for record in memory.records] == ["run", "step", "eval", "end"]
    assert memory.closed == 1


def test_evidence_is_kept_as_it_was(make_run: Make) -> None:
    """What the program changes afterwards does not change the record."""
    memory, evidence = Memory(), {"n": np.float32(1.5), "of": [np.int64(2)]}
    make_run(sinks=[memory]).event("x", evidence=evidence)
    evidence["n"] = 9
    assert memory.records[-1].evidence == {"n": 1.5, "of": [2]}  # type: ignore[attr-defined]


def test_two_processes_may_not_write_one_file(make_run: Make) -> None:
    """A second writer would tear it."""
    run = make_run()
    with pytest.raises(StepscopeError, match="another process"):
        make_run(run.path, resume=True)


def test_a_rank_above_zero_writes_beside_when_it_has_something_to_say(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Under the same id, without a word on the console."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_PORT", "29501")
    (tmp_path / "training.json").write_text("[]")  # of an earlier run
    zero = make_run()
    monkeypatch.setenv("RANK", "1")
    quiet, one = make_run(verbosity=0), make_run(verbosity=0)
    one.log({"x": 1.0}, step=3)
    one.close()
    quiet.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "training-2.json",
        "training-2.rank1.json",
        "training.json",
    ]
    header = load(tmp_path / "training-2.rank1.json")[0]
    assert (header["id"], header["rank"], header["world_size"]) == (zero.id, 1, 2)
    assert capsys.readouterr().out == ""


def test_the_logger_takes_what_cannot_be_opened_for_an_error(tmp_path: Path) -> None:
    """At once, with the path and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StepscopeError, match="is a folder"):
        TrainingRunLogger(tmp_path)
    with pytest.raises(StepscopeError, match="choose another log_file"):
        TrainingRunLogger(tmp_path / "file" / "training.json")
    with pytest.raises(StepscopeError, match="callable"):
        TrainingRunLogger(tmp_path / "x.json", callback="print")  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [{math.nan: 1}, {"a": 2**70}])
def test_a_configuration_that_cannot_be_written_leaves_no_file(tmp_path: Path, config: Any) -> None:
    """The error comes before the file."""
    with pytest.raises(StepscopeError):
        TrainingRunLogger(tmp_path / "x.json", config=config)
    assert list(tmp_path.iterdir()) == []


def test_verbosity_is_an_int_enum() -> None:
    """Plain ints are accepted, others are not."""
    assert {level.name: int(level) for level in stepscope.LogVerbosity} == {
        "SILENT": -2,
        "QUIET": -1,
        "DEFAULT": 0,
        "VERBOSE": 1,
    }
    with pytest.raises(StepscopeError, match="verbosity 7"):
        TrainingRunLogger("x.json", verbosity=7)
