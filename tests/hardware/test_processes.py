"""This process and its children."""

import multiprocessing
import os
import subprocess
import sys
import time

import psutil
import pytest

from stepscope.hardware.processes import RENEW_S, Family


@pytest.fixture
def workers():
    """Two children that wait, the second with a child of its own."""
    program = "import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)"
    program += "; print(c.pid, flush=True); input(); c.communicate(b'x')"
    first = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    second = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    grandchild = int(second.stdout.readline())
    yield [first.pid, second.pid, grandchild]
    second.communicate("x\n")
    first.communicate(b"x\n")


def test_children_and_their_children_are_found(workers):
    """The same processes as psutil finds by looking at all, without looking at all."""
    family = Family()
    use = family.read(now=0.0)
    assert set(family._children) >= set(workers)
    assert set(family._children) == {child.pid for child in psutil.Process().children(recursive=True)}
    assert use.children == len(family._children)
    assert use.memory == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert use.children_memory > 0


def test_without_the_kernels_lists_psutil_finds_them(workers, tmp_path):
    """Where /proc has no children file, or there is no /proc, all processes are looked at."""
    family = Family(root=tmp_path)
    family.read(now=0.0)
    assert set(family._children) >= set(workers)


def test_the_list_is_renewed_every_few_seconds(monkeypatch):
    """Between two renewals a reading asks for known processes alone."""
    family = Family()
    looks = []
    monkeypatch.setattr(family, "_listed", lambda: looks.append(1) or [])
    for now in [0.0, 1.0, 2.0, 3.0, 4.0, RENEW_S, RENEW_S + 1]:
        family.read(now)
    assert len(looks) == 2


def test_a_child_that_ends_is_left_out():
    """A worker that is gone counts no more, and takes nobody with it."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    family = Family()
    before = family.read(now=0.0)
    assert child.pid in family._children
    child.communicate(b"x\n")
    after = family.read(now=1.0)
    assert child.pid not in family._children
    assert after.children == before.children - 1
    assert after.memory > 0


def test_cpu_is_that_of_process_and_children_over_the_interval():
    """The first reading has no interval; the second has what all of them used by the processes' own count."""

    def used():
        own, children = psutil.Process().cpu_times(), psutil.Process().children(recursive=True)
        return own.user + own.system + sum(sum(child.cpu_times()[:2]) for child in children)

    busy = multiprocessing.get_context("spawn").Process(target=_spin, args=(0.3,))
    busy.start()
    family = Family()
    assert family.read(now=0.0).cpu_percent is None
    before = used()
    _spin(0.3)
    use = family.read(now=2.0)
    spent = used() - before
    busy.join()
    assert use.cpu_percent == pytest.approx(100 * spent / 2.0, abs=3)


def _spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_forked_child_counts_itself():
    """The reader that came along by a fork sees the child's own family."""
    family = Family()
    family.read(now=0.0)
    child = os.fork()
    if child == 0:
        use = family.read(now=100.0)
        os._exit(0 if use.memory > 0 and use.children == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
