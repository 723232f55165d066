"""The files of several ranks are one run."""

from pathlib import Path

import pytest

from stepscope.errors import UnknownSetting
from stepscope.readers.run_file import read_run
from stepscope.records import End, Event, Gpu, Header, Message, Metrics, Step

from .conftest import as_file

pytestmark = pytest.mark.usefixtures("storage")


def rank_file(folder: Path, rank: int, *records, id_="a", stem="training"):
    """Writes the file of a rank beside that of rank 0."""
    path = folder / (f"{stem}.rank{rank}.json" if rank else f"{stem}.json")
    path.write_bytes(as_file([Header(id=id_, rank=rank, world_size=3), *records]))
    return path


def three_ranks(folder):
    """Rank 0 with steps, rank 1 and 2 with GPUs, events and numbers of their own."""
    first = rank_file(folder, 0, *[Step(step=step, loss=float(step)) for step in range(4)], Event(step=3, rule="zero"))
    rank_file(folder, 1, Gpu(step=1, id=0, power=1), Event(step=0, rule="one"), Event(step=3, rule="one"))
    rank_file(folder, 2, Step(step=0, loss=9.0), Gpu(step=0, id=4, power=2), Event(step=2, rule="two"), Metrics(step=1))
    return first


def test_the_file_of_rank_0_brings_the_others(tmp_path):
    """Each is a run by itself, by its rank."""
    run = read_run(three_ranks(tmp_path))
    assert sorted(run.ranks) == [0, 1, 2]
    assert run.ranks[0] is run
    assert (run.rank, run.ranks[2].rank, run.ranks[2].header.rank) == (0, 2, 2)
    assert [step.loss for step in run.ranks[2].steps] == [9.0]


def test_a_folder_brings_them_as_well(tmp_path):
    """No rank's file is a run of its own in a folder."""
    three_ranks(tmp_path)
    run = read_run(tmp_path)
    assert (run.path.name, sorted(run.ranks)) == ("training.json", [0, 1, 2])


def test_steps_are_those_of_rank_0(tmp_path):
    """So that a step counts once, however many ranks logged it."""
    run = read_run(three_ranks(tmp_path))
    assert [step.step for step in run.steps] == [0, 1, 2, 3]
    assert list(run.series("loss")) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_records_of_all_ranks_are_merged_by_step(tmp_path):
    """Events and other kinds; of the same step, the lower rank first."""
    run = read_run(three_ranks(tmp_path))
    assert [(event.step, event.rule) for event in run.events] == [(0, "one"), (2, "two"), (3, "zero"), (3, "one")]
    assert (len(run.events), run.events[1].rule, run.events[-1].rule) == (4, "two", "one")
    assert [event.rule for event in run.events[1:3]] == ["two", "zero"]
    assert [record.loss for record in run.records("step")] == [0.0, 9.0, 1.0, 2.0, 3.0]
    assert run.kinds == {"run": 3, "step": 5, "event": 4, "gpu": 2, "metrics": 1}
    assert {kind: len(run.records(kind)) for kind in run.kinds} == run.kinds


def test_records_of_one_rank_are_told_apart(tmp_path):
    """`rank=` names the rank; one that is not there is an error."""
    run = read_run(three_ranks(tmp_path))
    assert [event.rule for event in run.records("event", rank=1)] == ["one", "one"]
    assert [step.loss for step in run.records("step", rank=2)] == [9.0]
    with pytest.raises(UnknownSetting, match="no rank 7"):
        run.records("event", rank=7)


def test_a_series_is_of_the_first_rank_that_has_it(tmp_path):
    """A GPU's power stands in the file of the rank that it belongs to."""
    run = read_run(three_ranks(tmp_path))
    assert list(run.series("gpu/4/power")) == [(0, 2.0)]
    assert run.names() == ["gpu/0/power", "gpu/4/power", "loss"]


def test_a_rank_s_file_alone_is_that_rank(tmp_path):
    """Without the others, for it does not say where they are."""
    three_ranks(tmp_path)
    run = read_run(tmp_path / "training.rank2.json")
    assert list(run.ranks) == [2]
    assert len(run.steps) == 1


def test_a_file_of_another_run_is_left_out(tmp_path):
    """Files that lie beside each other by chance are not mixed, and the problem says so."""
    path = rank_file(tmp_path, 0, Step(step=1))
    rank_file(tmp_path, 1, Event(rule="x"), id_="b")
    (tmp_path / "training.rank2.json").write_bytes(b"no json")
    run = read_run(path)
    assert list(run.ranks) == [0]
    assert [Path(problem.file).name for problem in run.problems] == ["training.rank1.json", "training.rank2.json"]
    assert "belongs to another run" in run.problems[0].why
    assert run.events == []


def test_a_run_of_the_next_name_has_its_own_ranks(tmp_path):
    """`training-2.json` goes with `training-2.rank1.json`, never with `training.rank1.json`."""
    three_ranks(tmp_path)
    path = rank_file(tmp_path, 0, id_="b", stem="training-2")
    rank_file(tmp_path, 1, Message(message="hi"), id_="b", stem="training-2")
    assert {rank: run.path.name for rank, run in read_run(path).ranks.items()} == {
        0: "training-2.json",
        1: "training-2.rank1.json",
    }


def test_problems_of_all_ranks_are_told(tmp_path):
    """Each names its file."""
    path = three_ranks(tmp_path)
    torn = tmp_path / "training.rank1.json"
    torn.write_bytes(torn.read_bytes()[:-20])
    assert [(Path(problem.file).name, problem.why) for problem in read_run(path).problems] == [
        ("training.rank1.json", "not a whole record")
    ]


def test_each_rank_keeps_its_own_history(tmp_path):
    """The end and the header are those of the file that was given."""
    rank_file(tmp_path, 1, End(status="failed"))
    run = read_run(rank_file(tmp_path, 0, Step(step=1)))
    assert (run.end, run.ranks[1].end.status) == (None, "failed")
    assert len(run.headers) == 1
