"""Every record of a run: the closed vocabulary that enters by the logger and stands in the run file.

    from stepscope.records import Step, fields
    Step(step=100, loss=2.3456, step_tokens=16384, duration_ms=156).tokens_per_second   # 105025.6…
    fields("step")["loss"].unit                                                         # 'nats'

One frozen struct a kind, tagged by `log`, its keys in the order in which they are written. A field that is
unknown is None and is left out of the line. Each field carries its unit, its meaning and how it reduces
across ranks: documentation, tags and screens are made from that. `time` and `step` are stamped by the run,
so that a measurement returns a record without knowing one.
"""

from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from msgspec import Meta, Struct, field

SCHEMA_VERSION = 1

Number = int | float


def about(meaning: str, unit: str = "", reduce: str = "", free_form: bool = False) -> Meta:
    """A field's meaning, its unit, how it reduces across ranks, and whether it holds free-form JSON."""
    return Meta(description=meaning, extra={"unit": unit, "reduce": reduce, "free_form": free_form})


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="log"):
    """What all records share: the time at which they were logged."""

    # msgspec leaves out what equals its default, but never what a plain default_factory gives: None is left
    # out, 0 and "" are written.
    time: Annotated[str, about("when it was logged: UTC, as 2026-01-15T10:30:00.123456")] = field(default_factory=str)

    @property
    def kind(self) -> str:
        """The record's kind, the value of `log` in its line."""
        return str(self.__struct_config__.tag)


class StepRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag_field="log"):
    """A record that belongs to a training step."""

    step: Annotated[int, about("training step", reduce="same")] = field(default_factory=int)


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


class Gpu(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="gpu", tag_field="log"):
    """State of one GPU."""

    id: Annotated[int | None, about("index of the GPU")] = None
    clock: Annotated[int | None, about("current clock", "MHz", "min")] = None
    max_clock: Annotated[int | None, about("highest clock", "MHz", "min")] = None
    fan: Annotated[Number | None, about("fan speed, 0 when passively cooled", "%", "max")] = None
    power: Annotated[Number | None, about("power draw", "mW", "sum")] = None
    power_limit: Annotated[Number | None, about("configured power limit", "mW", "sum")] = None
    temperature: Annotated[Number | None, about("temperature", "°C", "max")] = None
    temp_slowdown: Annotated[Number | None, about("temperature at which it throttles", "°C", "min")] = None
    gpu_util: Annotated[Number | None, about("time in which a kernel ran", "%", "mean")] = None
    mem_util: Annotated[Number | None, about("time in which memory was read or written", "%", "mean")] = None
    throttle: Annotated[str | None, about("reasons for throttling, worst first; empty when none")] = None
    dram_free: Annotated[int | None, about("free memory", "bytes", "min")] = None
    pcie_rx: Annotated[Number | None, about("received over PCIe", "bytes/s", "sum")] = None
    pcie_tx: Annotated[Number | None, about("sent over PCIe", "bytes/s", "sum")] = None


class SpeedOfLight(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="sol", tag_field="log"):
    """What the hardware could reach at best."""

    blocks: Annotated[Number | None, about("operations in the transformer blocks", "FLOP", "same")] = None
    lm_head: Annotated[Number | None, about("operations in the LM head", "FLOP", "same")] = None
    attention: Annotated[Number | None, about("operations in attention", "FLOP", "same")] = None
    tps: Annotated[Number | None, about("theoretical peak throughput", "tokens/s", "same")] = None
    tf32_peak: Annotated[float | None, about("peak in TF32", "TFLOP/s", "same")] = None
    bf16_peak: Annotated[float | None, about("peak in BF16", "TFLOP/s", "same")] = None
    fp16_peak: Annotated[float | None, about("peak in FP16", "TFLOP/s", "same")] = None
    fp8_peak: Annotated[float | None, about("peak in FP8", "TFLOP/s", "same")] = None
    dtype: Annotated[str | None, about("number format that the operations run in: tf32, bf16, fp16, fp8")] = None
    id: Annotated[int | None, about("index of the GPU, where they differ")] = None


class Segment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory of one purpose, by where it lies."""

    name: Annotated[str, about("segment: weights, gradients, optimizer, activations, lora, qlora, …")]
    device: Annotated[int, about("device memory", "bytes", "sum")] = 0
    managed: Annotated[int, about("CUDA managed memory", "bytes", "sum")] = 0
    pinned: Annotated[int, about("pinned host memory", "bytes", "sum")] = 0
    pageable: Annotated[int, about("pageable host memory", "bytes", "sum")] = 0


class Allocator(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="allocator", tag_field="log"):
    """Memory by segment."""

    stats: Annotated[list[Segment] | None, about("allocated memory of each segment")] = None
    id: Annotated[int | None, about("index of the GPU")] = None


class Dataset(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="dataset", tag_field="log"):
    """One split of the data."""

    split: Annotated[str | None, about("train or eval")] = None
    files: Annotated[int | None, about("number of files", "files")] = None
    tokens: Annotated[int | None, about("tokens in the split", "tokens")] = None
    file_index: Annotated[int | None, about("file that is read now")] = None
    chunk_index: Annotated[int | None, about("chunk that is read now")] = None
    seed: Annotated[int | None, about("seed of the shuffling")] = None
    file_tokens: Annotated[list[tuple[str, int]] | None, about("name and tokens of each file")] = None


class GpuModel(StepRecord, frozen=True, kw_only=True, omit_defaults=True, tag="gpu-model", tag_field="log"):
    """What a GPU is."""

    name: Annotated[str | None, about("name of the model")] = None
    sm_count: Annotated[int | None, about("streaming multiprocessors")] = None
    major: Annotated[int | None, about("compute capability, major")] = None
    minor: Annotated[int | None, about("compute capability, minor")] = None
    memory: Annotated[int | None, about("memory in all", "bytes")] = None
    free: Annotated[int | None, about("free memory at the start", "bytes")] = None
    l2_size: Annotated[int | None, about("L2 cache", "bytes")] = None
    uuid: Annotated[str | None, about("UUID")] = None
    ecc: Annotated[bool | None, about("whether ECC is on")] = None
    cuda_driver: Annotated[int | None, about("version of the CUDA driver, 13000 is 13.0")] = None
    cuda_runtime: Annotated[int | None, about("version of the CUDA runtime, 13000 is 13.0")] = None
    id: Annotated[int | None, about("index of the GPU")] = None


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


KINDS: dict[str, type[Record]] = {
    "run": Header,
    "step": Step,
    "eval": Eval,
    "moe": Moe,
    "gpu": Gpu,
    "sol": SpeedOfLight,
    "allocator": Allocator,
    "dataset": Dataset,
    "gpu-model": GpuModel,
    "metrics": Metrics,
    "event": Event,
    "rewind": Rewind,
    "message": Message,
    "end": End,
}


class FieldInfo(NamedTuple):
    """What is known of a field."""

    meaning: str
    unit: str
    reduce: str
    free_form: bool
    type: Any


@cache
def fields(kind: str) -> dict[str, FieldInfo]:
    """The fields of a kind, in the order in which they are written."""
    return describe(KINDS[kind])


def describe(struct: type[Struct]) -> dict[str, FieldInfo]:
    """The fields of a struct, in the order in which they are written."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: _field_info(hints[name]) for name in struct.__struct_fields__}


def _field_info(hint: Any) -> FieldInfo:
    type_, *notes = get_args(hint)
    meta = next(note for note in notes if isinstance(note, Meta))
    return FieldInfo(meta.description or "", type=type_, **(meta.extra or {}))


def tokens_per_second(tokens: int | None, duration_ms: Number | None) -> float | None:
    """Throughput as the run's documents define it; None when a part is unknown or the duration is not positive."""
    if tokens is None or not duration_ms or not duration_ms > 0:
        return None
    return tokens / duration_ms * 1000
