"""This process and its children, as the loader's workers are: memory and CPU, without looking at all processes.

    family = Family()
    family.read(now=10.0)   # Family.Use(memory=…, children_memory=…, children=8, cpu_percent=None)
    family.read(now=11.0)   # …, cpu_percent=712.5: 100 is one core

The list of children is renewed every 5 s at most, from the kernel's own list where there is one.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

RENEW_S = 5.0


class Use(NamedTuple):
    """What the family uses."""

    memory: int
    children_memory: int
    children: int
    cpu_percent: float | None


class Family:
    """This process and all that descend from it."""

    def __init__(self, root: Path = Path("/")):
        self._proc = str(root / "proc")  # paths are text here: a Path costs as much as the reading
        self._children: dict[int, Any] = {}
        self._renewed: float | None = None
        self._used: dict[int, float] = {}  # CPU seconds at the last reading
        self._then: float | None = None

    def read(self, now: float) -> Use:
        """What is used now; CPU is the mean since the last reading, of those that were there then."""
        import psutil

        if self._renewed is None or now - self._renewed >= RENEW_S:
            self._renew(psutil.Process)
            self._renewed = now
        own = _use(psutil.Process())
        children = {pid: use for pid, process in self._children.items() if (use := _use(process)) is not None}
        self._children = {pid: self._children[pid] for pid in children}
        seconds = {pid: use[1] for pid, use in children.items()}
        if own is not None:
            seconds[os.getpid()] = own[1]
        percent = self._percent(seconds, now)
        return Use(own[0] if own else 0, sum(use[0] for use in children.values()), len(children), percent)

    def _percent(self, seconds: dict[int, float], now: float) -> float | None:
        used, then = self._used, self._then
        self._used, self._then = seconds, now
        if then is None or now <= then:
            return None
        return 100 * sum(max(0.0, new - used[pid]) for pid, new in seconds.items() if pid in used) / (now - then)

    def _renew(self, process: Any) -> None:
        pids = self._listed()
        if pids is None:  # no list from the kernel: psutil looks at all processes
            pids = [child.pid for child in process().children(recursive=True)]
        known, self._children = self._children, {}
        for pid in pids:
            try:
                self._children[pid] = known.get(pid) or process(pid)
            except Exception:  # noqa: BLE001 - it has ended in between
                continue

    def _listed(self) -> list[int] | None:
        """All descendants by the kernel's lists of each thread's children; None where it keeps none."""
        own = os.getpid()
        if not os.path.exists(f"{self._proc}/{own}/task/{own}/children"):
            return None
        found: dict[int, None] = {}
        waiting = [own]
        while waiting:
            fresh = [pid for pid in self._children_of(waiting.pop()) if pid not in found]
            found.update(dict.fromkeys(fresh))
            waiting += fresh
        return list(found)

    def _children_of(self, pid: int) -> Iterable[int]:
        try:
            threads = os.listdir(f"{self._proc}/{pid}/task")
        except OSError:  # it has ended in between
            return
        for thread in threads:
            try:
                with open(f"{self._proc}/{pid}/task/{thread}/children", "rb") as children:
                    yield from map(int, children.read().split())
            except OSError:
                continue


def _use(process: Any) -> tuple[int, float] | None:
    """Resident memory and CPU seconds of one process; None where it has ended."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            return process.memory_info().rss, times.user + times.system
    except Exception:  # noqa: BLE001 - gone, or not ours to look at
        return None
