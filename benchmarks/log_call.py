"""What a log call costs the training thread: against the bare write of the same record, and beside other trackers.

    python -m benchmarks.log_call
    python -m benchmarks.log_call --quick

Against the bare write, the two take turns call by call; beside the peers, ours and a peer take turns block by
block, each in a process of its own. The worst round counts for ours, the best for a peer.
"""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from stepscope import TrainingRunLogger
from stepscope.clock import utc_now
from stepscope.records import Step

from .peer_process import values_of
from .peers import PINNED, SHOWN, Peer, Unavailable
from .report import file_system, fresh_folder, median_us, options, p99_us, table, verdict

BAR = 3.0
PAUSE_S = 1 / 200
SETTLE_S = 0.5  # what the queue of the one before still does is no cost of the next


class Bare:
    """The least that keeps a record through the death of the process: encode it, hand it to the kernel."""

    def __init__(self, path: Path):
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._end = 0
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: Step) -> None:
        """One positioned write."""
        self._end += os.pwrite(self._fd, self._encode(record), self._end)


def turns(folder: Path, calls: int, pause: float) -> tuple[list[int], list[int]]:
    """Nanoseconds of `log_step` and of the bare write, in turn, each first every other time."""
    ours, bare = [], []
    other = Bare(folder / "bare.json")
    clock = time.perf_counter_ns
    with TrainingRunLogger(folder / "training.json", verbosity=-2) as run:
        for step in range(calls):
            values: dict[str, Any] = values_of("step", step)
            arguments, record = [step, *values.values()], Step(time=utc_now(), step=step, **values)
            time.sleep(pause) if pause else None
            if step % 2:
                begin = clock()
                run.log_step(*arguments)
                middle = clock()
                other.write(record)
                end = clock()
                ours.append(middle - begin)
                bare.append(end - middle)
            else:
                begin = clock()
                other.write(record)
                middle = clock()
                run.log_step(*arguments)
                end = clock()
                bare.append(middle - begin)
                ours.append(end - middle)
    return ours, bare


def against_bare(rounds: int, calls: int, pause: float, pace: str) -> list[list[str]]:
    """A row for each round and one for the worst."""
    rows, worst = [], 0.0
    for number in range(1, rounds + 1):
        ours, bare = turns(fresh_folder("bare"), calls, pause)
        ratio = median_us(ours) / median_us(bare)
        worst = max(worst, ratio)
        figures = [f"{median_us(ours):.1f}", f"{median_us(bare):.1f}", f"{p99_us(ours):.1f}", f"{p99_us(bare):.1f}"]
        rows.append([pace, f"{number}", *figures, f"{ratio:.2f}×", "", ""])
    rows.append([pace, "worst", "", "", "", "", f"{worst:.2f}×", f"≤ {BAR:.0f}×", verdict(worst <= BAR)])
    return rows


def beside_peers(peers: list[Peer], ours: Peer, payload: str, rounds: int, calls: int, pause: float) -> list[list[str]]:
    """A row for ours in its worst round, and for each peer in its best."""
    medians: dict[str, list[float]] = {peer.name: [] for peer in [ours, *peers]}
    p99s: dict[str, list[float]] = {peer.name: [] for peer in [ours, *peers]}
    for _ in range(rounds):
        mine: list[int] = []
        for peer in peers:
            mine += block(ours, payload, calls, pause)
            found = block(peer, payload, calls, pause)
            medians[peer.name].append(median_us(found))
            p99s[peer.name].append(p99_us(found))
        medians[ours.name].append(median_us(mine))
        p99s[ours.name].append(p99_us(mine))
    worst, worst_p99 = max(medians[ours.name]), max(p99s[ours.name])
    rows = [[f"stepscope, worst of {rounds}", f"{worst:.1f}", f"{worst_p99:.1f}", "", "", ""]]
    for peer in sorted(peers, key=lambda peer: min(medians[peer.name])):
        best, best_p99 = min(medians[peer.name]), min(p99s[peer.name])
        name = f"{SHOWN.get(peer.name, peer.name)} {PINNED[peer.name]}"
        rows.append(
            [name, f"{best:.1f}", f"{best_p99:.1f}", f"{best / worst:.1f}×", "ours is faster", verdict(worst < best)]
        )
    return rows


def block(peer: Peer, payload: str, calls: int, pause: float) -> list[int]:
    """One peer's turn."""
    found = peer.times(payload, calls, pause)
    time.sleep(SETTLE_S)
    return found


def started(stack: ExitStack, folder: Path) -> tuple[list[Peer], list[str]]:
    """The peers that run here, and a line for each that does not."""
    peers, missing = [], []
    for name in PINNED:
        try:
            peers.append(stack.enter_context(Peer(name, folder)))
        except Unavailable as error:
            missing.append(f"{name} {PINNED[name]} is not measured: {error}")
    return peers, missing


def main() -> None:
    """Print the tables."""
    asked = options(__doc__)
    calls, paced = (300, 60) if asked.quick else (4000, 600)
    rounds = 1 if asked.quick else asked.rounds
    print(f"`log_step` against the bare encode + pwrite of the same record, µs; files on {file_system(Path.cwd())}\n")
    head = ["pace", "round", "log_step", "bare", "log_step p99", "bare p99", "ratio", "bar", ""]
    print(table(head, against_bare(rounds, calls * 3, 0, "full speed") + against_bare(rounds, paced, PAUSE_S, "200/s")))
    with ExitStack() as stack:
        folder = fresh_folder("peers")
        ours = stack.enter_context(Peer("stepscope", folder))
        peers, missing = started(stack, folder)
        for payload, what in (("step", "a step's 7 numbers"), ("scalars", "10 scalars, `run.log(dict)`")):
            for pause, pace, count in ((0.0, "full speed", calls // 2), (PAUSE_S, "200/s", paced // 3)):
                rows = beside_peers(peers, ours, payload, rounds, count, pause)
                print(f"\n{what}, {pace}, µs a call on the caller's thread; peers: best of {rounds}\n")
                print(table(["tracker", "median", "p99", "to ours", "bar", ""], rows), flush=True)
        print("\n".join(["", *missing] if missing else []))


if __name__ == "__main__":
    main()
