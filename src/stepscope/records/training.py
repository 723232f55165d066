"""The records of a run and of its training: header, steps, evaluations, routers, data, events, the end."""

from typing import Annotated, Any

from msgspec import Struct, field

from .base import SCHEMA_VERSION, Number, Record, StepRecord, about, tokens_per_second


class Git(Struct, frozen=True, omit_defaults=True):
    """The state of the code that ran."""

    commit: Annotated[str, about("commit of the folder that the program lies in")]
    dirty: Annotated[bool | None, about("whether it had changes that were not committed")] = None


class Header(Record, frozen=True, kw_only=True, omit_defaults=True, tag="run", tag_field="log"):
    """The first record of each attempt: what ran, where, and with what."""

    schema: Annotated[int, about("version of this schema")] = field(default_factory=lambda: SCHEMA_VERSION)
    id: Annotated[str, about("run id, the same for every attempt and rank")] = field(default_factory=str)
    attempt: Annotated[int, about("1 for the first start, one more for each resume")] = field(default_factory=lambda: 1)
    name: Annotated[str | None, about("name of the run")] = None
    project: Annotated[str | None, about("project that the run belongs to")] = None
    host: Annotated[str | None, about("name of the machine")] = None
    pid: Annotated[int | None, about("process id")] = None
    rank: Annotated[int, about("rank of the process that wrote this file")] = field(default_factory=int)
    world_size: Annotated[int | None, about("number of ranks")] = None
    utc_offset: Annotated[str | None, about("the machine's offset from UTC, as +01:00")] = None
    argv: Annotated[list[str] | None, about("command line")] = None
    config: Annotated[Any, about("configuration of the run", free_form=True)] = None
    git: Annotated[Git | None, about("commit of the code, and whether it had changes")] = None
    versions: Annotated[dict[str, str] | None, about("versions of Python and of the packages in use")] = None
    total_steps: Annotated[int | None, about("steps that the whole run takes", "steps")] = None
    total_tokens: Annotated[int | None, about("tokens that the whole run sees", "tokens")] = None
    total_epochs: Annotated[float | None, about("epochs that the whole run takes", "epochs")] = None


class Step(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="step", tag_field="log"):
    """One training step."""

    epoch: Annotated[float | None, about("fractional epoch: 1.25 is 25 % through the second", "epochs", "same")] = None
    step_tokens: Annotated[int | None, about("tokens processed in this step", "tokens", "sum")] = None
    duration_ms: Annotated[Number | None, about("duration of the step", "ms", "max")] = None
    norm: Annotated[float | None, about("L2 norm of the gradient, after clipping", "", "same")] = None
    loss: Annotated[float | None, about("training loss of this step", "nats", "mean")] = None
    lr: Annotated[float | None, about("learning rate", "", "same")] = None
    moe_aux_loss: Annotated[float | None, about("load-balancing loss of the routers", "nats", "mean")] = None
    moe_z_loss: Annotated[float | None, about("router z-loss", "nats²", "mean")] = None
    moe_load_imbalance: Annotated[float | None, about("most loaded expert over the mean", "ratio", "mean")] = None
    moe_expert_utilization: Annotated[float | None, about("share of experts that got tokens", "0-1", "mean")] = None
    sol: Annotated[float | None, about("speed of light: theoretical over actual time", "%", "mean")] = None
    share: Annotated[float | None, about("share of the step that watching it cost", "0-1", "max")] = None
    samples: Annotated[int | None, about("samples in the step's batches", "samples", "sum")] = None
    skipped: Annotated[bool | None, about("true where a gradient scaler skipped the update", "", "same")] = None
    mfu: Annotated[float | None, about("model FLOPs utilisation, attention counted without its mask", "%", "mean")] = (
        None
    )
    hfu: Annotated[float | None, about("hardware FLOPs utilisation: recomputation included", "%", "mean")] = None

    @property
    def tokens_per_second(self) -> float | None:
        """Throughput of the step, None when it cannot be known."""
        return tokens_per_second(self.step_tokens, self.duration_ms)


class Eval(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="eval", tag_field="log"):
    """One evaluation."""

    epoch: Annotated[float | None, about("fractional epoch", "epochs", "same")] = None
    eval_tokens: Annotated[int | None, about("tokens evaluated", "tokens", "sum")] = None
    duration_ms: Annotated[Number | None, about("duration of the evaluation", "ms", "max")] = None
    loss: Annotated[float | None, about("evaluation loss", "nats", "mean")] = None

    @property
    def tokens_per_second(self) -> float | None:
        """Throughput of the evaluation, None when it cannot be known."""
        return tokens_per_second(self.eval_tokens, self.duration_ms)


class Moe(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="moe", tag_field="log"):
    """Router health of a mixture-of-experts model."""

    aux_loss: Annotated[float | None, about("load-balancing loss, sum across layers", "nats", "mean")] = None
    z_loss: Annotated[float | None, about("router z-loss, sum across layers", "nats²", "mean")] = None
    expert_utilization: Annotated[
        float | None, about("share of experts that got tokens, mean of the layers", "0-1", "mean")
    ] = None
    load_imbalance: Annotated[
        float | None, about("most loaded expert over the mean, 1 is perfect", "ratio", "mean")
    ] = None


class Dataset(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="dataset", tag_field="log"):
    """One split of the data."""

    split: Annotated[str | None, about("train or eval")] = None
    files: Annotated[int | None, about("number of files", "files")] = None
    tokens: Annotated[int | None, about("tokens in the split", "tokens")] = None
    file_index: Annotated[int | None, about("file that is read now")] = None
    chunk_index: Annotated[int | None, about("chunk that is read now")] = None
    seed: Annotated[int | None, about("seed of the shuffling")] = None
    file_tokens: Annotated[list[tuple[str, int]] | None, about("name and tokens of each file")] = None


class Metrics(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="metrics", tag_field="log"):
    """Any further named numbers of a step."""

    values: Annotated[dict[str, bool | Number], about("numbers by name, grouped by /")] = field(default_factory=dict)


class Event(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="event", tag_field="log"):
    """Something that a person should know."""

    severity: Annotated[str, about("info, warning or error")] = field(default_factory=lambda: "info")
    rule: Annotated[str, about("name of the rule that found it")] = field(default_factory=str)
    message: Annotated[str, about("what happened")] = field(default_factory=str)
    advice: Annotated[str | None, about("what to do about it")] = None
    evidence: Annotated[Any, about("the numbers behind it", free_form=True)] = None


class Rewind(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="rewind", tag_field="log"):
    """The run started again from an earlier step: what earlier attempts logged at `step` and above is superseded."""

    last_step: Annotated[int | None, about("last step of the history that is superseded")] = None
    attempt: Annotated[int | None, about("attempt that begins the new history")] = None


class Message(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="message", tag_field="log"):
    """A line of text from the training program."""

    message: Annotated[str, about("the text")] = field(default_factory=str)


class End(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="end", tag_field="log"):
    """How an attempt ended; a file without it was cut off."""

    status: Annotated[str, about("finished, failed, stopped, or exited without close()")] = field(
        default_factory=lambda: "finished"
    )
    reason: Annotated[str | None, about("the exception or the signal")] = None
    duration_ms: Annotated[Number | None, about("duration of the attempt", "ms", "max")] = None


class Other(Struct, frozen=True):
    """A record of a kind that this version does not know, kept as it was read."""

    kind: str
    data: dict[str, Any]

    @property
    def step(self) -> int | None:
        """Its step, where it has one."""
        step = self.data.get("step")
        return step if isinstance(step, int) else None
