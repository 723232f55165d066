"""What `stepscope run` costs a plain loop of 10 ms a step on a CPU, beside the same loop watched by TraceML.

    python -m benchmarks.run_overhead
    python -m benchmarks.run_overhead --quick

The loop runs bare, watched by us and watched by TraceML, each in a process of its own, and they take turns block by
block, so that a neighbour that comes and goes meets all alike. TraceML does not see a plain loop by itself: its loop
has the two lines that it needs. It is installed beside our own packages, so that all have the same torch.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from types import TracebackType

from .paired import HEAD, ratio_row, ratios
from .peers import START_S, Unavailable, install
from .report import ROOT, fresh_folder, options, table

BAR = 1.01
STEP_MS = 10.0
WIDTH = 512  # of the model that tells how wide one of 10 ms is
TRACEML = "traceml-ai==0.5.0"
LOOP = str(Path(__file__).with_name("run_overhead_loop.py"))
BARE = [sys.executable, LOOP]
STEPSCOPE = [sys.executable, "-m", "stepscope", "run", "--output-dir", "output", LOOP]


class Training:
    """A loop in its process, idle until it is asked for a block."""

    def __init__(self, folder: Path, command: list[str], width: int):
        self.folder = folder
        folder.mkdir()
        pipes = [self.folder / "asked", self.folder / "answered"]
        for pipe in pipes:
            os.mkfifo(pipe)
        self._output = open(self.folder / "output.txt", "w")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [*command, str(width), *map(str, pipes)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self._asked, self._answered = (os.open(pipe, os.O_RDWR) for pipe in pipes)  # read and write: never blocks

    def seconds(self, steps: int) -> float:
        """A block's."""
        os.write(self._asked, f"{steps}\n".encode())
        answer, waited = b"", 0.0
        os.set_blocking(self._answered, False)
        while not answer.endswith(b"\n"):
            try:
                answer += os.read(self._answered, 64)
            except BlockingIOError as error:
                if self._process.poll() is not None or waited > START_S:
                    raise Unavailable(self._last_words()) from error
                self._wait()
                waited += 0.01
        return float(answer)

    def _wait(self) -> None:
        try:
            self._process.wait(0.01)
        except subprocess.TimeoutExpired:
            return

    def _last_words(self) -> str:
        said = (self.folder / "output.txt").read_text(errors="replace").strip().splitlines()
        return f"its process ended: {said[-1] if said else 'without a word'}"

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._asked)
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        os.close(self._answered)
        self._output.close()


def traceml() -> list[str]:
    """Its command, in an environment of its own that also finds our packages, torch among them."""
    folder = ROOT / ".venv-peers" / TRACEML.replace("==", "-")
    if not (folder / "installed").exists():
        print(f"installing {TRACEML} into {folder.relative_to(ROOT)}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        install(folder / "bin" / "python", TRACEML)
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (folder / "installed").touch()
    return [str(folder / "bin" / "traceml"), "run", LOOP, "--args"]


def width_for(folder: Path) -> int:
    """How wide a model takes 10 ms a step here: its cost goes with the square."""
    with Training(folder / "probe", BARE, WIDTH) as probe:
        probe.seconds(20)
        took = min(probe.seconds(20) for _ in range(3)) / 20
    return round(WIDTH * (STEP_MS / 1000 / took) ** 0.5 / 16) * 16


def measured(folder: Path, width: int, other: list[str], starts: int, pairs: int, steps: int) -> list[float]:
    """Ratios of blocks; both loops are started anew several times, since no two processes are equally fast."""
    found = []
    for start in range(starts):
        with (
            Training(folder / f"bare{start}", BARE, width) as bare,
            Training(folder / f"{start}", other, width) as mine,
        ):
            for training in (bare, mine):
                training.seconds(60)  # the first steps find the modules, and open the run file
            found += ratios(lambda: bare.seconds(steps), lambda: mine.seconds(steps), pairs)
    return found


def main() -> None:
    """Print the table."""
    asked = options(__doc__)
    starts, pairs, steps = (2, 4, 20) if asked.quick else (5 * asked.rounds, 20, 25)
    folder = fresh_folder("run_overhead")
    width = width_for(folder)
    of = {name: fresh_folder(f"run_overhead/{name}") for name in ("stepscope", "traceml")}
    print(f"a plain loop of {STEP_MS:.0f} ms a step, bare and watched in blocks of {steps} steps that take turns\n")
    rows = [ratio_row("`stepscope run`", measured(of["stepscope"], width, STEPSCOPE, starts, pairs, steps), BAR)]
    missing = ""
    try:
        rows.append(
            ratio_row(TRACEML.replace("==", " "), measured(of["traceml"], width, traceml(), starts, pairs, steps))
        )
    except Unavailable as error:
        missing = f"\n{TRACEML} is not measured: {error}"
    print(table(HEAD, rows) + missing)


if __name__ == "__main__":
    main()
