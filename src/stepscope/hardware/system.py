"""The host, as far as this process may use it: CPU, memory, its processes, disks and networks.

    reader = SystemReader()
    reader.read()           # System(cpu_percent=None, ram_percent=61.2, …): one reading is no rate
    reader.read()           # System(cpu_percent=34.5, …): rates and shares are means since the last reading
    reader.missing          # {'disk_read': …}: what stays None, each with its reason

A container's memory limit is the memory, and its quota the CPU, where they are nearer their end than the machine is.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..records import System
from .cgroup import Cgroup
from .counters import Rate
from .processes import Family

HIGH_RAM_PERCENT = 85.0
LOOPBACK = ("lo", "lo0")
SHORTEST_S = 0.01  # the kernel counts CPU time in hundredths of a second


class SystemReader:
    """Reads the host again and again; what it cannot tell is None."""

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        high_ram_percent: float = HIGH_RAM_PERCENT,
    ):
        self.missing: dict[str, str] = {}
        self._clock, self._high = clock, high_ram_percent
        self._group = Cgroup(root)
        self._family = Family(root)
        self._rates = {name: Rate() for name in ("disk_read", "disk_write", "network_in", "network_out")}
        self._group_cpu = Rate(SHORTEST_S)
        self._cpu_times: tuple[float, float] | None = None
        self._throttling: tuple[int, int] | None = None

    def read(self) -> System:
        """The host's state now."""
        known: dict[str, Any] = {}
        for name, part in self._parts().items():
            try:
                known |= part(self._clock())
                self.missing.pop(name, None)
            except Exception as error:  # noqa: BLE001 - one part that cannot be read does not hide the others
                self.missing[name] = str(error) or type(error).__name__
        return System(**known)

    def _parts(self) -> dict[str, Callable[[float], dict[str, Any]]]:
        return {
            "cpu_percent": self._cpu,
            "cpu_throttled": self._throttled,
            "ram_percent": self._ram,
            "process_memory": self._processes,
            "disk_read": self._disk,
            "network_in": self._network,
        }

    def _cpu(self, now: float) -> dict[str, Any]:
        cores, quota = _cores(), self._group.cpus()
        shares = [self._busy(cores)]
        seconds = self._group.cpu_seconds()
        if quota is not None and seconds is not None:
            used = self._group_cpu.per_second(seconds, now)
            shares.append(None if used is None else 100 * used / quota)
        percent = max((share for share in shares if share is not None), default=None)
        cpus = float(len(cores)) if quota is None else min(quota, float(len(cores)))
        return {"cpu_percent": percent, "cpus": cpus}

    def _busy(self, cores: set[int]) -> float | None:
        """How much of the cores that this process may run on was in use since the last reading."""
        import psutil

        every = psutil.cpu_times(percpu=True)
        times = [every[core] for core in cores if core < len(every)] or every
        whole, idle = sum(map(_whole_time, times)), sum(map(_idle_time, times))
        before, self._cpu_times = self._cpu_times, (whole, idle)
        if before is None or whole <= before[0]:
            return None
        return min(100.0, max(0.0, 100 * (1 - (idle - before[1]) / (whole - before[0]))))

    def _throttled(self, now: float) -> dict[str, Any]:
        """The share of the quota's periods in which it ran out, since the last reading."""
        before, self._throttling = self._throttling, self._group.throttling()
        if before is None or self._throttling is None:
            return {}
        periods, throttled = (new - old for new, old in zip(self._throttling, before, strict=True))
        return {"cpu_throttled": min(1.0, max(0.0, throttled / periods)) if periods > 0 else 0.0}

    def _ram(self, now: float) -> dict[str, Any]:
        import psutil

        ram, group = psutil.virtual_memory(), self._group.memory()
        percent, available, total = float(ram.percent), int(ram.available), int(ram.total)
        known: dict[str, Any] = {}
        if group is not None and group.limit < total:
            share = 100 * group.used / group.limit
            known = {"ram_limit": group.limit, "ram_limit_percent": share}
            percent, total = max(percent, share), group.limit
            available = max(0, min(available, group.limit - group.used))
        return known | {
            "ram_percent": percent,
            "ram_available": available,
            "ram_total": total,
            "memory_pressure": percent / 100,
            "bottleneck_memory": percent > self._high,
        }

    def _processes(self, now: float) -> dict[str, Any]:
        use = self._family.read(now)
        return {
            "process_cpu_percent": use.cpu_percent,
            "process_memory": use.memory or None,
            "children_memory": use.children_memory,
            "children": use.children,
        }

    def _disk(self, now: float) -> dict[str, Any]:
        import psutil

        counters = psutil.disk_io_counters(nowrap=False)
        if counters is None:
            raise LookupError("no disk is counted here")
        return self._per_second(now, disk_read=counters.read_bytes, disk_write=counters.write_bytes)

    def _network(self, now: float) -> dict[str, Any]:
        import psutil

        cards = [card for name, card in psutil.net_io_counters(True, False).items() if name not in LOOPBACK]
        received, sent = sum(card.bytes_recv for card in cards), sum(card.bytes_sent for card in cards)
        return self._per_second(now, network_in=received, network_out=sent)

    def _per_second(self, now: float, **counts: int) -> dict[str, Any]:
        return {name: self._rates[name].per_second(count, now) for name, count in counts.items()}


def _cores() -> set[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _whole_time(times: Any) -> float:
    """Time in all; the kernel counts guests' time in user time already."""
    return float(sum(times)) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)


def _idle_time(times: Any) -> float:
    return float(times.idle + getattr(times, "iowait", 0.0))
