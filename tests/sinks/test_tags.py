"""The names that records have in each backend, as the document gives them."""

import math

import pytest

from stepscope.errors import UnknownSetting
from stepscope.records import (
    KINDS,
    Allocator,
    Dataset,
    End,
    Eval,
    Event,
    Git,
    Gpu,
    GpuModel,
    Header,
    Message,
    Metrics,
    Moe,
    Other,
    Segment,
    SpeedOfLight,
    Step,
    fields,
)
from stepscope.tags import ALWAYS_BY_GPU, NAMED, TABLE, Names, config, tags

SCHEMES = list(ALWAYS_BY_GPU)
SEEN = {"id": 0, "clock": 1800, "power": 350000, "dram_free": 8589934592, "pcie_rx": 1073741824, "pcie_tx": 536870912}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_step_goes_under_train(scheme: str) -> None:
    """With the throughput, which no field holds."""
    step = Step(step=100, epoch=1.25, step_tokens=16384, duration_ms=156, norm=0.1234, loss=2.3456, lr=0.0002)
    assert tags(step, scheme) == [
        ("train/epoch", 1.25),
        ("train/step_tokens", 16384),
        ("train/duration_ms", 156),
        ("train/norm", 0.1234),
        ("train/loss", 2.3456),
        ("train/lr", 0.0002),
        ("train/tokens_per_second", pytest.approx(16384 / 0.156)),
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_evaluation_goes_under_eval(scheme: str) -> None:
    """Loss, duration and throughput."""
    named = dict(tags(Eval(step=500, epoch=1.5, eval_tokens=32768, duration_ms=234, loss=2.1234), scheme))
    assert named["eval/loss"] == 2.1234
    assert named["eval/duration_ms"] == 234
    assert named["eval/tokens_per_second"] == pytest.approx(32768 / 0.234)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_moe_numbers_have_the_documents_names(scheme: str) -> None:
    """From a record of their own and from inside a step alike."""
    wanted = {"moe/aux_loss": 0.02, "moe/z_loss": 0.001, "moe/expert_utilization": 0.9, "moe/load_imbalance": 1.4}
    own = Moe(step=1, aux_loss=0.02, z_loss=0.001, expert_utilization=0.9, load_imbalance=1.4)
    inline = Step(
        step=1, moe_aux_loss=0.02, moe_z_loss=0.001, moe_expert_utilization=0.9, moe_load_imbalance=1.4, loss=2.0
    )
    assert dict(tags(own, scheme)) == wanted
    assert dict(tags(inline, scheme)) == wanted | {"train/loss": 2.0}


@pytest.mark.parametrize("first", ["step", "moe"])
def test_moe_numbers_come_once_a_step(first: str) -> None:
    """Whichever brings them first; what only the second has still comes."""
    inline, own = Step(step=3, moe_aux_loss=0.02), Moe(step=3, aux_loss=0.02, z_loss=0.001)
    names = Names("wandb")
    found = [tag for record in ([inline, own] if first == "step" else [own, inline]) for tag in names.tags(record)]
    assert sorted(found) == [("moe/aux_loss", 0.02), ("moe/z_loss", 0.001)]
    assert names.tags(Moe(step=4, aux_loss=0.03)) == [("moe/aux_loss", 0.03)]


def test_one_gpu_has_no_index_in_wandb() -> None:
    """`gpu/clock`, as the document has it, with memory in MiB and PCIe in MiB/s."""
    assert Names("wandb").tags(Gpu(step=100, **SEEN)) == [
        ("gpu/clock", 1800),
        ("gpu/power", 350000),
        ("gpu/dram_free", 8192.0),
        ("gpu/pcie_rx", 1024.0),
        ("gpu/pcie_tx", 512.0),
    ]


def test_several_gpus_have_an_index_in_wandb() -> None:
    """`gpu/{id}/clock` and no `gpu/clock`, so that none overwrites another."""
    names = Names("wandb")
    for id_ in (0, 1):
        names.see(GpuModel(id=id_, name="H100"))
    found = [tag for id_ in (0, 1) for tag, _ in names.tags(Gpu(step=1, id=id_, clock=1800))]
    assert found == ["gpu/0/clock", "gpu/1/clock"]


@pytest.mark.parametrize("scheme", ["aim", "tensorboard"])
def test_elsewhere_a_gpu_always_has_its_index(scheme: str) -> None:
    """`gpu/0/power`."""
    assert dict(tags(Gpu(step=100, **SEEN), scheme))["gpu/0/power"] == 350000


@pytest.mark.parametrize(("text", "throttled"), [("power cap", 1), ("", 0), ("no cap", 0), ("idle", 0)])
def test_throttling_is_a_number_that_can_be_drawn(text: str, throttled: int) -> None:
    """And in W&B, which takes text among numbers, the reason too."""
    gpu = Gpu(step=1, id=0, throttle=text)
    assert tags(gpu, "aim") == [("gpu/0/throttled", throttled)]
    assert tags(gpu, "wandb") == [("gpu/throttled", throttled), *([("gpu/throttle", text)] if throttled else [])]


def test_what_is_unknown_is_left_out() -> None:
    """Also where a foreign tracker writes -1, or that throttling cannot be told."""
    assert tags(Gpu(step=1, id=0, power=-1, clock=None, throttle="not supported"), "aim") == []
    assert tags(SpeedOfLight(blocks=1e9, fp8_peak=-1.0), "wandb") == [("sol/blocks", 1e9)]
    assert tags(Step(step=1, step_tokens=10, duration_ms=0), "wandb") == [
        ("train/step_tokens", 10),
        ("train/duration_ms", 0),
    ]


def test_what_is_not_finite_stays_a_number() -> None:
    """Never dropped, never text."""
    found = dict(tags(Step(step=1, loss=math.nan, norm=math.inf), "wandb"))
    assert math.isnan(found["train/loss"])
    assert found["train/norm"] == math.inf
    assert tags(Metrics(values={"a": -math.inf}), "aim") == [("a", -math.inf)]


def test_allocations_are_in_mib_by_segment() -> None:
    """`allocator/weights_mib`; memory of the host only where there is some."""
    stats = [Segment(name="weights", device=2**32), Segment(name="optimizer", device=2**31, pinned=2**33)]
    assert tags(Allocator(stats=stats), "aim") == [
        ("allocator/weights_mib", 4096.0),
        ("allocator/optimizer_mib", 2048.0),
        ("allocator/optimizer_pinned_mib", 8192.0),
    ]
    assert tags(Allocator(id=1, stats=stats[:1]), "aim", several_gpus=True) == [("allocator/1/weights_mib", 4096.0)]


def test_further_numbers_keep_their_names() -> None:
    """A truth value is drawn as 0 or 1."""
    assert tags(Metrics(values={"acc/top1": 0.5, "ok": True}), "wandb") == [("acc/top1", 0.5), ("ok", 1)]


def test_an_event_is_a_text_under_its_rule() -> None:
    """With what to do about it."""
    event = Event(step=1, rule="slow-data", message="the loader waits", advice="add workers")
    assert tags(event, "aim") == [("event/slow-data", "the loader waits: add workers")]


@pytest.mark.parametrize("record", [Message(message="hi"), Header(), Other("later-kind", {"step": 1, "x": 2})])
def test_the_rest_has_no_name(record: object) -> None:
    """Text lines, headers and kinds that are not known."""
    assert tags(record, "wandb") == []


def test_an_unknown_scheme_is_an_error() -> None:
    """That names the nearest."""
    with pytest.raises(UnknownSetting, match="did you mean 'wandb'"):
        tags(Step(), "wand")


@pytest.mark.parametrize("kind", sorted(TABLE))
def test_every_number_of_a_kind_has_a_name_of_its_own(kind: str) -> None:
    """So a field that is added later reaches the backends, and none hides another."""
    numeric = [n for n, info in fields(kind).items() if "float" in str(info.type) or "int" in str(info.type)]
    record = KINDS[kind](**dict.fromkeys(numeric, 1))
    found = [tag for tag, _ in tags(record, "aim")]
    assert len(found) == len(set(found))
    assert len(found) >= len([name for name in numeric if name not in ("step", "id")])


def test_the_kinds_that_have_names_are_known() -> None:
    """Each kind is in `NAMED` or has none."""
    assert set(KINDS) >= NAMED
    assert all(tags(KINDS[kind](), "wandb") == [] for kind in set(KINDS) - NAMED)


def test_the_header_is_configuration() -> None:
    """The run's own at the top, what stepscope knows under its name; JSON has no NaN, so that is text."""
    header = Header(id="a1", config={"lr": math.nan, "nest": {"a": (1, 2)}}, git=Git(commit="c0ffee"))
    found = config(header)
    assert found["lr"] == "NaN"
    assert found["nest"] == {"a": [1, 2]}
    assert found["stepscope"]["id"] == "a1"
    assert found["stepscope"]["git"] == {"commit": "c0ffee"}
    assert "config" not in found["stepscope"]


def test_data_and_hardware_are_configuration() -> None:
    """By split and by index, so that none overwrites another."""
    assert config(Dataset(split="eval", tokens=10)) == {"dataset/eval": {"tokens": 10}}
    assert config(GpuModel(id=1, name="H100")) == {"gpu/1": {"name": "H100"}}
    assert config(End(step=9, status="failed", reason="ValueError: x")) == {
        "end": {"step": 9, "status": "failed", "reason": "ValueError: x"}
    }
    assert config(Step(step=1)) == {}
