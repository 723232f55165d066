"""What a run file holds after its writer was killed: nothing that was acknowledged may be missing.

    python -m benchmarks.kills                 # 300 deaths: some three minutes
    python -m benchmarks.kills --seed 7

A death is a process that logs records of 100 B to 200 kB, at full speed or at 200/s, and is sent SIGKILL or SIGTERM
at a random moment, or, every other time, about when its next write is due. It names each acknowledged record through
a pipe, with the time of its call, by which the deaths within 1 ms of a write are counted.
"""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path
from typing import Any, NamedTuple

from stepscope import TrainingRunLogger, read_run
from stepscope.records import Message, Metrics, Step

from .report import ROOT, fresh_folder, options, table, verdict
from .victim import expected

DEATHS, NEAR_BAR, BURST = 300, 100, 5_000
NEAR_NS = 1_000_000
PAUSE_S = 1 / 200
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
LOGGED = (Step, Metrics, Message)


class Plan(NamedTuple):
    """How one process is to die."""

    seed: int
    signal: int
    pause: float  # between records; 0 is full speed
    aimed: bool  # when a write is due, instead of any time
    after_s: float  # of logging
    jitter_s: float  # from the moment that it aims at


class Death(NamedTuple):
    """What was seen of one process, and what its file holds."""

    plan: Plan
    acknowledged: int
    near: bool  # the signal was sent within 1 ms of a write
    lost: tuple[int, ...]  # acknowledged records that the file does not hold as they were logged
    torn: bool  # not plain JSON as the dead process left it
    unreadable: str  # why `read_run` could not read it; empty where it could
    wrong: str  # anything else that should not be: the exit status, the missing `end`, a resume that fails


def plans(count: int, seed: int) -> Iterator[Plan]:
    """Signals, paces and aims in turn; moments at random."""
    random_ = random.Random(seed)
    ways = cycle(product(SIGNALS, (0.0, PAUSE_S), (True, False)))
    for number, (signal_, pause, aimed) in zip(range(count), ways, strict=False):
        after, jitter = random_.uniform(0.0, 0.25), random_.uniform(-0.001, 0.001)
        yield Plan(seed * 10_000 + number, signal_, pause, aimed, after, jitter)


def die(plan: Plan, path: Path) -> Death:
    """Start a process, kill it as planned, and look at what it left."""
    command = [sys.executable, "-m", "benchmarks.victim", str(path), "--seed", str(plan.seed)]
    command += ["--pause", str(plan.pause)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, bufsize=0) as process:
        said, sent = _watch_and_kill(process, plan)
    calls = [tuple(map(int, line.split())) for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    return examine(path, plan, len(calls), near_a_write(calls, sent), process.returncode)


def _watch_and_kill(process: "subprocess.Popen[bytes]", plan: Plan) -> tuple[bytes, int]:
    """All acknowledgements, and when the signal was sent."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    said = os.read(pipe, 1 << 16)
    due = time.monotonic() + plan.after_s
    while (left := due - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            said += os.read(pipe, 1 << 16)
    if plan.aimed:  # behind the next acknowledgement by about the time to the next write
        said += os.read(pipe, 1 << 16)
        time.sleep(max(0.0, plan.pause + plan.jitter_s))
    sent = time.monotonic_ns()
    process.send_signal(plan.signal)
    while more := os.read(pipe, 1 << 16):
        said += more
    return said, sent


def near_a_write(calls: list[tuple[int, ...]], sent: int) -> bool:
    """Whether a signal was sent within 1 ms of a call, each given as its number, begin and return."""
    return any(began - NEAR_NS <= sent <= returned + NEAR_NS for _, began, returned in calls)


def examine(path: Path, plan: Plan, acknowledged: int, near: bool, status: int) -> Death:
    """Compare the file with what was acknowledged, then resume it."""
    wrong = "" if status == -plan.signal else f"exit status {status} after signal {plan.signal}"
    torn = not _is_json(path)
    try:
        run = read_run(path)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is measured
        why = f"{type(error).__name__}: {error}"
        return Death(plan, acknowledged, near, tuple(range(acknowledged)), torn, why, wrong)
    found = {record.step: _content(record) for record in run.records() if isinstance(record, LOGGED)}
    lost = tuple(n for n in range(acknowledged) if found.get(n) != expected(plan.seed, n))
    if plan.signal == signal.SIGTERM and (run.end is None or run.end.status != "stopped"):
        wrong = wrong or "SIGTERM left no `end` record"
    return Death(plan, acknowledged, near, lost, torn, "", wrong or _resumed(path, len(run.records())))


def _content(record: Step | Metrics | Message) -> tuple[str, Any]:
    """What `expected` says of a record."""
    if isinstance(record, Step):
        numbers = (record.epoch, record.step_tokens, record.duration_ms, record.norm, record.loss, record.lr)
        return "step", numbers
    return record.kind, record.values if isinstance(record, Metrics) else record.message


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True


def _resumed(path: Path, records: int) -> str:
    """Why the file could not be continued; empty where it could, and holds all that it held before."""
    try:
        with TrainingRunLogger(path, verbosity=-2, resume=True) as run:
            run.message("resumed", step=0)
        now = len(json.loads(path.read_bytes()))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is measured
        return f"resume: {type(error).__name__}: {error}"
    return "" if now == records + 3 else f"resume: {records} records became {now}, not {records + 3}"


def burst(folder: Path, count: int = BURST) -> int:
    """How many of `count` steps can be read after a burst of them and SIGKILL."""
    path = folder / "burst.json"
    command = [sys.executable, "-m", "benchmarks.victim", str(path), "--seed", "0", "--burst", str(count)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    return len({step.step for step in read_run(path).steps} & set(range(count)))


def deaths(count: int, seed: int, folder: Path) -> Iterator[Death]:
    """Several deaths; the file of one is kept where something is wrong with it."""
    for number, plan in enumerate(plans(count, seed)):
        path = folder / f"death-{number}.json"
        death = die(plan, path)
        if not (death.lost or death.unreadable or death.wrong):
            path.unlink()
        yield death


def main() -> None:
    """Print the table."""
    asked = options(__doc__)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    folder = fresh_folder("kills")
    found = list(deaths(16 if asked.quick else DEATHS, seed, folder))
    print(f"seed {seed}\n")
    print(
        table(["deaths", "count", "near a write", "acknowledged", "lost", "torn", "unreadable", "wrong"], _rows(found))
    )
    print("\n" + table(["what", "found", "bar", ""], _bars(found, burst(folder))))
    for death in found:
        if death.lost or death.unreadable or death.wrong:
            print(f"\n{death.plan}: lost {death.lost[:5]} {death.unreadable} {death.wrong}")


def _rows(found: list[Death]) -> Iterator[list[str]]:
    for signal_, pause in product(SIGNALS, (0.0, PAUSE_S)):
        some = [death for death in found if (death.plan.signal, death.plan.pause) == (signal_, pause)]
        yield _row(f"{signal.Signals(signal_).name}, {'200/s' if pause else 'full speed'}", some)
    yield _row("all", found)


def _row(name: str, some: list[Death]) -> list[str]:
    counts = (
        len(some),
        sum(death.near for death in some),
        sum(death.acknowledged for death in some),
        sum(len(death.lost) for death in some),
        sum(death.torn for death in some),
        sum(bool(death.unreadable) for death in some),
        sum(bool(death.wrong) for death in some),
    )
    return [name, *map(str, counts)]


def _bars(found: list[Death], read_back: int) -> Iterator[list[str]]:
    near, lost = sum(death.near for death in found), sum(len(death.lost) for death in found)
    unreadable, wrong = sum(bool(d.unreadable) for d in found), sum(bool(d.wrong) for d in found)
    least = NEAR_BAR * len(found) // DEATHS
    yield ["deaths within 1 ms of a write", f"{near}", f"≥ {least}", verdict(near >= least)]
    yield ["acknowledged records lost", f"{lost}", "0", verdict(lost == 0)]
    yield ["files that cannot be read", f"{unreadable}", "0", verdict(unreadable == 0)]
    yield ["files that cannot be resumed, and other faults", f"{wrong}", "0", verdict(wrong == 0)]
    yield [f"of a burst of {BURST}, then SIGKILL, read back", f"{read_back}", f"{BURST}", verdict(read_back == BURST)]


if __name__ == "__main__":
    main()
