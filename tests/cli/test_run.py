"""`stepscope run`: its own words, before the script's begin."""

import pytest

from stepscope.cli.run import parsed, prepared, without_us
from stepscope.errors import BadValue, UnknownSetting


def test_our_options_end_where_the_script_begins():
    """What stands behind the script is the script's, even where it looks like ours."""
    settings, words = parsed(["--output-dir", "out", "--name=x", "-v", "train.py", "--name", "y", "-v"])
    assert settings == {"output_dir": "out", "name": "x", "verbosity": 0}
    assert words == ["train.py", "--name", "y", "-v"]


@pytest.mark.parametrize("words", [["-m", "package", "--lr", "1"], ["--", "train.py"]])
def test_a_module_or_two_dashes_end_them_too(words):
    """As Python's own command line has it."""
    assert parsed(words)[1] == words[words[0] == "--" :]


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ([], BadValue, "no script is given"),
        (["-m"], BadValue, "no script is given"),
        (["--output-dir"], BadValue, "--output-dir needs a value"),
        (["--outputdir", "x", "train.py"], UnknownSetting, "did you mean '--output-dir'?"),
    ],
)
def test_misuse_is_said_with_the_remedy(words, error, said):
    """The usage stands beside it."""
    with pytest.raises(error) as raised:
        parsed(words)
    assert said in str(raised.value)
    assert "stepscope run [--output-dir DIR]" in str(raised.value)


def test_a_script_that_is_not_there(process, tmp_path):
    """One line and exit code 2, as Python's own."""
    done = process("run", "no_such.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "stepscope: no such script: no_such.py\n")
    with pytest.raises(BadValue):
        prepared(["no_such.py"])


def test_help_is_ours_only_before_a_script(process, tmp_path):
    """`stepscope run --help` explains; `stepscope run script.py --help` asks the script."""
    assert "Train any script as it is" in process("run", "--help").stdout
    (tmp_path / "says.py").write_text("import sys; print(sys.argv)")
    assert process("run", "says.py", "--help", cwd=tmp_path).stdout == "['says.py', '--help']\n"


def test_a_module_that_is_not_there(process, tmp_path):
    """Exit code 1, as Python's own."""
    done = process("run", "-m", "no_such_module", cwd=tmp_path)
    assert done.returncode == 1
    assert "No module named no_such_module" in done.stderr


def test_an_exception_that_is_its_own_cause_is_no_endless_loop():
    """Tracebacks are cleaned along chains that may be rings."""
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    without_us(first, set())


def test_a_traceback_keeps_what_the_script_called_of_ours():
    """Only what stands around the script's calls goes: its own use of stepscope stays."""
    import stepscope

    try:
        stepscope.TrainingRunLogger(nonsense=1)
    except stepscope.StepscopeError as error:
        without_us(error, set())
        files = []
        trace = error.__traceback__
        while trace is not None:
            files.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        assert files[0] == __file__
        assert any("stepscope" in file for file in files[1:])
