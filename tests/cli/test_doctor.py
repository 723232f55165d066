"""`stepscope doctor`."""

import json

from stepscope.records import Header, Phases, Step, System

from .conftest import at, whole_run


def watched(wait=1.0, ram=40.0, steps=40, rank=0):
    """A run that was watched: its header, steps of 10 ms with so long a wait for data, and the machine."""
    return [
        Header(time=at(0), id="a1", name="tidy-otter", rank=rank, world_size=2 if rank else None),
        *(Phases(time=at(n), step=n, duration_ms=10.0, host_ms={"data_generation": wait}) for n in range(1, steps)),
        System(time=at(1), step=1, ram_percent=ram),
    ]


def test_a_finding_has_evidence_gain_and_advice(call, write):
    """On the screen and as JSON; the exit code says only that the file was read."""
    path = write(watched(wait=6.0))
    done = call("doctor", path)
    assert done.exit_code == 0
    assert "tidy-otter  1 finding" in done.stdout
    assert "a step waits 6 ms of its 10 ms for data (60 %)" in done.stdout
    assert "fixing this would save about 59 % of a step" in done.stdout
    assert "evidence: data_gen_percentage 60 · wait_ms 6" in done.stdout
    assert "→ Increase `num_workers` in DataLoader" in done.stdout
    (verdict,) = json.loads(call("doctor", path, "--json").stdout)["verdicts"]
    assert (verdict["rule"], verdict["level"], verdict["severity"], verdict["gain"]) == (
        "data_generation",
        "warning",
        0.6,
        0.59,
    )
    assert verdict["advice"][1] == "Use faster data generation (pre-computed vs on-the-fly)"


def test_findings_stand_by_what_they_cost(call, write):
    """Of two warnings the one that would save most comes first."""
    done = json.loads(call("doctor", write(watched(wait=6.0, ram=91.0)), "--json").stdout)
    assert [verdict["rule"] for verdict in done["verdicts"]] == ["data_generation", "memory"]


def test_healthy_is_said(call, write):
    """A run without a fault, and what it was judged by; no rule's name stands there."""
    done = call("doctor", write(watched()))
    assert done.exit_code == 0
    assert "tidy-otter  healthy" in done.stdout
    assert "judged by  39 phases · 1 system" in done.stdout
    found = call("doctor", write(watched()), "--json").stdout
    assert json.loads(found)["healthy"] is True
    assert "data_generation" not in found


def test_strict_makes_it_an_answer(call, write):
    """Exit code 1 where a warning stands, for a build to fail on."""
    assert call("doctor", write(watched(wait=6.0)), "--strict").exit_code == 1
    assert call("doctor", write(watched()), "--strict").exit_code == 0
    assert call("doctor", write([Header(id="x")]), "--strict").exit_code == 0


def test_a_bare_log_is_judged_by_its_pace(call, write):
    """Steps with durations are something; it is said what would tell more."""
    done = call("doctor", write(whole_run()))
    assert "healthy" in done.stdout
    assert "steps alone are timed" in done.stdout


def test_nothing_to_judge_by_is_said(call, write):
    """Neither healthy nor ill: no step says how long it took."""
    done = call("doctor", write([Header(id="x"), Step(step=1, loss=2.0)]))
    assert (done.exit_code, "nothing to judge by" in done.stdout, "stepscope.watch" in done.stdout) == (0, True, True)
    assert json.loads(call("doctor", write([Header(id="x")]), "--json").stdout)["healthy"] is None


def test_every_rank_is_looked_at(call, write):
    """The slow loader of rank 1 is found from rank 0's file, and the evidence says whose it is."""
    path = write(watched())
    write(watched(wait=6.0, rank=1), "training.rank1.json")
    (verdict,) = json.loads(call("doctor", path, "--json").stdout)["verdicts"]
    assert (verdict["rule"], verdict["evidence"]["rank"]) == ("data_generation", 1)


def test_a_missing_file_is_misuse(call, tmp_path):
    """Exit code 2 and one line that says what to do."""
    done = call("doctor", tmp_path / "none.json")
    assert done.exit_code == 2
    assert "check the name" in done.stderr
