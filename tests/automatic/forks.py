"""Runs scripts bare and watched, each in a process of its own: forks of one that has torch loaded already.

    python -m tests.automatic.forks        # a request a line: {"words": […], "watched": true, "folder": …}

A fork becomes the script as `python script.py` would: Python itself shows its exceptions and ends it.
"""

import gc
import json
import os
import runpy
import sys

import torch
import torch._dynamo  # what the first optimizer would load

import stepscope.cli.main
import stepscope.monitor.scope


def requests():
    """Those that come, until there are no more; a fork has one alone, and the parent the others."""
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if not pid:
            become(asked)
            return asked
        _, status = os.waitpid(pid, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
    return None


def become(asked):
    """A process of its own: folder, output, input."""
    os.chdir(asked["folder"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


torch.set_num_threads(1)
gc.freeze()  # a fork looks through what is its own alone
asked = requests()
if asked is not None:
    words = asked["words"]
    if asked["watched"]:
        sys.argv = ["stepscope", "run", *asked["options"], *words]
        stepscope.cli.main.main()
    else:
        sys.argv, sys.path[0] = words, os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
