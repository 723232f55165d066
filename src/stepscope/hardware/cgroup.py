"""What a container leaves to this process: its memory limit and its CPU quota, from version 1 or 2 of cgroups.

    group = Cgroup(Path("/"))
    group.memory()          # Memory(limit=17179869184, used=4032000000), or None without a limit
    group.cpus()            # 4.0: the quota in CPUs, or None
    group.throttling()      # Throttling(periods=812, throttled=40), so far
    group.cpu_seconds()     # 1234.5: CPU time of the whole group so far

A limit counts wherever it stands: on the group itself or on one above it, of which a process sees as many as its
container shows. The one nearest its end is the one that is told.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

UNLIMITED = 1 << 60  # version 1 writes "none" as a number just below 2**63
MOUNT = Path("sys/fs/cgroup")


class Memory(NamedTuple):
    """A container's memory in bytes; what the kernel can drop at once is not counted as used."""

    limit: int
    used: int


class Throttling(NamedTuple):
    """How many periods of the quota there were, and in how many of them it ran out."""

    periods: int
    throttled: int


class Names(NamedTuple):
    """The names of one version's files."""

    limit: str
    used: str
    inactive: str


V1 = Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = Names("memory.max", "memory.current", "inactive_file")


class Cgroup:
    """The groups that bind this process, looked up once; their files are read at each call."""

    def __init__(self, root: Path = Path("/"), pid: int | str = "self"):
        places = _places(root, pid)
        self._v2 = "" in places
        self._names = V2 if self._v2 else V1
        memory, cpu = places.get("memory") or places.get("", []), places.get("cpu") or places.get("", [])
        self._limited = [place for place in memory if self._memory(place) is not None]
        self._quotas = [place for place in cpu if self._quota(place) is not None]
        self._accounts = places.get("cpuacct") or cpu

    def memory(self) -> Memory | None:
        """The memory limit that is nearest its end."""
        found = [memory for place in self._limited if (memory := self._memory(place)) is not None]
        return max(found, key=lambda memory: memory.used / memory.limit, default=None)

    def cpus(self) -> float | None:
        """The tightest quota, in CPUs."""
        quotas = [quota for place in self._quotas if (quota := self._quota(place)) is not None]
        return min(quotas, default=None)

    def throttling(self) -> Throttling | None:
        """The count of the group that holds the tightest quota."""
        quotas = {place: quota for place in self._quotas if (quota := self._quota(place)) is not None}
        if not quotas:
            return None
        known = _table(min(quotas, key=lambda place: quotas[place]) / "cpu.stat")
        if "nr_periods" not in known or "nr_throttled" not in known:
            return None
        return Throttling(known["nr_periods"], known["nr_throttled"])

    def cpu_seconds(self) -> float | None:
        """CPU time that the group with the quota has used."""
        if not self._quotas:
            return None
        if self._v2:
            microseconds = _table(self._quotas[0] / "cpu.stat").get("usage_usec")
            return None if microseconds is None else microseconds / 1e6
        nanoseconds = _number(self._accounts[0] / "cpuacct.usage") if self._accounts else None
        return None if nanoseconds is None else nanoseconds / 1e9

    def _memory(self, place: Path) -> Memory | None:
        limit, used = _number(place / self._names.limit), _number(place / self._names.used)
        if limit is None or used is None or not 0 < limit < UNLIMITED:
            return None
        return Memory(limit, max(0, used - _table(place / "memory.stat").get(self._names.inactive, 0)))

    def _quota(self, place: Path) -> float | None:
        if self._v2:
            words = _text(place / "cpu.max").split()
            quota, period = (_whole(words[0]), _whole(words[1])) if len(words) == 2 else (None, None)
        else:
            quota, period = _number(place / "cpu.cfs_quota_us"), _number(place / "cpu.cfs_period_us")
        return quota / period if quota and period and quota > 0 and period > 0 else None


def _places(root: Path, pid: int | str) -> dict[str, list[Path]]:
    """The folders of this process's group and of those above it, by controller; "" is version 2's."""
    found = {}
    for line in _text(root / f"proc/{pid}/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            folders = [MOUNT] if not controller else [MOUNT / controllers, MOUNT / controller]
            mount = next((root / folder for folder in folders if os.path.isdir(root / folder)), None)
            # version 2 beside version 1 has no controllers of its own
            if mount is not None and (controller or os.path.exists(mount / "cgroup.controllers")):
                found[controller] = list(_upwards(mount, path))
    return found


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """The group's folder and those above it; inside a container the path may be the host's, and not be there."""
    parts = [part for part in path.split("/") if part and part != ".."]
    for end in range(len(parts), -1, -1):
        place = mount.joinpath(*parts[:end])
        if os.path.isdir(place):  # where a Path would raise, a folder that may not be looked at is none
            yield place


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:  # "max"
        return None


def _number(path: Path) -> int | None:
    return _whole(_text(path).strip())


def _table(path: Path) -> dict[str, int]:
    """A file of names and numbers."""
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: number for pair in pairs if len(pair) == 2 and (number := _whole(pair[1])) is not None}
