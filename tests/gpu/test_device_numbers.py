"""Device numbers are logged without ever waiting for the GPU, and come out equal and in order."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import stepscope  # noqa: E402
from stepscope import TrainingRunLogger  # noqa: E402
from tests.conftest import load  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture
def _no_sync() -> Iterator[None]:
    """Any call that waits for the device raises."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("_no_sync")
def test_a_loop_that_logs_device_tensors_never_synchronises(make_run: Callable[..., TrainingRunLogger]) -> None:
    """Values equal, in order, for every number format, and buffers may be reused at once."""
    run = make_run()
    loss = torch.zeros((), device="cuda", dtype=torch.bfloat16)
    norm = torch.zeros(1, device="cuda")
    tokens = torch.zeros((), device="cuda", dtype=torch.int64)
    for step in range(300):
        loss.fill_(step / 4)
        norm.fill_(step + 0.1)
        tokens.fill_(10 * step)
        run.log_step(step, 0.5, tokens, 10, norm, loss, 1e-3)
        run.log({"extra": norm * 2, "host": step}, step=step)
    torch.cuda.set_sync_debug_mode("default")
    run.close()
    records = [record for record in load(run.path) if record["log"] in ("step", "metrics")]
    steps, metrics = records[0::2], records[1::2]
    assert [s["step"] for s in steps] == [m["step"] for m in metrics] == list(range(300))
    assert [s["step_tokens"] for s in steps] == [10 * step for step in range(300)]
    exact = torch.arange(300).div(4).bfloat16().tolist()
    assert [s["loss"] for s in steps] == exact
    assert [s["norm"] for s in steps] == (torch.arange(300) + 0.1).tolist()
    assert [m["values"]["host"] for m in metrics] == list(range(300))
    assert [m["values"]["extra"] for m in metrics] == ((torch.arange(300) + 0.1) * 2).tolist()


def test_a_real_training_step_is_logged_without_a_wait(make_run: Callable[..., TrainingRunLogger]) -> None:
    """Clipping's own norm, the loss as it is, requires_grad and all."""
    run = make_run()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(128, 64, device="cuda")
    kept = []
    torch.cuda.set_sync_debug_mode("error")
    for step in range(50):
        loss = model(x).square().mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        kept.append(loss.detach().clone())
        run.log_step(step, loss=loss, norm=norm)
    torch.cuda.set_sync_debug_mode("default")
    run.close()
    steps = [record for record in load(run.path) if record["log"] == "step"]
    assert [s["loss"] for s in steps] == torch.stack(kept).tolist()


def test_another_stream_is_waited_for_by_its_own_event(make_run: Callable[..., TrainingRunLogger]) -> None:
    """The stream that is current when the number is logged."""
    run = make_run()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        value = torch.ones((), device="cuda") * 42
        run.log_step(1, loss=value)
    run.close()
    assert load(run.path)[1]["loss"] == 42.0


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_the_first_number_may_come_from_anywhere(make_run: Callable[..., TrainingRunLogger]) -> None:
    """Inside inference mode, or where CUDA is the default device: later numbers are logged as ever."""
    run = make_run()
    with torch.inference_mode():
        run.log_eval(0, loss=torch.ones((), device="cuda"))
    torch.set_default_device("cuda")
    try:
        run.log_step(1, loss=torch.ones((), dtype=torch.float16) * 2, tokens=torch.tensor(16384.0))
    finally:
        torch.set_default_device(None)
    run.close()
    eval_, step = (record for record in load(run.path) if record["log"] in ("eval", "step"))
    assert (eval_["loss"], step["loss"], step["step_tokens"]) == (1.0, 2.0, 16384)
    assert type(step["step_tokens"]) is int


def test_a_truth_value_is_no_number_and_a_capture_is_no_place_to_log(
    make_run: Callable[..., TrainingRunLogger],
) -> None:
    """Both are said at the call."""
    run = make_run()
    with pytest.raises(stepscope.StepscopeError, match="loss must be"):
        run.log_step(1, loss=torch.ones((), device="cuda") > 0)
    value = torch.ones((), device="cuda")
    with pytest.raises(stepscope.StepscopeError, match="capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        run.log_step(1, loss=value + 1)


LOST = """
import sys, torch, stepscope
with stepscope.TrainingRunLogger(sys.argv[1], verbosity=-2) as run:
    run.log_step(1, loss=torch.ones((), device="cuda"))
    torch.cuda.synchronize()
    run.log_step(2, loss=torch.ones((), device="cuda"))
    x = torch.zeros(4, device="cuda")
    x[torch.tensor([99], device="cuda")] = 1.0     # an assertion on the device
    torch.cuda.synchronize()
"""


def test_after_an_error_on_the_device_the_end_is_written(tmp_path: Path) -> None:
    """And every record, with the numbers that could still be had."""
    path = tmp_path / "training.json"
    process = subprocess.run([sys.executable, "-c", LOST, str(path)], env=ENVIRONMENT, capture_output=True, check=False)
    assert process.returncode != 0
    records = load(path)
    assert [record["log"] for record in records] == ["run", "step", "step", "end"]
    assert records[1]["loss"] == 1.0
    assert records[-1]["status"] == "failed"


HANGS = """
import sys, time, torch, stepscope
run = stepscope.TrainingRunLogger(sys.argv[1], verbosity=-2)
x = torch.ones((), device="cuda")
for step in range(20):
    run.log_step(step, loss=x * step)
torch.cuda._sleep(60_000_000_000)      # half a minute of the device's time
run.log_step(20, loss=x * 20)
print("logged", flush=True)
time.sleep(60)
"""


def test_the_last_finished_step_is_in_the_file_although_a_later_one_hangs(tmp_path: Path) -> None:
    """Within a second; and a record that comes after it with host numbers does not wait either."""
    path = tmp_path / "training.json"
    process = subprocess.Popen([sys.executable, "-c", HANGS, str(path)], stdout=subprocess.PIPE, env=ENVIRONMENT)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"logged\n"
        time.sleep(1)
        steps = [(record["step"], record["loss"]) for record in load(path) if record["log"] == "step"]
        assert steps == [(step, float(step)) for step in range(20)]
    finally:
        process.kill()
        process.wait()


def test_closing_does_not_wait_for_a_device_that_hangs(tmp_path: Path) -> None:
    """The record is written without its number, and an event says so."""
    path = tmp_path / "training.json"
    program = HANGS.replace("time.sleep(60)", "begin = time.monotonic(); run.close(); print(time.monotonic() - begin)")
    process = subprocess.Popen(
        [sys.executable, "-c", program + "\nimport os; os._exit(0)", str(path)], stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    out = process.communicate(timeout=60)[0].decode().split()
    assert float(out[1]) < 5
    records = load(path)
    assert [record["log"] for record in records[-3:]] == ["step", "event", "end"]
    assert "loss" not in records[-3]
    assert records[-2]["rule"] == "device-late"
