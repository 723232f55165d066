"""`stepscope.watch` around a training on a GPU: it never waits, tells both clocks apart, and changes not a bit."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("psutil")

from torch import nn  # noqa: E402

import stepscope  # noqa: E402
from stepscope import TrainingRunLogger  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

WIDTH, BATCH = 4096, 4096
STEPS = 30


@pytest.fixture(autouse=True)
def _back_to_default() -> Iterator[None]:
    """Waiting is allowed again, whatever a test has done."""
    yield
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


class Training:
    """Dense layers on batches in pinned memory; a step keeps the device busy for milliseconds."""

    def __init__(self, width: int = WIDTH, batch: int = BATCH, layers: int = 6) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers))).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.batches = [torch.randn(batch, width).pin_memory() for _ in range(2)]
        for _ in range(5):  # libraries load, and the optimizer's state is there
            self.step(self.batches[0])
        torch.cuda.synchronize()

    def loader(self, steps: int, sleep_s: float = 0.0) -> Iterator[Any]:
        """Batches that are there, or that take their time to be made."""
        for step in range(steps):
            time.sleep(sleep_s) if sleep_s else None
            yield self.batches[step % 2]

    def step(self, batch: Any, scope: Any = None) -> Any:
        """A step with its phases, or without any."""
        phase = scope.phase if scope is not None else lambda name: nullcontext()
        with phase("data_transfer"):
            x = batch.to("cuda", non_blocking=True)
        with phase("forward_pass"), torch.autocast("cuda", torch.bfloat16):
            loss = self.model(x).float().square().mean()
        with phase("backward_pass"):
            loss.backward()
        with phase("optimizer_step"):
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss


def watched(training: Training, run: TrainingRunLogger, steps: int = STEPS, sleep_s: float = 0.0) -> Any:
    """Train under a scope; the run, read back."""
    scope = stepscope.watch(training.model, training.optimizer, run, card=False)
    for batch in scope.loader(training.loader(steps, sleep_s)):
        with scope.step():
            training.step(batch, scope)
    torch.cuda.set_sync_debug_mode("default")
    scope.close()
    run.close()
    return stepscope.read_run(run.path)


Make = Callable[..., TrainingRunLogger]


@pytest.mark.parametrize("named", [True, False], ids=["phases", "hooks"])
def test_a_watched_loop_never_waits_for_the_device(make_run: Make, named: bool) -> None:
    """From the first step to the last, what is counted and measured once included; the losses come all the same."""
    training, run = Training(), make_run()
    scope = stepscope.watch(training.model, training.optimizer, run, card=False)
    torch.cuda.set_sync_debug_mode("error")
    for batch in scope.loader(training.loader(STEPS)):
        with scope.step():
            training.step(batch, scope if named else None)
    torch.cuda.set_sync_debug_mode("default")
    scope.close()
    run.close()
    found = stepscope.read_run(run.path)
    assert len(found.steps) == STEPS
    assert all(step.loss is not None for step in found.steps)
    assert not [event for event in found.events if event.rule == "watching"]


def test_host_and_device_have_clocks_of_their_own(make_run: Make) -> None:
    """A phase that is launched in no time takes the device milliseconds: both stand in the record, apart."""
    training = Training()
    found = watched(training, make_run())
    for record in found.records("phases")[5:]:
        assert set(record.device_ms) == set(record.host_ms)
        assert record.host_ms["backward_pass"] != record.device_ms["backward_pass"]
        top = sum(ms for path, ms in record.device_ms.items() if "/" not in path)
        assert top <= record.device_duration_ms * 1.001
        # two products of (batch × width × width) a layer, at no more than 2.5 PFLOP/s
        assert record.device_ms["backward_pass"] > 6 * 4 * BATCH * WIDTH**2 / 2.5e15 * 1e3


def test_the_device_time_of_a_phase_is_that_of_its_kernels(make_run: Make) -> None:
    """Against events of the test's own around the same work, in the same steps."""
    training, run = Training(), make_run()
    scope = stepscope.watch(training.model, training.optimizer, run, card=False)
    pairs = []
    for batch in scope.loader(training.loader(STEPS)):
        with scope.step():
            x = batch.to("cuda", non_blocking=True)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with scope.phase("forward_pass"):
                begin.record()
                loss = training.model(x).square().mean()
                end.record()
            with scope.phase("backward_pass"):
                loss.backward()
            training.optimizer.step()
            training.optimizer.zero_grad()
        pairs.append((begin, end))
    scope.close()
    run.close()
    torch.cuda.synchronize()
    found = stepscope.read_run(run.path).records("phases")
    for record, (begin, end) in list(zip(found, pairs, strict=True))[5:]:
        assert record.device_ms["forward_pass"] == pytest.approx(begin.elapsed_time(end), rel=0.03, abs=0.05)


def test_a_slow_loader_is_input_wait(make_run: Make) -> None:
    """The device waits as long as the host sleeps, less what it still had to do; the doctor names the data."""
    training = Training(width=1024, batch=1024)
    sleep_s = 0.02
    found = watched(training, make_run(), steps=60, sleep_s=sleep_s)
    waits = [record.input_wait_ms for record in found.records("phases")[5:]]
    busy = [record.device_duration_ms - record.input_wait_ms for record in found.records("phases")[5:]]
    assert min(waits) > 1000 * sleep_s - max(busy)
    assert min(waits) > 10
    assert "data_generation" in {verdict.rule for verdict in diagnosed(found)}


def test_a_slow_launch_is_no_input_wait(make_run: Make) -> None:
    """The host dawdles inside the forward pass: the device is as idle, and no data is to blame."""
    training, run = Training(width=1024, batch=1024), make_run()
    scope = stepscope.watch(training.model, training.optimizer, run, card=False)
    for batch in scope.loader(training.loader(60)):
        with scope.step():
            with scope.phase("forward_pass"):
                time.sleep(0.02)
                loss = training.model(batch.to("cuda", non_blocking=True)).square().mean()
            with scope.phase("backward_pass"):
                loss.backward()
            with scope.phase("optimizer_step"):
                training.optimizer.step()
                training.optimizer.zero_grad()
    scope.close()
    run.close()
    found = stepscope.read_run(run.path)
    records = found.records("phases")[5:]
    assert all(record.input_wait_ms < 1 for record in records)
    assert all(record.device_ms["forward_pass"] > 15 for record in records)
    assert not {"data_generation", "input_wait"} & {verdict.rule for verdict in diagnosed(found)}


def diagnosed(found: Any) -> list[Any]:
    """What the rules say of a run."""
    from stepscope.readers.verdicts import diagnose

    return diagnose(found)


def test_the_gpu_stands_in_the_file(make_run: Make) -> None:
    """What it is, how it is, what the steps could reach at best, memory by segment, and how full it is."""
    pytest.importorskip("pynvml")
    training = Training()
    found = watched(training, make_run(), steps=150)
    (model,) = {record.name for record in found.records("gpu-model")}
    assert model == torch.cuda.get_device_name()
    (gpu, *_) = found.records("gpu")
    assert gpu.id == torch.cuda.current_device()
    assert None not in (gpu.clock, gpu.max_clock, gpu.temperature, gpu.gpu_util)
    segments = {segment.name: segment.device for segment in found.records("allocator")[-1].stats}
    assert segments["weights"] == sum(4 * p.numel() for p in training.model.parameters())
    assert found.records("sol")
    memory = [record for record in found.records("memory") if record.id is not None]
    assert all(record.allocated <= record.peak_allocated for record in memory)
    assert any(record.gpus for record in found.records("system"))


def final(run: TrainingRunLogger | None) -> tuple[Any, Any, Any]:
    """Weights, a moment of the optimizer and the random state after a training, watched or not."""
    torch.manual_seed(1)
    training = Training(width=512, batch=256)
    scope = stepscope.watch(training.model, training.optimizer, run, card=False) if run is not None else None
    dropped = nn.Dropout(0.3)
    for batch in scope.loader(training.loader(STEPS)) if scope else training.loader(STEPS):
        with scope.step() if scope else nullcontext():
            training.step(dropped(batch.cuda(non_blocking=True)), scope)
    if scope is not None:
        scope.close()
    weights = torch.nn.utils.parameters_to_vector(training.model.parameters()).detach()
    state = next(iter(training.optimizer.state.values()))["exp_avg_sq"]
    return weights, state, torch.cuda.get_rng_state()


def test_not_a_bit_of_the_result_changes(make_run: Make) -> None:
    """Weights, optimizer state and the device's random numbers."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        plain, other, seen = final(None), final(None), final(make_run())
    finally:
        torch.use_deterministic_algorithms(False)
    if not all(torch.equal(a, b) for a, b in zip(plain, other, strict=True)):
        pytest.skip("this GPU's own results differ from run to run")
    assert all(torch.equal(a, b) for a, b in zip(plain, seen, strict=True))


def test_a_compiled_model_is_not_compiled_again(make_run: Make) -> None:
    """Watching one from its first step on makes no other graphs than leaving it alone."""
    from torch._dynamo.utils import counters

    graphs = []
    for run in (None, make_run()):
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        compiled = torch.compile(model)
        scope = stepscope.watch(compiled, optimizer, run, card=False) if run is not None else None
        for _ in range(8):
            with scope.step() if scope else nullcontext():
                compiled(torch.randn(64, 256, device="cuda")).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        if scope is not None:
            scope.close()
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] == graphs[1]


def test_a_captured_graph_is_captured_while_watched(make_run: Make) -> None:
    """No event of ours is recorded into it, and its replays are timed like any other work."""
    training, run = Training(width=512, batch=256), make_run()
    x = torch.randn(256, 512, device="cuda")
    with stepscope.watch(training.model, training.optimizer, run, card=False) as scope:
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph), scope.phase("forward_pass"):
            y = training.model(x)
        for _ in range(10):
            with scope.step(), scope.phase("forward_pass"):
                graph.replay()
    with torch.no_grad():
        torch.testing.assert_close(y, training.model(x))
    run.close()
    found = stepscope.read_run(run.path).records("phases")
    assert len(found) == 10
    assert all(record.device_ms["forward_pass"] > 0 for record in found)
