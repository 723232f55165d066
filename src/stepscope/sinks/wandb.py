"""Weights & Biases: one row a step, drawn over `trainer/step`.

    sink = Wandb(header, project="mae", mode="offline", folder="output")
    sink.write(Step(step=7, loss=2.3))       # train/loss = 2.3 at trainer/step = 7
    sink.close()

W&B drops a row whose step is below the last one. So its own step only counts rows, and the training step is a
number in the row: late records and rewinds arrive. The records of a step are collected until another step comes.
"""

import re
from datetime import UTC, datetime
from typing import Any

from ..errors import StepscopeError
from ..records import Allocator, End, Event, Header, Record, StepRecord
from ..tags import NAMED, Names, config, event_text
from . import wandb_service

STEP = "trainer/step"
QUIET = {
    "console": "off",
    "silent": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
    "disable_git": True,
    "disable_code": True,
    "disable_job_creation": True,
    "label_disable": True,
    "save_code": False,
    "x_transaction_log_flush_interval": 2.0,
}
ALERTS = {"warning": "WARN", "error": "ERROR"}


class Wandb:
    """A W&B run. `first_row` numbers the rows, so that W&B leaves out those that it has: that makes a refill safe."""

    def __init__(
        self,
        header: Header,
        project: str | None = None,
        name: str | None = None,
        mode: str = "online",
        folder: str = ".",
        run_id: str | None = None,
        first_row: int | None = None,
        init_timeout_s: float = 30.0,
        finish_timeout_s: float = 0.0,
    ):
        session = wandb_service.start()
        if mode == "online":
            _need_key(session)
        import wandb

        timeouts = {"init_timeout": init_timeout_s, "finish_timeout": finish_timeout_s}
        wanted = {**QUIET, **timeouts, "finish_timeout_raises": True}
        known = {key: value for key, value in wanted.items() if key in wandb.Settings.model_fields}
        self._run = wandb_service.own(
            session,
            wandb.init(
                project=project or header.project or "stepscope",
                name=name or header.name,
                id=run_id or live_id(header),
                dir=folder,
                mode="offline" if mode == "offline" else None,  # None leaves WANDB_MODE its say
                resume="allow" if first_row is not None else None,
                reinit="create_new",
                settings=wandb.Settings(**known),
            ),
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)
        self.is_offline = bool(self._run.settings._offline)
        self.address: str | None = self._run.settings.sync_dir if self.is_offline else self._run.url
        self.next_row = first_row
        self.names = Names("wandb")
        self._waiting: list[StepRecord] = []
        self._exit_code = 0
        self._open = True

    def write(self, record: Record) -> None:
        """Take a record; it is sent when a record of another step comes."""
        self.names.see(record)
        if about := config(record):
            self._run.config.update(about, allow_val_change=True)
        if isinstance(record, End):
            self._exit_code = int(record.status in ("failed", "stopped"))
        if isinstance(record, Event) and record.severity in ALERTS:
            self._run.alert(record.rule or "stepscope", event_text(record), level=ALERTS[record.severity])
        if record.kind in NAMED and isinstance(record, StepRecord):
            if self._waiting and self._waiting[0].step != record.step:
                self.flush()
            self._waiting.append(record)

    def flush(self) -> None:
        """Send the records that wait, as one row: as several where the same name comes twice."""
        row: dict[str, Any] = {}
        for record in self._waiting:
            values = {**dict(self.names.tags(record)), **self._charts(record)}
            if row.keys() & values.keys():
                self._send(row, record)
                row = {}
            row |= values
        if row:
            self._send(row, self._waiting[-1])
        self._waiting = []  # only now, so that a second try after an error has them still

    def _send(self, row: dict[str, Any], record: StepRecord) -> None:
        number, self.next_row = self.next_row, None if self.next_row is None else self.next_row + 1
        if number is not None and number < self._run.starting_step:
            return  # W&B has it
        self._run.log({**row, STEP: record.step, **_timestamp(record)}, step=number)

    def _charts(self, record: Record) -> dict[str, Any]:
        """A pie of a GPU's memory by segment."""
        if not isinstance(record, Allocator) or not record.stats:
            return {}
        try:
            import plotly.graph_objects
        except ImportError:
            return {}  # the numbers come all the same
        import wandb

        sizes = {segment.name: segment.device for segment in record.stats if segment.device}
        pie = plotly.graph_objects.Pie(labels=list(sizes), values=[size / 2**20 for size in sizes.values()])
        figure = plotly.graph_objects.Figure(pie, {"title": {"text": "GPU memory by segment, MiB"}})
        by_gpu = self.names.several_gpus and record.id is not None
        return {f"allocations/{record.id}" if by_gpu else "allocations": wandb.Plotly(figure)}

    def close(self) -> None:
        """Send what waits, and finish the run."""
        if not self._open:
            return
        self._open = False
        try:
            self.flush()
            self._run.finish(exit_code=self._exit_code)
        finally:
            wandb_service.release(self._run)


def live_id(header: Header) -> str:
    """The id of the W&B run of an attempt: that of the run, with the attempt's number from the second on."""
    suffix = f"-{header.attempt}" if header.attempt > 1 else ""
    return re.sub(r"[^\w.-]", "-", header.id)[:100] + suffix


def _timestamp(record: Record) -> dict[str, float]:
    try:
        return {"_timestamp": datetime.fromisoformat(record.time).replace(tzinfo=UTC).timestamp()}
    except ValueError:
        return {}


def _need_key(session: Any) -> None:
    """Refuse to go on without a key: W&B would ask for it at the terminal that the training runs in."""
    if session.settings._offline or session.settings._noop:
        return
    import wandb
    from wandb.sdk import wandb_login

    wandb.termsetup(wandb.Settings(silent=True), None)
    try:
        logged_in, _ = wandb_login._login(prompt=False, update_api_key=False, _silent=True)
    except TypeError:  # an older W&B, which cannot be told not to ask
        logged_in = bool(wandb.api.api_key)
    finally:
        wandb.termsetup(session.settings, None)
    if not logged_in:
        raise StepscopeError("W&B has no API key: run `wandb login`, set WANDB_API_KEY, or use mode: offline")
