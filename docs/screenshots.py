"""Take the pictures of the terminal that the documentation shows: real commands, on a real terminal.

python docs/screenshots.py        # writes docs/images/*.svg; takes as long as the demo
"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parent
COLUMNS = 104
BEGIN, END = 12, 34  # lines of the demo's beginning, and of its end: the newest epoch, and the card


def main() -> None:
    """The console of a run, and what the commands say of it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(DOCS.parent / "examples", Path(folder) / "examples")
        demo = terminal([sys.executable, "examples/demo.py", "--slow-data"], folder)
        stepscope = [sys.executable, "-m", "stepscope"]
        show = terminal([*stepscope, "show", "output/demo"], folder)
    lines = [line for line in demo if line.strip()]
    picture(
        "console.svg",
        [
            "$ make demo ARGS=--slow-data",
            *lines[:BEGIN],
            "…",
            *lines[-END:],
            "",
            "$ stepscope show output/demo",
            *show[1:],
        ],
    )


def terminal(command: list[str], folder: str) -> list[str]:
    """The lines that a command leaves on a terminal, with their colours."""
    main_end, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(command, stdout=side, stderr=side, cwd=folder, env=environment)
    os.close(side)
    out = bytearray()
    while True:
        try:
            data = os.read(main_end, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        out += data
    os.close(main_end)
    if process.wait():
        sys.exit(f"{command} failed:\n{out.decode()}")
    # a waiting line is taken back by what follows it
    return [line.split("\r\x1b[2K")[-1].rstrip("\r") for line in out.decode().split("\n")]


def picture(name: str, lines: list[str]) -> None:
    """Write lines of a terminal as a picture."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    for line in lines:
        console.print(Text.from_ansi(line), overflow="ignore", no_wrap=True)
    path = DOCS / "images" / name
    path.parent.mkdir(exist_ok=True)
    svg = console.export_svg(title="stepscope")
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))  # nothing is loaded from elsewhere
    print("written:", path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
