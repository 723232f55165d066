"""Trainers of others, watched from outside: Hugging Face, Lightning, Accelerate, and ranks under torchrun."""

import sys

import pytest

from tests.conftest import load

from .conftest import SCRIPTS, Ended, assert_steps, assert_unchanged, phases_of, run_both

PHASES = {"data_generation", "forward_pass", "backward_pass", "optimizer_step"}


@pytest.mark.parametrize("script", ["hugging_face.py", "with_lightning.py 2", "accelerated.py"])
def test_a_trainer_is_seen_and_left_as_it_is(both, script):
    """Steps, losses and rates are those of the trainer; its output and its weights stay."""
    bare, watched = both(*script.split())
    assert bare.code == 0, bare.stderr
    assert_unchanged(bare, watched)
    assert_steps(watched)
    assert len(watched.of("step")) == watched.told.get("steps_of_trainer", 3)
    assert set(phases_of(watched)[3]) == PHASES
    for epoch in watched.of("epoch"):
        counts = {phase["name"]: phase.get("count", 1) for phase in epoch["phases"]}
        assert counts.get("validation_epoch", 1) == 1


@pytest.mark.slow
def test_lightning_without_accumulation(both):
    """Forward and backward pass run inside the optimizer's step, and are taken out of its time."""
    bare, watched = both("with_lightning.py", "1")
    assert_unchanged(bare, watched)
    assert_steps(watched)
    assert all(set(phases) >= PHASES for step, phases in phases_of(watched).items() if step > 2)


# Gloo's own threads end a process like this now and then when the group is destroyed, watched or not.
GLOO_ABORTS = "terminate called without an active exception"


def test_each_rank_has_its_file(tmp_path):
    """Under torchrun each rank's steps are in a file of its own, as the rank saw them; one card is shown."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    script, options = str(SCRIPTS / "distributed.py"), ["-m", "stepscope", "run", "--output-dir", "output"]
    commands = ([*torchrun, script], [*torchrun, *options, script])
    for attempt in range(4):
        here = tmp_path / f"attempt{attempt}"
        bare, watched = run_both(commands, here, together=False)  # two rendezvous may meet in one port
        if GLOO_ABORTS not in bare.stderr + watched.stderr:
            break
    assert (bare.code, watched.code) == (0, 0), bare.stderr + watched.stderr
    for rank, name in enumerate(("training.json", "training.rank1.json")):
        alone = Ended(0, (here / "bare" / f"rank{rank}.json").read_text(), "", tmp_path)
        told = (here / "watched" / f"rank{rank}.json").read_text()
        assert told.replace("watched", "bare") == alone.stdout
        folder = tmp_path / f"rank{rank}"
        folder.mkdir()
        (watched.folder / name).rename(folder / name)
        assert_steps(Ended(0, told, "", folder))
        assert load(folder / name)[0]["rank"] == rank
    assert watched.stderr.count("what 6 steps say") == 1
