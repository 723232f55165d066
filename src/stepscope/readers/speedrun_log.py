"""Read the text logs of modded-nanogpt and its relatives as a run file.

    from_speedrun_log(b"step:125/1750 val_loss:4.6373 train_time:12210ms step_avg:97.68ms\\n", Path("log.txt"))

That line becomes an `eval` record and a `metrics` record with training_time_ms and step_avg_ms; one without a
val_loss a `step` record; `peak memory allocated: 33278 MiB reserved: 48994 MiB` a `metrics` record. Such a log begins
with the whole source of its program, which holds lines that look alike: only numbers in the places of numbers count.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ..codec import encode
from ..records import Eval, Header, Metrics, Record, Step

_NUMBER = r"-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf)"
_VALUES = rf"(?: \w+:{_NUMBER}(?:ms|s)?)+"
_TIME = r"(?:\[(?P<time>[^\]]+)\] )?"
_LINE = re.compile(
    rf"{_TIME}(?:"
    rf"(?:step|s):(?P<step>\d+)(?:/(?P<total>\d+))?(?P<values>{_VALUES})"
    rf"|peak memory allocated: (?P<allocated>\d+) MiB(?: reserved: (?P<reserved>\d+) MiB)?"
    rf")\s*"
)
_VALUE = re.compile(rf"(\w+):({_NUMBER})(ms|s)?")
_ANY = re.compile(rf"^{_LINE.pattern}$".encode(), re.M)
# Without a line break behind it, the last number of a log may be cut: these are seen to be whole.
_WHOLE = re.compile(r"(?:ms|MiB|tel:\d+\.\d{6}|norm:\d+\.\d{2})\s*$")

_NAMES = {"train_time": "training_time_ms", "step_avg": "step_avg_ms"}


def is_speedrun_log(data: bytes) -> bool:
    """Whether a file holds at least one line of such a log."""
    return _ANY.search(data) is not None


def from_speedrun_log(data: bytes, path: Path) -> bytes:
    """The log as the bytes of a run file."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1] and not _WHOLE.search(lines[-1]):
        lines.pop()
    matches = [match for line in lines if (match := _LINE.fullmatch(line))]
    totals = [int(match["total"]) for match in matches if match["total"]]
    header = Header(name=path.stem, total_steps=totals[-1] if totals else None)
    return b"[\n" + b",\n".join(encode(record) for record in [header, *_records(matches)]) + b"\n]\n"


def _records(matches: "list[re.Match[str]]") -> Iterator[Record]:
    step, clock = 0, float("nan")
    for match in matches:
        time = match["time"] or ""
        if match["step"] is None:
            yield Metrics(time=time, step=step, values=_memory(match))
            continue
        values = dict(_named(*found) for found in _VALUE.findall(match["values"]))
        passed, follows = values.get("training_time_ms", float("nan")), int(match["step"]) == step + 1
        step, clock, duration = int(match["step"]), passed, passed - clock
        yield from _of_line(time, step, values, duration if follows and duration > 0 else None)


def _of_line(time: str, step: int, values: dict[str, float], duration_ms: float | None) -> Iterator[Record]:
    """An evaluation where the line has its loss, else a training step; and all that has no field of its own."""
    val_loss, loss = _take(values, "val_loss", "tel"), _take(values, "train_loss", "trl")
    if val_loss is not None:
        yield Eval(time=time, step=step, loss=val_loss)
    if loss is not None or (val_loss is None and "training_time_ms" in values):
        norm, lr = _take(values, "norm"), _take(values, "lr")
        yield Step(time=time, step=step, duration_ms=duration_ms, norm=norm, loss=loss, lr=lr)
    if values:
        yield Metrics(time=time, step=step, values=dict(values))


def _take(values: dict[str, float], *names: str) -> float | None:
    return next((values.pop(name) for name in names if name in values), None)


def _named(name: str, number: str, unit: str) -> tuple[str, float]:
    """A number under the name that it has here, times in milliseconds."""
    value = float(number) * 1000 if unit == "s" else float(number)
    return _NAMES.get(name, f"{name}_ms" if unit else name), value


def _memory(match: "re.Match[str]") -> dict[str, float]:
    found = {"peak_memory_mb": match["allocated"], "reserved_memory_mb": match["reserved"]}
    return {name: int(value) for name, value in found.items() if value is not None}
