"""The process of a watched script: its main module, arguments, exceptions and exits are those of `python script.py`."""

import sys

import pytest

from .conftest import STEPSCOPE, run_both

TRAINS = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
LOOKS = """'''A script.'''
import sys, json, pickle, inspect, multiprocessing
from dataclasses import dataclass

@dataclass
class Mine:
    x: int = 1

if __name__ == "__main__":
    main = sys.modules["__main__"]
    assert main.Mine is Mine and pickle.loads(pickle.dumps(Mine(3))) == Mine(3)
    names = sorted(vars(main).keys() - {"names", "main"})
    print(names, __doc__, __file__, __name__, __package__, __spec__, __cached__, type(__loader__).__name__)
    print(sys.argv, sys.path[0], inspect.getsource(Mine), sys.flags)
    print(input())
"""


def test_main_module_and_arguments(tmp_path):
    """`__main__`, `sys.argv`, `sys.path`, input and source are what Python gives; no training is no file."""
    (tmp_path / "look.py").write_text(LOOKS)
    words = ["../look.py", "--lr", "3e-4", "-m", "--output-dir=x"]
    bare, watched = run_both(([sys.executable, *words], [*STEPSCOPE, *words]), tmp_path, "typed\n", "shared")
    assert bare.stdout.endswith("typed\n")
    assert (watched.stdout, watched.code) == (bare.stdout, 0)
    assert watched.stderr == "stepscope: no training step was seen: nothing called an optimizer's step\n"
    assert not watched.folder.exists()


def test_a_module_of_a_package(tmp_path):
    """`-m package` and `-m package.module` run as Python runs them, from the current folder."""
    package = tmp_path / "shared" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import sys; print('argv while it is found', sys.argv[1:])")
    looks = (
        "import sys; from . import module; print(__name__, __package__, __spec__.name, __file__, sys.argv, sys.path[0])"
    )
    (package / "__main__.py").write_text(looks)
    (package / "module.py").write_text("import sys; print(__name__, __package__, __spec__.name, sys.argv)")
    for name in ("package", "package.module"):
        words = ["-m", name, "--lr", "1"]
        commands = ([sys.executable, *words], [*STEPSCOPE, *words])
        bare, watched = run_both(commands, tmp_path, folder_of_both="shared")
        assert bare.code == 0
        assert (watched.stdout, watched.code) == (bare.stdout, 0)


CRASHES = {
    "raise": "def inner():\n    raise ValueError('no')\n" + TRAINS + "inner()",
    "chained": TRAINS + "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error",
    "inside forward": TRAINS + "model(torch.ones(2, 3))",
    "inside backward": TRAINS + "torch.ones(2, 2, requires_grad=True).backward()",
    "inside the loader": TRAINS + "class Bad(torch.utils.data.Dataset):\n    def __len__(self): return 3\n"
    "    def __getitem__(self, at): return {}[at]\nnext(iter(torch.utils.data.DataLoader(Bad())))",
    "a syntax error": "print(1)\nif True\n    x",
    "its own hook": "import sys\nsys.excepthook = lambda kind, error, trace: print('mine', kind, trace.tb_lineno)\n1/0",
}


SLOW = {"raise", "inside backward"}


@pytest.mark.parametrize("how", [pytest.param(how, marks=[pytest.mark.slow] * (how in SLOW)) for how in CRASHES])
def test_a_crash_looks_as_without_us(both, how):
    """Exit code and traceback are Python's own, without a frame of ours, and stand before what we say."""
    bare, watched = both(CRASHES[how])
    assert bare.code == 1
    assert (watched.stdout, watched.code) == (bare.stdout, 1)
    assert watched.stderr.startswith(bare.stderr)
    assert "Traceback" not in watched.stderr.removeprefix(bare.stderr)


def test_a_crash_ends_the_run_as_failed(watched):
    """The run file holds the steps until then and the reason; the card says it."""
    ended = watched(CRASHES["raise"])
    assert [step["step"] for step in ended.of("step")] == [1, 2, 3]
    end = ended.of("end")[0]
    assert (end["status"], end["reason"]) == ("failed", "ValueError: no")
    assert "ended     failed: ValueError: no" in ended.stderr


EXITS = {
    "import sys; sys.exit(3)": ("exited", 3),
    "import sys; sys.exit('enough')": ("exited", 1),
    "import sys; sys.exit()": ("finished", 0),
    "raise KeyboardInterrupt": ("stopped", -2),
    "import atexit; atexit.register(print, 'bye')": ("finished", 0),
}


@pytest.mark.parametrize("last", EXITS)
def test_exits_are_the_scripts_own(bare, watched, last):
    """Exit code, text and status follow what the script does."""
    alone, seen = bare(TRAINS + last), watched(TRAINS + last)
    status, code = EXITS[last]
    assert (alone.code, seen.code) == (code, code)
    assert seen.stdout == alone.stdout
    assert [line for line in alone.stderr.splitlines() if line == "enough"] == [
        line for line in seen.stderr.splitlines() if line == "enough"
    ]
    assert seen.of("end")[0]["status"] == status


def test_a_single_step_is_told(watched):
    """A run file is made although nothing followed the only step."""
    assert len(watched(TRAINS.replace("range(3)", "range(1)")).of("step")) == 1


def test_the_last_step_ends_with_its_last_phase(watched):
    """What a script does behind its training is no part of its last step."""
    *_, last = watched(TRAINS + "import time; time.sleep(0.5)").of("step")
    assert last["duration_ms"] < 400


OWN_RUN = """
import stepscope
run = stepscope.init(output_dir="output", verbosity=-2)
{train}
    run.log_step(_ * 10, loss=0.5)
run.close()
"""


def test_a_run_of_the_script_is_used(watched):
    """One that logs its own steps has one file: its steps, with their numbers, and our phases."""
    ended = watched(OWN_RUN.format(train=TRAINS))
    assert [(step["step"], step["loss"]) for step in ended.of("step")] == [(0, 0.5), (10, 0.5), (20, 0.5)]
    assert [phases["step"] for phases in ended.of("phases")] == [0, 10, 20]
    assert "what 3 steps say" in ended.stderr


def test_one_run_after_another(watched):
    """Each of the script's own runs holds its own training."""
    twice = OWN_RUN.format(train=TRAINS)
    ended = watched(twice + twice)
    files = sorted(ended.folder.glob("*.json"))
    assert len(files) == 2
    for path in files:
        assert path.read_text().count('"log":"phases"') == 3


def test_a_script_that_watches_itself_is_not_watched_twice(watched):
    """`stepscope.watch` in the script takes over: one file, each step once, no word of ours beside."""
    text = "import stepscope\n" + TRAINS.replace(
        "for _", "scope = stepscope.watch(model, optimizer, stepscope.init(output_dir='output', verbosity=-2))\nfor _"
    )
    ended = watched(text + "scope.close()")
    assert len(ended.of("phases")) == 3
    assert "no training step was seen" not in ended.stderr


def test_from_inside(bare):
    """`stepscope.auto()` in the first line does the same, closes the run at the end and prints the card."""
    ended = bare("import stepscope; stepscope.auto(output_dir='output', verbosity=0)\n" + TRAINS)
    assert len(ended.of("step")) == 3
    assert ended.of("end")[0]["status"] == "finished"
    assert "what 3 steps say" in ended.stdout + ended.stderr
    crashed = bare("import stepscope; stepscope.auto(output_dir='crash', verbosity=-1)\n" + TRAINS + "1/0")
    assert crashed._replace(folder=crashed.folder.with_name("crash")).of("end")[0]["status"] == "failed"


def test_children_are_left_alone(watched):
    """Processes that the script starts, by fork or spawn, train as they are and write nothing."""
    trains = TRAINS.replace("\n", "\n    ")
    ended = watched(f"""
import multiprocessing, sys
def child():{trains}
    print("trained", torch.Tensor.backward.__module__, flush=True)
if __name__ == "__main__":
    for start in ("fork", "spawn"):
        process = multiprocessing.get_context(start).Process(target=child)
        process.start()
        process.join()
        print(process.exitcode, flush=True)
    child()
""")
    assert ended.stdout.split() == ["trained", "torch._tensor", "0"] * 2 + ["trained", "torch._tensor"]
    assert len(ended.of("step")) == 3


def test_torch_is_as_it_was(watched):
    """Behind the script every method and hook of torch is its own again."""
    text = """
import atexit, torch
from torch.optim import optimizer as o
from torch.utils.data import DataLoader, dataloader
def methods():
    scaler = torch.amp.grad_scaler.GradScaler
    return [torch.Tensor.__dict__.get("backward"), torch.Tensor.__dict__.get("to"), torch.Tensor.__dict__.get("cuda"),
        DataLoader.__dict__.get("__iter__"), dataloader._BaseDataLoaderIter.__dict__.get("__next__"), scaler.step,
        scaler.scale, torch.nn.Linear.__dict__.get("__call__"), dict(o._global_optimizer_pre_hooks),
        dict(o._global_optimizer_post_hooks)]
def look():
    ours = [hasattr(m, "__wrapped__") or "stepscope" in str(getattr(m, "__module__", "")) for m in methods()]
    print(any(ours))
    print(methods()[-3:])
atexit.register(look)
"""
    ended = watched(text + TRAINS)
    assert ended.stdout == "False\n[None, {}, {}]\n"


def test_a_failing_hook_is_said_once_and_the_training_goes_on(watched):
    """Whatever breaks in us costs our numbers, never the training."""
    ended = watched("import stepscope.speed.hooks as hooks\nhooks._rates = lambda optimizer: 1 / 0\n" + TRAINS)
    assert ended.code == 0
    assert [event["message"] for event in ended.of("event") if event["rule"] == "watching"] == [
        "a hook failed: ZeroDivisionError: division by zero",
        "watching happened 3 times",
    ]


def test_torch_may_be_looked_for_before_it_is_imported(both):
    """Asking whether torch is there, as libraries do, does not make us miss it."""
    bare, watched = both("import importlib.util\nprint(importlib.util.find_spec('torch').name)\n" + TRAINS)
    assert (bare.code, watched.code, watched.stdout) == (0, 0, bare.stdout)
    assert len(watched.of("step")) == 3


@pytest.mark.parametrize("script", ["print('no torch')", "import torch\nprint(torch.ones(2))"])
def test_without_training_nothing_is_left_behind(watched, script):
    """A script that trains nothing leaves no file."""
    ended = watched(script)
    assert ended.code == 0
    assert not ended.folder.exists()
    assert "no training step was seen" in ended.stderr


def test_the_model_can_be_freed(watched):
    """Nothing of ours keeps a model or an optimizer alive that the script lets go."""
    ended = watched(
        TRAINS
        + """
import gc, weakref
kept = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(model.weight)]
del model, optimizer
gc.collect()
print([ref() is None for ref in kept])
"""
    )
    assert ended.stdout == "[True, True, True]\n"
