"""Training loops of every kind, watched from outside: the right steps, the right losses, and nothing changed."""

import pytest

from .conftest import assert_steps, assert_unchanged, phases_of

LOOPS = {
    "plain.py": "data_generation forward_pass backward_pass optimizer_step",
    "no_loader.py": "forward_pass backward_pass optimizer_step",
    "accumulating.py": "data_generation forward_pass backward_pass optimizer_step",
    "compiled.py before": "data_generation forward_pass backward_pass optimizer_step",
    "compiled.py after": "data_generation forward_pass backward_pass optimizer_step",
    "compiled.py in_place": "data_generation forward_pass backward_pass optimizer_step",
    "compiled_step.py": "backward_pass optimizer_step",
    "scaled.py": "data_generation forward_pass backward_pass optimizer_step",
    "two_optimizers.py": "forward_pass backward_pass optimizer_step",
    "adversarial.py loader": "data_generation forward_pass backward_pass optimizer_step",
    "adversarial.py bare": "forward_pass backward_pass optimizer_step",
    "several_losses.py": "data_generation forward_pass backward_pass optimizer_step",
    "closure.py": "forward_pass backward_pass optimizer_step",
    "recovering.py": "data_generation forward_pass backward_pass optimizer_step",
    "prefetching.py": "data_generation forward_pass backward_pass optimizer_step",
    "copied.py": "data_generation forward_pass backward_pass optimizer_step",
    "threads.py": "data_generation forward_pass backward_pass optimizer_step",
    "elsewhere.py": "data_generation forward_pass backward_pass optimizer_step",
}


SLOW = {"compiled.py after", "compiled.py in_place"}


@pytest.mark.parametrize(
    "script", [pytest.param(script, marks=[pytest.mark.slow] * (script in SLOW)) for script in LOOPS]
)
def test_the_loop_is_seen_and_left_as_it_is(bare, watched, script):
    """Steps, losses and rates are those of the script; its output, its weights and its exit code stay."""
    alone, seen = bare(*script.split()), watched(*script.split())
    assert alone.code == 0, alone.stderr
    assert_unchanged(alone, seen)
    assert_steps(seen)
    assert set(phases_of(seen)[3]) - {"data_generation"} == set(LOOPS[script].split()) - {"data_generation"}
    assert seen.of("end")[0]["status"] == "finished"
    assert "watching" not in seen.events


def test_a_skipped_step_says_so_and_no_other_does(watched):
    """The step that the gradient scaler left out is marked, and counts as a step."""
    steps = watched("scaled.py").of("step")
    assert [step.get("skipped") for step in steps] == [None, None, True, None, None]


def test_evaluations_are_told_apart(watched):
    """What runs forward alone is an evaluation, counted once each, and no step; an epoch holds those behind it."""
    seen = watched("plain.py")
    assert [epoch["steps"] for epoch in seen.of("epoch")] == [5, 5]
    for epoch in seen.of("epoch"):
        (evaluation,) = [phase for phase in epoch["phases"] if phase["name"] == "validation_epoch"]
        assert evaluation.get("count", 1) == 1
        top = sum(phase["ms"] for phase in epoch["phases"] if "/" not in phase["name"])
        assert top + epoch["other_ms"] == pytest.approx(epoch["total_ms"], abs=0.01)


@pytest.mark.parametrize(("script", "times"), [("no_loader.py", 3), ("accumulating.py", 1)])
def test_an_evaluation_between_steps_belongs_to_none(watched, script, times):
    """Without `no_grad`, without a loader, or in the middle of an epoch: no step's phases hold it."""
    seen = watched(script)
    assert all("validation_epoch" not in phases for phases in phases_of(seen).values())
    counts = [p.get("count", 1) for r in seen.of("profile") for p in r["phases"] if p["name"] == "validation_epoch"]
    assert sum(counts) == times


def test_what_cannot_be_seen_is_said_once(watched):
    """A compiled function hides the model: steps, loss and optimizer are told, the missing phase is an event."""
    seen = watched("compiled_step.py")
    said = [event["message"] for event in seen.of("event") if event["rule"] == "forward-unseen"]
    assert len(said) == 1
    assert said[0].startswith("the forward pass cannot be seen")
    assert seen.told["breaks"] == 0


@pytest.mark.parametrize("when", ["before", *(pytest.param(w, marks=pytest.mark.slow) for w in ("after", "in_place"))])
def test_what_is_compiled_stays_whole(bare, watched, when):
    """No graph more and no break more than without us."""
    alone, seen = bare("compiled.py", when).told, watched("compiled.py", when).told
    assert (seen["graphs"], seen["breaks"]) == (alone["graphs"], 0)


def test_failed_batches_are_no_steps(watched):
    """Forward pass, backward pass, optimizer and loader fail once each: those batches are in no step."""
    seen = watched("recovering.py")
    assert seen.told["failed"] == ["RuntimeError", "RuntimeError", "AttributeError", "OSError"]
    assert len(seen.of("step")) == 5
    assert all(record["batches"] == 1 for record in seen.of("phases"))


@pytest.mark.parametrize(
    ("start", "stays"),
    [
        ("fork", "anew"),
        ("spawn", "stays"),
        pytest.param("fork", "stays", marks=pytest.mark.slow),
        pytest.param("spawn", "anew", marks=pytest.mark.slow),
    ],
)
def test_workers_say_how_long_they_work(both, start, stays):
    """Time inside the loader's processes is told beside the phases, and their output is the same."""
    alone, seen = both("workers.py", start, stays)
    assert_unchanged(alone, seen)
    assert_steps(seen)
    worked = [record["worker_ms"] for record in seen.of("phases")]
    assert sum(worked) >= 16 * 2 * 5
