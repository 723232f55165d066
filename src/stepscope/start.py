"""`stepscope.init`: the one line for people who come from W&B.

run = stepscope.init(project="mae", config={"lr": 2e-4}, report_to="wandb", output_dir="out")
run.log({"loss": 0.3})
run.close()
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from .errors import UnknownSetting
from .run import TrainingRunLogger
from .sinks.sink import Sink


def init(
    project: str | None = None,
    name: str | None = None,
    config: Any = None,
    *,
    report_to: str | Iterable[str] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    callback: Callable[[str], Any] | None = None,
    sinks: Iterable[Sink] = (),
    **options: Any,
) -> TrainingRunLogger:
    """Start a run. `settings` names a YAML file; `options` are the fields of `stepscope.config.Settings`."""
    if "path" in options:
        raise UnknownSetting("unknown argument 'path': the run file is log_file=…, its folder output_dir=…")
    return TrainingRunLogger(
        options.pop("log_file", None),
        callback,
        config=config,
        settings_file=settings,
        sinks=sinks,
        project=project,
        name=name,
        report_to=report_to,
        output_dir=output_dir,
        **options,
    )
