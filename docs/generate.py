"""Write what docs/ says of the records and the settings from the code: tables, example lines, JSON Schema.

    python docs/generate.py       # `make docs`

The tables stand between two comments; the text around them is written by hand. A test compares the files with what
this program makes now.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from stepscope import records as r
from stepscope.codec import encode
from stepscope.config import Settings

DOCS = Path(__file__).parent
RUN_FILE, SCHEMA, SETTINGS = DOCS / "run-file.md", DOCS / "run-file.schema.json", DOCS / "settings.md"
BEGIN, END = "<!-- made by docs/generate.py: begin -->", "<!-- made by docs/generate.py: end -->"
COMMON = ("time", "step")
NESTED: tuple[type[Struct], ...] = (r.Segment, r.Git, r.Spent, r.GpuPeak, r.GpuMemory)
NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}

T = "2026-01-15T10:30:00.123456"
EXAMPLES: tuple[r.Record, ...] = (
    r.Header(
        time=T,
        id="6f1c0a9b52de",
        name="brisk-otter-20260115-103000-3f",
        project="demo",
        host="node-7",
        pid=4242,
        world_size=1,
        utc_offset="+01:00",
        argv=["train.py", "--lr", "2e-4"],
        config={"lr": 2e-4, "clip": float("inf")},
        git=r.Git(commit="9d5e3a1c", dirty=False),
        versions={"python": "3.12.1", "stepscope": "0.1.0", "torch": "2.13.0"},
        total_steps=800,
    ),
    r.Step(time=T, step=100, epoch=1.25, step_tokens=16384, duration_ms=156, norm=0.1234, loss=2.3456, lr=2e-4),
    r.Eval(time=T, step=500, epoch=1.5, eval_tokens=32768, duration_ms=234, loss=2.1234),
    r.Moe(time=T, step=100, aux_loss=0.0234, z_loss=0.0012, expert_utilization=0.9375, load_imbalance=1.45),
    r.Gpu(
        time=T,
        step=100,
        id=0,
        clock=1800,
        max_clock=2100,
        fan=65,
        power=350000,
        power_limit=400000,
        temperature=72,
        temp_slowdown=83,
        gpu_util=98,
        mem_util=85,
        throttle="",
        dram_free=8589934592,
        pcie_rx=1073741824,
        pcie_tx=536870912,
    ),
    r.SpeedOfLight(
        time=T, blocks=123.4e9, lm_head=45.6e9, attention=78.9e9, tps=156000, tf32_peak=494.7, bf16_peak=989.5
    ),
    r.Allocator(
        time=T, stats=[r.Segment(name="weights", device=4294967296), r.Segment(name="optimizer", pinned=8589934592)]
    ),
    r.Dataset(time=T, split="train", files=2, tokens=329663, file_index=0, chunk_index=0, seed=42),
    r.GpuModel(
        time=T,
        name="NVIDIA H100 80GB HBM3",
        sm_count=132,
        major=9,
        minor=0,
        memory=85520809984,
        free=84893171712,
        l2_size=52428800,
        ecc=True,
        cuda_driver=13000,
        cuda_runtime=13000,
        id=0,
    ),
    r.Phases(
        time=T,
        step=100,
        duration_ms=142.1,
        host_ms={"data_generation": 4.2, "forward_pass": 12.9, "backward_pass": 9.8, "optimizer_step": 3.1},
        device_ms={"data_generation": 0.0, "forward_pass": 63.2, "backward_pass": 70.4, "optimizer_step": 6.9},
        device_duration_ms=141.9,
        input_wait_ms=0.0,
        worker_ms=410.5,
        batches=1,
        samples=32,
    ),
    r.Profile(
        time=T,
        step=100,
        first_step=91,
        steps=10,
        clock="device",
        mean_ms=142.0,
        std_ms=1.9,
        p50_ms=141.8,
        p95_ms=145.1,
        p99_ms=146.0,
        phases=[r.Spent(name="backward_pass", ms=704.2, count=10), r.Spent(name="forward_pass", ms=632.0, count=10)],
        data_generation_ms=4.2,
        data_transfer_ms=0.6,
        data_gen_percentage=2.9,
        transfer_percentage=0.4,
        bottleneck_data_generation=False,
        data_gen_bottleneck_severity=0.029,
        input_wait_ms=0.0,
        worker_ms=410.5,
        device_idle=0.0,
        share=0.0008,
    ),
    r.Epoch(
        time=T,
        step=318,
        epoch=1,
        total_ms=45230.0,
        steps=318,
        batches=318,
        samples=10176,
        clock="device",
        mean_ms=142.0,
        std_ms=2.1,
        p50_ms=141.8,
        p95_ms=145.3,
        p99_ms=149.9,
        phases=[
            r.Spent(name="backward_pass", ms=22310.0, count=318),
            r.Spent(name="forward_pass", ms=20120.0, count=318),
            r.Spent(name="validation_epoch", ms=2800.0),
        ],
        other_ms=0.0,
        input_wait_ms=0.0,
        max_ram_percent=41.2,
        max_gpu_memory=[r.GpuPeak(id=0, allocated=31138512896)],
    ),
    r.System(
        time=T,
        step=100,
        cpu_percent=37.5,
        cpus=16.0,
        process_cpu_percent=412.0,
        ram_percent=41.2,
        ram_available=80530636800,
        ram_total=137438953472,
        process_memory=6442450944,
        children_memory=4294967296,
        children=8,
        disk_read=104857600.0,
        disk_write=0.0,
        network_in=1024.0,
        network_out=2048.0,
        memory_pressure=0.412,
        bottleneck_memory=False,
        gpus=[r.GpuMemory(id=0, allocated=31138512896, total=150754820096, utilization=20.7, pressure=0.207)],
    ),
    r.Memory(
        time=T,
        step=100,
        id=0,
        allocated=1493172224,
        peak_allocated=31138512896,
        reserved=32210157568,
        peak_reserved=32210157568,
        retries=0,
        ooms=0,
    ),
    r.OutOfMemory(
        time=T,
        step=101,
        id=0,
        asked=21474836480,
        free=1073741824,
        allocated=80530636800,
        reserved=83751862272,
        message="CUDA out of memory. Tried to allocate 20.00 GiB.",
        phase="forward_pass",
        stats=[r.Segment(name="weights", device=4294967296), r.Segment(name="activations", device=68719476736)],
        last_steps=[{"step": 100, "ms": 142.1}],
    ),
    r.Metrics(time=T, step=100, values={"accuracy": 0.87, "reward/mean": float("nan")}),
    r.Event(
        time=T,
        step=101,
        severity="warning",
        rule="gradient-spike",
        message="the gradient's norm is 9.1 times its moving average",
        advice="look at the batch of step 101; clip the gradient",
        evidence={"norm": 1.12, "average": 0.123},
    ),
    r.Rewind(time=T, step=90, last_step=101, attempt=2),
    r.Message(time=T, step=0, message="loaded checkpoint step-90.pt"),
    r.End(time=T, step=800, status="finished", duration_ms=126500),
)


def made() -> dict[Path, str]:
    """What the files must hold."""
    return {RUN_FILE: page(RUN_FILE, _kinds()), SCHEMA: schema(), SETTINGS: page(SETTINGS, _settings())}


def page(path: Path, lines: Iterator[str]) -> str:
    """A page with its generated part made anew."""
    before, rest = path.read_text().split(BEGIN)
    after = rest.split(END)[1]
    return "\n".join([before + BEGIN, "", *lines, END + after])


def _settings() -> Iterator[str]:
    yield from ("| setting | type | default | meaning |", "|---|---|---|---|")
    for field in msgspec.structs.fields(Settings):
        type_, meaning = get_args(field.type)
        default = "" if field.default in (None, ()) else f"`{json.dumps(field.default)}`"
        yield f"| `{field.name}` | {type_name(type_)} | {default} | {meaning.description} |"
    yield ""


def _kinds() -> Iterator[str]:
    yield from ("### Every record", "", "In this order, before all others; `step` is not in `run`.", "")
    yield from (*_head(), "| `log` | text |  | the record's kind |  | always |", *_rows(r.StepRecord), "")
    for kind, record in r.KINDS.items():
        yield from (f"### `{kind}`", "", _sentence(record), "", *_head(), *_rows(record, without=COMMON), "")
        yield from ("```json", _example(kind), "```", "")
    for part in NESTED:
        yield from (f"### {part.__name__}", "", _sentence(part), "", *_head(), *_rows(part), "")


def _example(kind: str) -> str:
    (record,) = [record for record in EXAMPLES if record.kind == kind]
    return encode(record).decode()


def _sentence(struct: type[Struct]) -> str:
    return str(struct.__doc__).split("\n")[0]


def _head() -> list[str]:
    return ["| field | type | unit | meaning | ranks | written |", "|---|---|---|---|---|---|"]


def _rows(struct: type[Struct], without: tuple[str, ...] = ()) -> Iterator[str]:
    always = _always(struct)
    for name, info in r.describe(struct).items():
        if name not in without:
            written = "always" if name in always else "when known"
            cells = [f"`{name}`", type_name(info.type), info.unit, info.meaning, info.reduce, written]
            yield f"| {' | '.join(cells)} |"


def _always(struct: type[Struct]) -> list[str]:
    """The fields that even an empty record holds, without the tag."""
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    return [name for name in msgspec.to_builtins(struct(**dict.fromkeys(required, ""))) if name != "log"]


def type_name(hint: Any) -> str:
    """A type as the tables name it."""
    parts = [part for part in get_args(hint) if part is not type(None)]
    if hint is Any:
        return "any JSON"
    if get_origin(hint) is list:
        return f"list of {type_name(parts[0])}"
    if get_origin(hint) is dict:
        return f"{type_name(parts[1])} by name"
    if get_origin(hint) is tuple:
        if parts[1:] == [...]:
            return f"list of {type_name(parts[0])}"
        return f"[{', '.join(map(type_name, parts))}]"
    if parts:
        return " or ".join(dict.fromkeys(type_name(part) for part in parts if not (part is int and float in parts)))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return {float: "number", int: "integer", str: "text", bool: "boolean"}[hint]


def schema() -> str:
    """The JSON Schema of a run file that this version writes."""
    known, made = msgspec.json.schema_components(r.KINDS.values(), ref_template="#/$defs/{name}")
    unknown = {
        "type": "object",
        "required": ["log"],
        "properties": {"log": {"type": "string", "not": {"enum": [*r.KINDS]}}},
    }
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"stepscope run file, schema version {r.SCHEMA_VERSION}",
        "type": "array",
        "prefixItems": [{"$ref": "#/$defs/Header"}],
        "items": {"anyOf": [*known, {"$ref": "#/$defs/Unknown"}]},
        "$defs": {name: _definition(name, body) for name, body in made.items()}
        | {"Number": NUMBER, "Unknown": unknown},
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _definition(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """A struct's schema: unknown is left out rather than null, and numbers may be the three names."""
    struct = getattr(r, name)
    for field, info in r.describe(struct).items():
        found = _written(body["properties"][field])
        body["properties"][field] = found | {key: v for key, v in (("unit", info.unit), ("reduce", info.reduce)) if v}
    body["required"] = [*(["log"] if "log" in body["properties"] else []), *_always(struct)]
    return body


def _written(found: dict[str, Any]) -> dict[str, Any]:
    """A field's schema as it stands in a file."""
    found = {key: value for key, value in found.items() if key != "default"}
    options = [option for option in found.pop("anyOf", []) if option != {"type": "null"}]
    if {"type": "number"} in options:  # which takes integers as well
        options = [
            {"$ref": "#/$defs/Number"} if o == {"type": "number"} else o for o in options if o != {"type": "integer"}
        ]
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = _written(found["additionalProperties"])
    return found | (options[0] if len(options) == 1 else {"anyOf": options} if options else {})


def main() -> None:
    """Write the files."""
    for path, text in made().items():
        path.write_text(text)
        print(f"written: docs/{path.name}")


if __name__ == "__main__":
    main()
