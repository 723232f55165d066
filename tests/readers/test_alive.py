"""Whether the writer of a file still lives, asked of real processes."""

import os
import socket
import subprocess
import sys

from stepscope.clock import utc_now
from stepscope.readers.alive import writer_alive
from stepscope.records import Header


def here(pid: int, time: str | None = None) -> Header:
    """The header of a process of this machine."""
    return Header(time=time or utc_now(), id="x", host=socket.gethostname(), pid=pid)


def test_a_process_that_lives_is_alive():
    """However long it is silent."""
    assert writer_alive(here(os.getpid()), idle_s=1e9, step_ms=None) is True


def test_a_process_that_is_gone_is_not():
    """However fresh its file."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert writer_alive(here(gone.pid), idle_s=0.0, step_ms=None) is False


def test_a_zombie_is_not():
    """A process that has ended counts as gone before its parent has asked after it."""
    child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True)"], stdout=subprocess.PIPE)
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
    try:
        assert writer_alive(here(child.pid), idle_s=0.0, step_ms=None) is False
    finally:
        child.wait()
        child.stdout.close()


def test_a_later_process_with_the_same_number_is_not():
    """A process that began after the header was written is another one."""
    assert writer_alive(here(os.getpid(), "2020-01-01T00:00:00.000000"), idle_s=0.0, step_ms=None) is False


def test_another_machine_is_judged_by_its_silence():
    """An hour, or twenty steps if these take longer."""
    header = Header(id="x", host="elsewhere", pid=os.getpid())
    assert writer_alive(header, idle_s=3599, step_ms=None) is True
    assert writer_alive(header, idle_s=3601, step_ms=None) is False
    assert writer_alive(header, idle_s=3601, step_ms=200_000) is True


def test_without_a_header_only_a_fresh_file_tells():
    """A foreign file that is silent may have ended well: nothing is known."""
    assert writer_alive(None, idle_s=5.0, step_ms=None) is True
    assert writer_alive(None, idle_s=1e5, step_ms=None) is None
    assert writer_alive(None, idle_s=None, step_ms=None) is None
