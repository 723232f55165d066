"""Say what a file is: a run file, the log of a speedrun, or neither.

data = recognize(Path("logs/0b5a.txt").read_bytes(), Path("logs/0b5a.txt"))      # as the bytes of a run file
"""

import re
from pathlib import Path

from ..errors import RunFileError, show
from .blocks import next_record
from .careful import BLANK
from .speedrun_log import from_speedrun_log, is_speedrun_log

BOM = b"\xef\xbb\xbf"
# A run file that was cut off in its first record, or holds none.
_BEGUN = re.compile(rb'\[?\s*(\]?|\{\s*("|"l|"lo|"log|"log"\s*)?)')


def recognize(data: bytes, path: Path) -> bytes:
    """The bytes of a run file: the file's own, or what a log of another program says in that form."""
    found = next_record(data, 0) is not None
    if found and data[:64].removeprefix(BOM).lstrip(BLANK).startswith((b"[", b"{")):
        return data
    if is_speedrun_log(data):
        return from_speedrun_log(data, path)
    text = data.removeprefix(BOM).strip(BLANK)
    if found or _BEGUN.fullmatch(text):
        return data
    raise RunFileError(
        f"{path} is no run file: it begins with {show(text[:24].decode('utf-8', 'replace'))}; "
        "give the JSON file that a run wrote, or the log of a speedrun"
    )
