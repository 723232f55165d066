"""Say what a file is: a run file, the log of a speedrun, or neither.

    data = recognize(Path("logs/0b5a.txt"))      # the bytes of a run file

A file of another kind is refused; one that a run has just begun, or that lost its beginning, is not.
"""

import re
from pathlib import Path

from ..errors import RunFileError, show
from .blocks import FIRST, first_record
from .careful import BLANK
from .on_disk import Bytes, open_bytes
from .speedrun_log import from_speedrun_log, is_speedrun_log

BOM = b"\xef\xbb\xbf"
HEAD = 4096
# A run file that was cut off in its first record, or holds none.
_BEGUN = re.compile(rb'\[?\s*(\]?|\{\s*("|"l|"lo|"log|"log"\s*)?)')


def recognize(path: Path) -> Bytes:
    """The bytes of a run file: the file's own, or what a log of another program says in that form."""
    data = open_bytes(path)
    head = data[:HEAD]
    if FIRST.match(head):
        return data
    if not _is_binary(head):
        text = data[: len(data)]
        if is_speedrun_log(text):
            return from_speedrun_log(text, path)
        if first_record(text) is not None or _BEGUN.fullmatch(text.removeprefix(BOM).strip(BLANK)):
            return data
    raise RunFileError(
        f"{path} is no run file: it begins with {show(head[:24].decode('utf-8', 'replace'))}; "
        "give the JSON file that a run wrote, or the log of a speedrun"
    )


def _is_binary(head: bytes) -> bool:
    """Whether a file is of another kind; zeros alone are what a loss of power leaves."""
    return b"\0" in head and bool(head.strip(b"\0")) and first_record(head) is None
