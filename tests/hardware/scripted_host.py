"""Scripted cgroup trees: the few files by which a container's limits are known.

write(root, V2_CONTAINER | {"sys/fs/cgroup/memory.current": "900"})
"""

from pathlib import Path

GIB = 1 << 30


def write(root: Path, files: dict[str, object]) -> Path:
    """The root with these files in it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def cpu_stat(periods: int, throttled: int, usage_us: int = 0) -> str:
    """cpu.stat, as both versions have it."""
    return f"usage_usec {usage_us}\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 1"


# 8 GiB and two CPUs; 5 GiB in use, of which 1 GiB is file cache that the kernel may drop
V2_CONTAINER: dict[str, object] = {
    "proc/self/cgroup": "0::/",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory",
    "sys/fs/cgroup/memory.max": 8 * GIB,
    "sys/fs/cgroup/memory.current": 5 * GIB,
    "sys/fs/cgroup/memory.stat": f"anon {4 * GIB}\ninactive_file {GIB}\nactive_file 0",
    "sys/fs/cgroup/cpu.max": "200000 100000",
    "sys/fs/cgroup/cpu.stat": cpu_stat(100, 10),
}

V1_CONTAINER: dict[str, object] = {
    # the host's path, which a container without a namespace of its own cannot see
    "proc/self/cgroup": "5:memory:/docker/1f2e\n4:cpu,cpuacct:/docker/1f2e\n1:name=systemd:/docker/1f2e\n0::/",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": 8 * GIB,
    "sys/fs/cgroup/memory/memory.usage_in_bytes": 5 * GIB,
    "sys/fs/cgroup/memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": 200000,
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": 100000,
    "sys/fs/cgroup/cpu,cpuacct/cpu.stat": cpu_stat(100, 10),
    "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage": 3_500_000_000,
    "sys/fs/cgroup/unified/cgroup.procs": "",
}

V2_BARE: dict[str, object] = {
    "proc/self/cgroup": "0::/user.slice/session.scope",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory",
    "sys/fs/cgroup/user.slice/session.scope/memory.max": "max",
    "sys/fs/cgroup/user.slice/session.scope/memory.current": GIB,
    "sys/fs/cgroup/user.slice/session.scope/cpu.max": "max 100000",
}

V1_BARE: dict[str, object] = {
    "proc/self/cgroup": "4:memory:/\n3:cpu:/\n0::/",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
    "sys/fs/cgroup/memory/memory.usage_in_bytes": GIB,
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": -1,
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": 100000,
}
