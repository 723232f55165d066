"""A small watched training with the eight phases of *MAE profiling*, and what a user sees of it.

    seen = profile(folder)                            # two epochs on the CPU, nothing planted
    seen = profile(folder, data_generation=0.01)      # each batch takes 10 ms to generate
    seen.tags["profiling/batch_time_avg"]             # [(step, value), …], read back from TensorBoard
    seen.said                                         # the lines of the console
    seen.file                                         # the run file

The waits are sleeps, for what is tested is that a phase's time is told from the others'.
"""

import contextlib
import io
import time
from pathlib import Path
from typing import Any, NamedTuple

import stepscope

from ..sinks.read_back import tensorboard_points

PHASES = ("data_transfer", "forward_pass", "backward_pass", "optimizer_step", "ema_update")
AFTER = ("validation_epoch", "visualization_generation")


class Seen(NamedTuple):
    """What a watched training leaves."""

    tags: dict[str, list[tuple[int, float]]]
    said: list[str]
    file: Path

    def values(self, tag: str) -> list[float]:
        """The values of a `profiling/…` scalar."""
        return [value for _, value in self.tags[f"profiling/{tag}"]]


def profile(folder: Path, epochs: int = 2, batches: int = 20, **seconds: Any) -> Seen:
    """Train for some epochs, each phase taking 1 ms or what `seconds` says (a number, or a function of the step)."""
    watch = stepscope.watch  # what waits for it fails here, before anything is made
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        run = stepscope.init(project="mae", output_dir=str(folder), report_to="tensorboard")
        scope = watch(model, optimizer, run)
        for epoch in range(epochs):
            for step, batch in enumerate(scope.loader(_data(batches, seconds)), 1 + epoch * batches):
                with scope.step():
                    for phase in PHASES:
                        with scope.phase(phase):
                            _train(phase, model, optimizer, batch)
                            _spend(phase, seconds, step)
            for phase in AFTER:
                with scope.phase(phase):
                    _spend(phase, seconds, step)
        scope.close()
        run.close()
    return Seen(_scalars(folder), said.getvalue().splitlines(), folder / "training.json")


def _data(batches: int, seconds: dict[str, Any]) -> Any:
    import torch

    for step in range(batches):
        _spend("data_generation", seconds, step)
        yield torch.randn(8, 4)


def _spend(phase: str, seconds: dict[str, Any], step: int) -> None:
    planted = seconds.get(phase, 0.001)
    time.sleep(planted(step) if callable(planted) else planted)


def _train(phase: str, model: Any, optimizer: Any, batch: Any) -> None:
    """The part of a training step that belongs to a phase."""
    if phase == "forward_pass":
        model.loss = model(batch).square().mean()
    elif phase == "backward_pass":
        model.loss.backward()
    elif phase == "optimizer_step":
        optimizer.step()
        optimizer.zero_grad()


def _scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for events in {file.parent for file in folder.rglob("events.out.tfevents.*")}:
        for point in tensorboard_points(events):
            found.setdefault(point.tag, []).append((point.step, point.value))
    return found
