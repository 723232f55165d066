"""The host: rates on a scripted clock, a container's limits in a scripted tree, and parts that fail."""

import os
from types import SimpleNamespace

import psutil
import pytest

from stepscope.hardware.system import SystemReader
from stepscope.records import fields

from .scripted_host import GIB, V1_CONTAINER, V2_CONTAINER, cpu_stat, write


class Time:
    """A clock that the test sets."""

    now = 50.0

    def __call__(self):
        return self.now


@pytest.fixture
def machine(monkeypatch):
    """64 GiB, 40 % in use, four cores and counters that the test moves on."""
    state = SimpleNamespace(percent=40.0, busy=0.0, idle=0.0, disk=(0, 0), lo=0, net=(0, 0))
    total = 64 * GIB
    ram = psutil.virtual_memory()

    def virtual_memory():
        available = int(total * (1 - state.percent / 100))
        return ram._replace(percent=state.percent, available=available, total=total)

    def cpu_times(percpu):
        assert percpu
        return [SimpleTimes(user=state.busy, idle=state.idle) for _ in range(4)]

    def net(pernic, nowrap):
        card = SimpleNamespace(bytes_recv=state.net[0], bytes_sent=state.net[1])
        return {"lo": SimpleNamespace(bytes_recv=state.lo, bytes_sent=state.lo), "eth0": card}

    disk = lambda nowrap: SimpleNamespace(read_bytes=state.disk[0], write_bytes=state.disk[1])  # noqa: E731
    for name, function in [
        ("virtual_memory", virtual_memory),
        ("cpu_times", cpu_times),
        ("net_io_counters", net),
        ("disk_io_counters", disk),
    ]:
        monkeypatch.setattr(psutil, name, function)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    return state


class SimpleTimes(tuple):
    """One core's times as psutil has them."""

    def __new__(cls, user, idle):
        times = super().__new__(cls, (user, idle))
        times.idle = idle
        return times


def test_rates_are_means_over_the_interval(machine, tmp_path):
    """3 of 4 seconds busy are 75 %; bytes are divided by the time that passed."""
    clock = Time()
    reader = SystemReader(tmp_path, clock)
    first = reader.read()
    assert (first.cpu_percent, first.disk_read, first.network_in) == (None, None, None)
    clock.now += 2
    machine.busy, machine.idle, machine.disk, machine.net, machine.lo = 3.0, 1.0, (10_000, 400), (600, 8_000), 10**9
    second = reader.read()
    assert second.cpu_percent == pytest.approx(75.0)
    assert (second.cpus, second.cpu_throttled) == (4.0, None)
    assert (second.disk_read, second.disk_write) == (5_000, 200)
    assert (second.network_in, second.network_out) == (300, 4_000)  # what goes to itself is no network


@pytest.mark.parametrize(("percent", "bottleneck"), [(40.0, False), (85.0, False), (85.1, True), (99.0, True)])
def test_memory_is_the_machines_where_nothing_limits_it(machine, tmp_path, percent, bottleneck):
    """The percentage, the same as a share, and whether it is above 85 %."""
    machine.percent = percent
    record = SystemReader(tmp_path).read()
    assert (record.ram_percent, record.memory_pressure) == (percent, percent / 100)
    assert record.bottleneck_memory is bottleneck
    assert (record.ram_total, record.ram_limit, record.ram_limit_percent) == (64 * GIB, None, None)
    assert record.ram_available == pytest.approx(64 * GIB * (1 - percent / 100), abs=1)


@pytest.mark.parametrize("tree", [V2_CONTAINER, V1_CONTAINER], ids=["v2", "v1"])
def test_a_containers_limit_is_the_memory(machine, tmp_path, tree):
    """4 of 8 GiB are 50 %, although the machine has 60 % of 64 GiB left."""
    record = SystemReader(write(tmp_path, tree)).read()
    assert (record.ram_percent, record.ram_limit_percent) == (50.0, 50.0)
    assert (record.ram_total, record.ram_limit, record.ram_available) == (8 * GIB, 8 * GIB, 4 * GIB)
    assert record.cpus == 2.0


def test_the_machine_counts_where_it_is_nearer_its_end(machine, tmp_path):
    """A container at half its limit on a machine that is nearly full."""
    machine.percent = 95.0
    record = SystemReader(write(tmp_path, V2_CONTAINER)).read()
    assert (record.ram_percent, record.ram_limit_percent) == (95.0, 50.0)
    assert record.ram_available == pytest.approx(0.05 * 64 * GIB, abs=1)
    assert record.bottleneck_memory


def test_a_limit_beyond_the_machine_is_none(machine, tmp_path):
    """What is larger than the machine limits nothing."""
    record = SystemReader(write(tmp_path, V2_CONTAINER | {"sys/fs/cgroup/memory.max": 65 * GIB})).read()
    assert (record.ram_limit, record.ram_percent, record.ram_total) == (None, 40.0, 64 * GIB)


def test_the_quota_is_the_cpu(machine, tmp_path):
    """1.8 CPU seconds in a second are 90 % of two CPUs, however idle the machine's cores are."""
    clock = Time()
    reader = SystemReader(write(tmp_path, V2_CONTAINER), clock)
    reader.read()
    clock.now += 1
    machine.busy, machine.idle = 0.45, 0.55
    write(tmp_path, {"sys/fs/cgroup/cpu.stat": cpu_stat(110, 14, usage_us=1_800_000)})
    record = reader.read()
    assert record.cpu_percent == pytest.approx(90.0)
    assert record.cpu_throttled == pytest.approx(0.4)
    clock.now += 1
    assert reader.read().cpu_throttled == 0.0


def test_only_the_cores_that_may_be_used_count(machine, monkeypatch, tmp_path):
    """A process that is bound to one core sees that core's load."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1}, raising=False)
    busy = [0.0, 0.0, 0.0, 0.0]
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [SimpleTimes(b, 10.0 - b) for b in busy])
    reader = SystemReader(tmp_path)
    reader.read()
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [SimpleTimes(b, 20.0 - b) for b in (0.0, 9.0, 0.0, 0.0)])
    record = reader.read()
    assert (record.cpus, record.cpu_percent) == (1.0, pytest.approx(90.0))


PARTS = {
    "virtual_memory": {"ram_percent", "ram_available", "ram_total", "memory_pressure", "bottleneck_memory"},
    "disk_io_counters": {"disk_read", "disk_write"},
    "net_io_counters": {"network_in", "network_out"},
    "cpu_times": {"cpu_percent", "cpus"},
    "Process": {"process_memory", "children_memory", "children", "process_cpu_percent"},
}


@pytest.mark.parametrize(
    "error", [OSError("gone"), RuntimeError(), psutil.AccessDenied(1), ValueError("odd")], ids=repr
)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_fails_is_left_out_with_its_reason(machine, monkeypatch, tmp_path, part, error):
    """The others are read all the same, and what comes back is read again."""
    clock = Time()
    reader = SystemReader(tmp_path, clock)
    reader.read()

    def fails(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(psutil, part, fails)
        clock.now += 10
        machine.busy, machine.idle = 1.0, 1.0
        record = reader.read()
        assert all(getattr(record, name) is None for name in PARTS[part])
        assert len(reader.missing) == 1
        others = set.union(*(names for other, names in PARTS.items() if other != part))
        assert all(getattr(record, name) is not None for name in others)
    reader.read()
    assert not reader.missing


def test_no_disks_is_a_reason(machine, monkeypatch, tmp_path):
    """psutil says None where no disk is counted."""
    monkeypatch.setattr(psutil, "disk_io_counters", lambda nowrap: None)
    reader = SystemReader(tmp_path)
    assert reader.read().disk_read is None
    assert reader.missing == {"disk_read": "no disk is counted here"}


def test_this_machine_is_read():
    """The real one: shares within their bounds, and psutil's own figures."""
    clock = Time()
    reader = SystemReader(clock=clock)
    reader.read()
    clock.now += 1
    record = reader.read()
    assert record.ram_percent >= psutil.virtual_memory().percent - 5
    assert 0 < record.ram_available < record.ram_total
    assert 0 < record.cpus <= (os.cpu_count() or 1)
    assert record.cpu_percent is None or record.cpu_percent >= 0
    limits = {"cpu_throttled", "ram_limit", "ram_limit_percent", "cpu_percent"}
    unknown = {name for name in fields("system") if getattr(record, name) is None}
    assert unknown <= limits | {"gpus"} | {name for part in PARTS.values() for name in part if name in reader.missing}
