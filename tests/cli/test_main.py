"""What all commands share: help, version, exit codes, stdout for the answer alone, and what they import."""

import json
import os
import pty
import re
import subprocess
import sys
import time

import pytest

from .conftest import whole_run

COMMANDS = [
    "list",
    "show",
    "doctor",
    "compare",
    "run",
    "peaks",
    "tail",
    "verify",
    "repair",
    "export",
    "sync",
    "completion",
]
HEAVY = {"torch", "numpy", "pandas", "pyarrow", "wandb", "aim", "tensorboard", "rich", "yaml"}


def on_a_terminal(*words: object, width: int = 80, **env: str) -> str:
    """What a command prints on a terminal of a width."""
    master, slave = pty.openpty()
    settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width), **env}
    settings = {name: value for name, value in settings.items() if value}
    command = [sys.executable, "-m", "stepscope", *map(str, words)]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=settings)
    os.close(slave)
    said = b""
    try:
        while data := os.read(master, 65536):
            said += data
    except OSError:  # the terminal is closed when the process has ended
        pass
    os.close(master)
    process.wait(30)
    return said.decode().replace("\r\n", "\n")


def test_version(process):
    """--version prints name and version."""
    import stepscope

    done = process("--version")
    assert (done.returncode, done.stdout) == (0, f"stepscope {stepscope.__version__}\n")


def test_help_names_every_command(process):
    """The commands stand in the help, each with a line that is not cut."""
    done = process("--help")
    assert done.returncode == 0
    listed = re.findall(r"^  (\w+)  +[A-Z].*\.$", done.stdout.partition("Commands:")[2], re.MULTILINE)
    assert listed == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_exit_codes(call, command):
    """Each command's help shows how it is called, what its exit code means, and --json."""
    text = call(command, "--help").stdout
    assert f"\n    stepscope {command} " in text.partition("Example:")[2]
    assert "Exit code: 0" in text
    assert "--json" in text


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["show", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy(words):
    """Asking for help loads neither torch nor anything of the backends, nor Rich."""
    code = f"""
import sys
sys.argv = ["stepscope", *{words!r}]
from stepscope.cli.main import main
try:
    main()
except SystemExit:
    print("LOADED", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.partition("LOADED")[2].split()) & HEAVY == set()


@pytest.mark.parametrize("command", ["list", "show", "verify"])
def test_commands_need_no_torch_and_no_numpy(write, command):
    """Reading a run works on a machine where importing torch or numpy fails."""
    path = write(whole_run())
    target = path.parent if command == "list" else path
    code = f"""
import sys
for name in {sorted(HEAVY - {"rich"})!r}:
    sys.modules[name] = None
sys.argv = ["stepscope", {command!r}, {str(target)!r}]
from stepscope.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tidy-otter" in done.stdout or "sound" in done.stdout


@pytest.mark.parametrize("command", ["list", "show", "verify", "repair", "export"])
def test_json_is_all_there_is_on_stdout(process, write, command, tmp_path):
    """With --json, stdout is one document, also for a folder, whose run is named on stderr."""
    path = write(whole_run())
    more = ["--to", "csv", "-o", tmp_path / "out.csv"] if command == "export" else []
    done = process(command, path.parent, *more, "--json")
    json.loads(done.stdout)
    assert done.returncode == 0
    assert (str(path) in done.stderr) == (command != "list")


@pytest.mark.parametrize(
    "words", [["lst"], ["show", "--no-such"], ["export", "x", "--to", "xls"], ["tail", "-n", "-1"]], ids=" ".join
)
def test_misuse_is_exit_code_2(process, words):
    """A wrong word is said on stderr; stdout stays empty."""
    done = process(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


@pytest.mark.parametrize("command", ["show", "tail", "verify", "repair"])
def test_an_error_is_said_once(process, tmp_path, command):
    """A file that is not there is one line on stderr that names it, without a traceback."""
    done = process(command, tmp_path / "none.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"stepscope: [^\n]*none\.json[^\n]*\n", done.stderr)


def test_a_crash_is_not_taken_for_a_no(monkeypatch, capsys):
    """A fault of the program itself is exit code 70, with the traceback that a report needs."""
    from stepscope.cli import main

    monkeypatch.setattr(main, "app", lambda: 1 / 0)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_reader_that_leaves_ends_it_quietly(write, form):
    """`stepscope export | head -1` prints one line and nothing on stderr; the exit code is SIGPIPE's."""
    path = write(whole_run(steps=20_000))
    command = [sys.executable, "-m", "stepscope", "export", str(path), "--to", form]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(30) == 141


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_breaks_nothing(process, write, encoding):
    """What the locale cannot show is escaped; JSON stays JSON."""
    path = write(whole_run(name="実験 → 🚀"))
    env = os.environ | {"PYTHONIOENCODING": encoding}
    assert "finished" in process("show", path, env=env, encoding=encoding).stdout
    document = json.loads(process("show", path, "--json", env=env, encoding=encoding).stdout)
    assert document["summary"]["name"] == "実験 → 🚀"


def test_names_that_are_no_unicode_break_nothing(process, write):
    """A lone surrogate in a name, which \\uXXXX carries, is shown as a replacement."""
    path = write(whole_run(name="odd \udcff name"))
    assert process("show", path).stdout.startswith("odd � name  finished")
    assert json.loads(process("show", path, "--json").stdout)["summary"]["name"] == "odd \udcff name"


def test_colour_on_a_terminal_alone(process, write):
    """A terminal gets colour, NO_COLOR and a pipe do not."""
    path = write(whole_run())
    assert "\x1b[32mfinished" in on_a_terminal("list", path.parent)
    for plain in (on_a_terminal("list", path.parent, NO_COLOR="1"), process("list", path.parent).stdout):
        assert "\x1b[3" not in plain
        assert "finished" in plain


@pytest.mark.parametrize("width", [40, 80, 140])
def test_nothing_is_wider_than_the_terminal(write, width):
    """Wide characters and long texts are folded, and the folded file name can still be put together."""
    from rich.cells import cell_len

    path = write(whole_run(name="実験-宽字符-🚀" * 9, argv=["train.py", "--config", "x" * 200]), "a/b/training.json")
    for words in (["list", path.parent], ["show", path]):
        said = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(*words, width=width))
        assert max(cell_len(line) for line in said.splitlines()) <= width
        first = "".join(line.split("  ")[0].strip() for line in said.splitlines()[1:])
        assert words[0] == "show" or str(path) in first


def test_help_is_quick(process):
    """Help comes within half a second of what the interpreter needs."""

    def took(*command: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    extra = min(took("-m", "stepscope", "--help") - took("-c", "pass") for _ in range(5))
    assert extra < 0.5
