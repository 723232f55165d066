"""TensorBoard: an event file, written without TensorFlow and without torch.

    sink = TensorBoard("output/tensorboard")
    sink.write(Step(step=7, loss=2.3))       # train/loss
    sink.close()

Values are single precision, as TensorBoard's scalars are. A rewind is told the way that TensorBoard knows: its
readers then drop the points from that step on.
"""

import itertools
import json
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..records import Header, Record, Rewind
from ..tags import Names, config

FLUSH_S = 2.0
_numbers = itertools.count()


class TensorBoard:
    """One event file in `folder`."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.monotonic):
        # not EventFileWriter: it imports TensorFlow where that is installed, and adds a thread and a queue
        from tensorboard.compat.proto.event_pb2 import Event, SourceMetadata
        from tensorboard.summary.writer.record_writer import RecordWriter

        os.makedirs(folder, exist_ok=True)
        self.address: str | None = folder
        self._event = Event
        self._clock, self._flushed = clock, clock()
        self.names = Names("tensorboard")
        self._has_params = False
        self.path = os.path.join(folder, _file_name())
        self._writer = RecordWriter(open(self.path, "xb"))  # noqa: SIM115 - closed with the sink
        self._put(file_version="brain.Event:2", source_metadata=SourceMetadata(writer="stepscope"))
        self._writer.flush()

    def write(self, record: Record) -> None:
        """Write the numbers of a record as one event."""
        if isinstance(record, Rewind):
            from tensorboard.compat.proto.event_pb2 import SessionLog

            self._put(record, session_log=SessionLog(status=SessionLog.START))
        values = [_value(name, value) for name, value in self.names.tags(record)]
        about = config(record)
        values += [_text(f"config/{key}", _readable(value)) for key, value in about.items()]
        if isinstance(record, Header) and not self._has_params:
            self._has_params = True  # TensorBoard looks at the first ones alone
            values.append(_hparams(_flat(about)))
        if values:
            from tensorboard.compat.proto.summary_pb2 import Summary

            self._put(record, summary=Summary(value=values))
        if self._clock() - self._flushed >= FLUSH_S:
            self.flush()

    def _put(self, record: Any = None, **content: Any) -> None:
        event = self._event(wall_time=_wall_time(record), step=getattr(record, "step", 0), **content)
        self._writer.write(event.SerializeToString())

    def flush(self) -> None:
        """Let readers see what was written."""
        self._flushed = self._clock()
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        if not self._writer.closed:
            self._writer.close()


def _file_name() -> str:
    """A name of its own; TensorBoard reads the files of a folder in the order of their names."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    maker = f"{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
    return f"events.out.tfevents.{seconds:010d}.{rest:09d}.{maker}.stepscope"


def _wall_time(record: Any) -> float:
    try:
        return datetime.fromisoformat(record.time).replace(tzinfo=UTC).timestamp()
    except (AttributeError, ValueError):
        return time.time()


def _value(name: str, value: "float | str") -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    if isinstance(value, str):
        return _text(name, value)
    return Summary.Value(tag=name, simple_value=value)


def _text(name: str, text: str) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    about = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()])
    return Summary.Value(tag=name, metadata=about, tensor=tensor)


def _readable(value: Any) -> str:
    """A value as Markdown, which is what TensorBoard shows text as."""
    return f"    {json.dumps(value, indent=2)}".replace("\n", "\n    ")


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested data as `a/b` → text, number or truth value."""
    if not isinstance(value, dict):
        return {name: value if isinstance(value, (bool, int, float, str)) else json.dumps(value)}
    return {k: v for key, item in value.items() for k, v in _flat(item, f"{name}/{key}" if name else str(key)).items()}


def _hparams(params: dict[str, Any]) -> Any:
    """The configuration for the HParams tab."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo

    begin = SessionStartInfo()
    for name, value in params.items():
        kind = "bool_value" if isinstance(value, bool) else "string_value" if isinstance(value, str) else "number_value"
        setattr(begin.hparams[name], kind, value)
    data = HParamsPluginData(version=0, session_start_info=begin).SerializeToString()
    about = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="hparams", content=data))
    return Summary.Value(tag="_hparams_/session_start_info", metadata=about)
