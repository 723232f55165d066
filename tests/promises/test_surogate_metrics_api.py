"""What the document on *surogate metrics* promises to Python: the logger, its callback, and reading the file again."""

import contextlib
import io
import json

import pytest

import stepscope


@pytest.mark.promise(
    "surogate/api-import",
    "surogate/api-logger",
    "surogate/api-verbosity",
    "surogate/api-log-step",
    "surogate/api-log-eval",
    "surogate/api-log-moe",
)
def test_the_documents_code_runs(tmp_path):
    """Of “from surogate import _surogate” only the import differs: “_surogate.TrainingRunLogger( "/path/to/log.json"”.

    “verbosity=_surogate.LogVerbosity.DEFAULT”, “logger.log_step(step, epoch, tokens, duration_ms, norm, loss, lr)”,
    “logger.log_eval(step, epoch, tokens, duration_ms, loss)”,
    “logger.log_moe_stats(step, aux_loss, z_loss, utilization, imbalance)”.
    """
    import stepscope as _surogate

    step, epoch, tokens, duration_ms, norm, loss, lr = 1, 0.5, 1024, 20, 0.7, 3.1, 1e-4
    aux_loss, z_loss, utilization, imbalance = 0.02, 0.001, 0.9, 1.3
    seen = []
    logger = _surogate.TrainingRunLogger(
        str(tmp_path / "log.json"),
        callback=seen.append,  # Optional: receives JSON lines
        verbosity=_surogate.LogVerbosity.DEFAULT,
    )
    logger.log_step(step, epoch, tokens, duration_ms, norm, loss, lr)
    logger.log_eval(step, epoch, tokens, duration_ms, loss)
    logger.log_moe_stats(step, aux_loss, z_loss, utilization, imbalance)
    logger.close()
    logged = [line for line in map(json.loads, seen) if line["log"] in ("step", "eval", "moe")]
    assert [list(line.values())[2:] for line in logged] == [
        [step, epoch, tokens, duration_ms, norm, loss, lr],
        [step, epoch, tokens, duration_ms, loss],
        [step, aux_loss, z_loss, utilization, imbalance],
    ]


@pytest.mark.promise("surogate/api-callback")
def test_the_callback_gets_each_line_once_it_is_in_the_file(tmp_path):
    """“Optional: receives JSON lines”: text that parses, equal to what the file holds already."""
    path, seen = tmp_path / "log.json", []

    def callback(line):
        seen.append((json.loads(line), json.loads(path.read_text())[-1]))

    with stepscope.TrainingRunLogger(path, callback=callback, verbosity=-2) as log:
        log.log_step(1, 0.1, 1024, 20, 0.7, 3.1, 1e-4)
    assert [line["log"] for line, _ in seen] == ["run", "step", "end"]
    assert all(line == in_file for line, in_file in seen)


@pytest.mark.promise("surogate/read-array")
def test_the_file_is_an_array_at_any_time(tmp_path):
    """“a JSON array that can be parsed directly”: also between two records, while the run goes on."""
    with stepscope.TrainingRunLogger(tmp_path / "training.json", verbosity=-2) as log:
        for step in range(5):
            log.log_step(step, 0.1, 1024, 20, 0.7, 3.1, 1e-4)
            logs = json.loads((tmp_path / "training.json").read_text())
            assert [line["log"] for line in logs] == ["run"] + ["step"] * (step + 1)


@pytest.mark.promise("surogate/read-filter")
def test_the_documents_reading_works(tmp_path, monkeypatch):
    """“Filter by log type”: the snippet, as printed."""
    monkeypatch.chdir(tmp_path)
    with stepscope.TrainingRunLogger("training.json", verbosity=-2) as log:
        log.log_step(1, 0.1, 1024, 20, 0.7, 3.1, 1e-4)
        log.log_eval(1, 0.1, 2048, 30, 3.0)
        log.log_moe_stats(1, 0.02, 0.001, 0.9, 1.3)

    with open("training.json") as f:
        logs = json.load(f)

    # Filter by log type
    train_steps = [l for l in logs if l.get("log") == "step"]  # noqa: E741 - the document's name
    eval_steps = [l for l in logs if l.get("log") == "eval"]  # noqa: E741
    moe_logs = [l for l in logs if l.get("log") == "moe"]  # noqa: E741
    assert [len(found) for found in (train_steps, eval_steps, moe_logs)] == [1, 1, 1]
    assert (train_steps[0]["loss"], eval_steps[0]["loss"], moe_logs[0]["aux_loss"]) == (3.1, 3.0, 0.02)


@pytest.mark.promise("surogate/to-stdout")
def test_metrics_go_to_stdout(tmp_path):
    """“stdout” shows what is logged."""
    with contextlib.redirect_stdout(io.StringIO()) as said, stepscope.TrainingRunLogger(tmp_path / "log.json") as log:
        log.log_step(7, 0.1, 1024, 20, 0.7, 3.1, 1e-4)
    assert ":: step       7" in said.getvalue()
