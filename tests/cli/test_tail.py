"""`stepscope tail`: a live run is a process that writes, told by the test when."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from stepscope.cli.tail import HISTORY
from stepscope.clock import utc_now
from stepscope.codec import encode
from stepscope.records import End, Header

from .conftest import at, step, whole_run


def append(path, *records):
    """Append records as the writer does: one write over the tail each."""
    with path.open("r+b") as file:
        for record in records:
            file.seek(-3, os.SEEK_END)
            file.write(b",\n" + encode(record) + b"\n]\n")
            file.flush()


@pytest.fixture
def live(write):
    """A run file of a writer that lives: this process."""
    return write([Header(time=utc_now(), id="x", host=socket.gethostname(), pid=os.getpid()), step(1), step(2)])


@pytest.fixture
def follow():
    """Starts `tail` as a process; it is ended after the test."""
    started = []

    def start(*words):
        command = [sys.executable, "-u", "-m", "stepscope", "tail", *map(str, words)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_prints_the_last_lines(call, write):
    """--no-follow prints the last lines of the run and is done, with exit code 0 even for a failed run."""
    path = write([*whole_run(), End(time=at(20), status="failed")])
    done = call("tail", path, "-n", "4", "--no-follow")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(">> eval ")
    assert lines[1] == "!! warning: data is late; add workers"


def test_lines_have_the_history_behind_them(call, write):
    """The trend and the spike of the first line that is shown come from the lines before it."""
    path = write([*(step(n) for n in range(1, 30)), step(30, loss=1.0, norm=50.0)])
    (line,) = call("tail", path, "-n", "1", "--no-follow").stdout.splitlines()
    assert line.startswith(":: step      30")
    assert "\\ loss 1.0000 | norm !50.0" in line


def test_a_long_run_is_not_read_from_its_first_step(call, write):
    """The last lines of a large file are the same as if all of it had been read, the progress included."""
    path = write([Header(time=at(0), id="x", total_steps=100_000), *(step(n, loss=1.0 / n) for n in range(1, 50_000))])
    assert path.stat().st_size > HISTORY + 1_000_000
    lines = call("tail", path, "-n", "2", "--no-follow").stdout.splitlines()
    assert [line[:24] for line in lines] == [":: step   49998 [ 50.0%]", ":: step   49999 [ 50.0%]"]
    assert len(call("tail", path, "-n", "60000", "--no-follow", "--json").stdout.splitlines()) == 50_000


def test_follows_until_the_run_finishes(follow, live):
    """Lines come as they are written; the end ends it with exit code 0."""
    process = follow(live, "-n", "1")
    assert "step       2" in process.stdout.readline()
    append(live, step(3))
    assert "step       3" in process.stdout.readline()
    append(live, step(4), End(time=at(4), status="finished"))
    assert "step       4" in process.stdout.readline()
    assert process.wait(10) == 0


def test_a_failed_run_is_a_no(follow, live):
    """A run that ends in failure ends the tail with exit code 1."""
    process = follow(live)
    append(live, End(time=at(4), status="failed", reason="OSError"))
    assert process.wait(10) == 1
    assert "OSError" in process.stdout.read()


def test_a_run_that_died_without_a_word_is_a_no(follow, write):
    """When the writer is gone, the tail says so and ends with exit code 1 instead of waiting for ever."""
    writer = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    header = Header(time=utc_now(), id="x", host=socket.gethostname(), pid=writer.pid)
    process = follow(write([header, step(1)]), "--json")
    process.stdout.readline()
    writer.kill()
    writer.wait()
    assert process.wait(10) == 1
    assert "cut off" in process.stderr.read()


def test_json_is_a_record_a_line(follow, live):
    """With --json each line is a record, as the file has it."""
    process = follow(live, "--json", "-n", "2")
    assert [json.loads(process.stdout.readline())["step"] for _ in range(2)] == [1, 2]
    append(live, step(3, loss=float("nan")))
    assert json.loads(process.stdout.readline())["loss"] == "NaN"


def test_ctrl_c_ends_it_quietly(follow, live):
    """Ctrl-C is exit code 130, without a traceback."""
    process = follow(live, "-n", "1")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert process.stderr.read() == ""


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["lines", "json"])
def test_a_reader_that_leaves_ends_it(follow, live, form):
    """`tail | head` ends with the next line, not with the run."""
    process = follow(live, "-n", "1", *form)
    process.stdout.readline()
    process.stdout.close()
    writing = threading.Event()

    def write_on():
        number = 3
        while not writing.wait(0.05):
            append(live, step(number))
            number += 1

    thread = threading.Thread(target=write_on)
    thread.start()
    try:
        assert process.wait(10) == 141
    finally:
        writing.set()
        thread.join()
    process.stdout = None
    assert process.stderr.read() == ""


def test_no_terminal_codes_into_a_pipe(follow, live):
    """What goes into a pipe is plain text."""
    append(live, step(3, norm=float("nan")), End(time=at(4)))
    process = follow(live)
    assert "\x1b" not in process.stdout.read()
