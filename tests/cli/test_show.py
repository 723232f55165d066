"""`stepscope show`."""

import json
import math
import os

import pytest

from stepscope.records import End, Event, Git, Gpu, GpuModel, Header, Metrics

from .conftest import at, step, whole_run


def test_shows_what_ran_and_how_it_went(call, write):
    """One screen holds command, progress, loss, evaluation, speed, event with advice, and end."""
    text = call("show", write(whole_run(git=Git("3f2a91c0ffee", True)))).stdout
    for expected in (
        "tidy-otter  finished",
        "train.py",
        "git 3f2a91c0ff with changes",
        "step 10 of 10 (100.0 %)",
        "10.0000 → 1.0000 · lowest 1.0000 at step 10",
        "1.5000 · 1 evaluation",
        "1000 ms a step (median) · 1.0k tokens/s",
        "warning  data is late [slow] (step 10)",
        "→ add workers",
        "Ended     finished",
    ):
        assert expected in text
    assert len(text.splitlines()) < 24


def test_the_gravest_event_stands_first(call, write):
    """Errors come before warnings before information, and events of one rule are told once with their number."""
    events = [Event(step=n, severity="info", rule="note", message="a note") for n in range(3)]
    events += [Event(step=4, severity="warning", rule="w", message="careful")]
    events += [Event(step=5, severity="error", rule="nan", message="loss is NaN")]
    text = call("show", write([*whole_run()[:5], *events])).stdout
    places = [text.index(words) for words in ("loss is NaN", "careful", "a note [note] (3 times, steps 0 to 2)")]
    assert places == sorted(places)


def test_gpus_are_shown_where_they_were_measured(call, write):
    """Power is in W, memory in GiB, temperature the highest, and a reason to throttle is named."""
    gpus = [
        Gpu(step=n, id=0, power=350000, power_limit=400000, temperature=70 + n, gpu_util=98, dram_free=(9 - n) << 30)
        for n in (1, 2)
    ]
    records = [*whole_run()[:3], GpuModel(id=0, name="NVIDIA H100"), *gpus, Gpu(step=3, id=0, throttle="thermal cap")]
    text = call("show", write(records)).stdout
    expected = "NVIDIA H100 · 98 % busy · 350 of 400 W · up to 72 °C · at least 7.0 GiB free · throttled: thermal cap"
    assert f"GPU 0     {expected}" in text


def test_json_is_one_document_with_everything(process, write):
    """The document holds summary, header and problems; a number that is not finite is its name."""
    path = write([Header(time=at(0), id="x", config={"lr": math.inf}), step(1, loss=math.nan), End(time=at(1))])
    done = process("show", path, "--json")
    document = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"bare {name}"))
    assert document["summary"]["loss"]["last"] == "NaN"
    assert document["summary"]["loss"]["lowest"] is None
    assert document["header"]["config"] == {"lr": "Infinity"}
    assert document["problems"] == []
    assert (done.returncode, done.stderr) == (0, "")


def test_problems_of_the_file_are_named(call, write):
    """A torn last line is shown with its place, and everything before it still counts."""
    path = write(whole_run()[:6])
    path.write_bytes(path.read_bytes()[:-30])
    text = call("show", path).stdout
    assert "step 4 of 10" in text
    assert "1 problem in the file" in text
    assert "line 7" in text


def test_a_folder_means_its_newest_run(call, write):
    """The newest run is shown, and stderr says which one it is."""
    old = write(whole_run(name="older"), "old.json")
    os.utime(old, (100, 100))
    new = write(whole_run(name="newer"), "new.json")
    done = call("show", old.parent)
    assert "newer  finished" in done.stdout
    assert done.stderr == f"stepscope: the newest of 2 runs in {old.parent}: {new}\n"


@pytest.mark.parametrize("content", [None, b"not a run\n", b"\x00\xff" * 100], ids=["missing", "text", "binary"])
def test_what_is_no_run_file_is_said_plainly(process, tmp_path, content):
    """Exit code 2, one line on stderr that names the file, no traceback."""
    path = tmp_path / "training.json"
    if content is not None:
        path.write_bytes(content)
    done = process("show", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stepscope: ")
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_run_is_shown(call, write):
    """A run without a single record is not an error: it says that nothing happened yet."""
    text = call("show", write([])).stdout
    assert "no step yet" in text


def huge(texts: int) -> list:
    """A run whose texts alone are far more than a brief may be."""
    wide = "Ω" * 3000
    config = {f"key{n}": wide for n in range(texts)}
    events = [Event(step=n, severity="error", rule=f"r{n}", message=wide, advice=wide) for n in range(texts)]
    return [Header(id="x", name=wide, argv=[wide] * 9, config=config), *(step(n) for n in range(1, 50)), *events]


@pytest.mark.parametrize("texts", [0, 1, 40])
def test_the_brief_keeps_within_4_kb(process, write, texts):
    """Whatever a run holds, the brief is at most 4000 bytes of UTF-8, whole lines, and says when it was cut."""
    done = process("show", write(huge(texts)), "--markdown", encoding=None, text=False)
    assert 500 < len(done.stdout) <= 4000
    text = done.stdout.decode("utf-8")
    assert text.startswith("# ΩΩ")
    assert ("cut to fit" in text) == (texts > 1)


def test_the_brief_holds_what_an_assistant_needs(call, write):
    """Numbers, events with advice, the loss over the run, versions and configuration are in it."""
    text = call("show", write(whole_run(config={"lr": 0.1}, versions={"torch": "2.13.0"})), "--markdown").stdout
    for expected in (
        "# tidy-otter: finished",
        "- **Loss**: 10.0000 → 1.0000",
        "- **warning**: data is late [slow] (step 10) → *add workers*",
        "| 10 | 1.0000 | 0.5000 | 0.001 | 1000 |",
        "torch 2.13.0",
        "- `lr`: `0.1`",
    ):
        assert expected in text


def test_the_brief_keeps_secrets(call, write):
    """Values that are secret by their name do not leave the machine."""
    header = {
        "argv": [
            "train.py",
            "--wandb-api-key",
            "s3cret1",
            "--hf_token=s3cret2",
            "--password",
            "two s3cret3",
            "--lr",
            "1",
        ],
        "config": {"hub": {"hf_token": "s3cret4"}, "API_KEY": "s3cret5", "max_tokens": 512, "lr": 1},
    }
    text = call("show", write(whole_run(**header)), "--markdown").stdout
    assert "s3cret" not in text
    assert "`max_tokens`: `512`" in text


def test_text_cannot_break_out_of_the_brief(call, write):
    """A message with Markdown, line breaks and escapes stays in its line."""
    message = "a\n# b `c` | d \x1b[31m"
    event = Event(step=1, severity="error", message=message)
    text = call("show", write([*whole_run()[:3], event]), "--markdown").stdout
    assert "- **error**: a # b 'c' ¦ d �[31m (step 1)" in text


def test_further_numbers_do_not_disturb(call, write):
    """Metrics named as a step's field leave the loss as it was logged."""
    text = call("show", write([*whole_run(), Metrics(step=10, values={"loss": 98765.0})])).stdout
    assert "98765" not in text


def test_markdown_and_json_exclude_each_other(call, write):
    """Asking for both is misuse: exit code 2."""
    done = call("show", write(whole_run()), "--markdown", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
