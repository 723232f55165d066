"""Is the process that wrote a run file still at work?

    writer_alive(run.header, idle_s=3.0, step_ms=156)     # True, False, or None: unknown

On the machine that the run is on, its process tells. Of another machine only the silence can be judged.
"""

import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

from ..records import Header

SILENCE_S = 3600.0
SILENT_STEPS = 20


def writer_alive(header: Header | None, idle_s: float | None, step_ms: float | None) -> bool | None:
    """Whether the writer lives, as far as this machine can tell; None where there is nothing to tell it by."""
    if header is None or header.host is None:
        return True if idle_s is not None and idle_s < SILENCE_S else None
    if header.host == socket.gethostname() and header.pid:
        return _is_same_process(header.pid, header.time)
    if idle_s is None:
        return None
    return idle_s < max(SILENCE_S, SILENT_STEPS * (step_ms or 0) / 1000)


def _is_same_process(pid: int, written: str) -> bool:
    """Whether `pid` lives and is not a later process that was given the same number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it lives, as another user
        pass
    try:
        state, began = _process(pid)
        return state != "Z" and began <= datetime.fromisoformat(written).replace(tzinfo=UTC).timestamp() + 2
    except (OSError, AttributeError, ValueError, IndexError):  # no /proc, or a header without a time
        return True


def _process(pid: int) -> tuple[str, float]:
    """The state of a process, and when it began in seconds since 1970."""
    # the name stands in brackets and may hold anything; the state follows it, the begin is 19 fields on
    state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    since_boot = int(rest[18]) / os.sysconf("SC_CLK_TCK")
    return state, time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
