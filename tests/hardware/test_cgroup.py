"""A container's limits, read from scripted trees of both versions."""

import pytest

from stepscope.hardware.cgroup import Cgroup, Memory, Throttling

from .scripted_host import GIB, V1_BARE, V1_CONTAINER, V2_BARE, V2_CONTAINER, cpu_stat, write


@pytest.mark.parametrize("tree", [V2_CONTAINER, V1_CONTAINER], ids=["v2", "v1"])
def test_a_containers_limits_are_read(tmp_path, tree):
    """Used is what the kernel cannot drop at once; a quota of 200 ms in 100 ms is two CPUs."""
    group = Cgroup(write(tmp_path, tree))
    assert group.memory() == Memory(limit=8 * GIB, used=4 * GIB)
    assert group.cpus() == 2.0
    assert group.throttling() == Throttling(periods=100, throttled=10)


def test_the_groups_cpu_time_is_read(tmp_path):
    """Microseconds in version 2, nanoseconds in version 1."""
    two = write(tmp_path / "2", V2_CONTAINER | {"sys/fs/cgroup/cpu.stat": cpu_stat(1, 0, usage_us=3_500_000)})
    assert Cgroup(two).cpu_seconds() == 3.5
    assert Cgroup(write(tmp_path / "1", V1_CONTAINER)).cpu_seconds() == 3.5


@pytest.mark.parametrize("tree", [V2_BARE, V1_BARE, {}], ids=["v2", "v1", "neither"])
def test_no_limit_is_none(tmp_path, tree):
    """`max`, -1 and version 1's huge number all mean that there is none; so does a machine without cgroups."""
    group = Cgroup(write(tmp_path, tree))
    assert (group.memory(), group.cpus(), group.throttling(), group.cpu_seconds()) == (None, None, None, None)


def test_of_nested_limits_the_one_nearest_its_end_counts(tmp_path):
    """A job's limit binds its steps although each of them has a larger one of its own."""
    job = "sys/fs/cgroup/job_7"
    tree = {
        "proc/self/cgroup": "0::/job_7/step_0",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory",
        f"{job}/memory.max": 10 * GIB,
        f"{job}/memory.current": 9 * GIB,
        f"{job}/cpu.max": "150000 100000",
        f"{job}/cpu.stat": cpu_stat(50, 5),
        f"{job}/step_0/memory.max": 64 * GIB,
        f"{job}/step_0/memory.current": 6 * GIB,
        f"{job}/step_0/cpu.max": "800000 100000",
        f"{job}/step_0/cpu.stat": cpu_stat(50, 0),
    }
    group = Cgroup(write(tmp_path, tree))
    assert group.memory() == Memory(limit=10 * GIB, used=9 * GIB)
    assert group.cpus() == 1.5
    assert group.throttling() == Throttling(periods=50, throttled=5)


@pytest.mark.parametrize("broken", ["", "garbage", "-5", "0", "max 0 0 0"])
@pytest.mark.parametrize("file", ["memory.max", "memory.current", "cpu.max", "cpu.stat", "memory.stat"])
def test_files_that_make_no_sense_are_survived(tmp_path, file, broken):
    """What cannot be read is no limit, never an error."""
    group = Cgroup(write(tmp_path, V2_CONTAINER | {f"sys/fs/cgroup/{file}": broken}))
    memory, cpus = group.memory(), group.cpus()
    group.throttling()
    group.cpu_seconds()
    assert memory is None or memory.limit > 0
    assert cpus is None or cpus > 0


@pytest.mark.parametrize("groups", ["", "garbage", "0:", "::::", "4:memory:/\x00\n", "\n\n"])
def test_a_strange_list_of_groups_is_survived(tmp_path, groups):
    """A kernel that says it otherwise costs the limits, nothing else."""
    assert Cgroup(write(tmp_path, V2_CONTAINER | {"proc/self/cgroup": groups})).cpus() in (None, 2.0)


def test_a_group_that_vanishes_is_survived(tmp_path):
    """A limit that was there at the start may be gone later."""
    root = write(tmp_path, V2_CONTAINER)
    group = Cgroup(root)
    for path in (root / "sys/fs/cgroup").iterdir():
        path.unlink()
    assert (group.memory(), group.cpus(), group.throttling()) == (None, None, None)


def test_this_machine_is_read():
    """Whatever this machine has, reading it works."""
    group = Cgroup()
    memory = group.memory()
    assert memory is None or memory.used >= 0
    assert group.cpus() is None or group.cpus() > 0
