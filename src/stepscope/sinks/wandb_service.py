"""W&B's service process, started so that it can neither hold the exit nor change the program.

    session = start()     # before wandb.init: starts the service, takes back the hooks that it leaves
    run = own(session, wandb.init(…))
    release(run)          # after run.finish(): ends the service, unless somebody else still uses it
    kill()                # when there is no time left

W&B's own exit handler waits until everything is uploaded, which takes for ever while the server does not answer;
and it replaces `sys.exit` and `sys.excepthook` to learn the exit code, which the run's `end` record tells us.
"""

import atexit
import os
import sys
from contextlib import suppress
from typing import Any

ENVIRONMENT = "WANDB_SERVICE"  # by which child processes would find, and need, our service

_session: Any = None  # W&B's session, where we started its service
_runs: list[Any] = []  # the runs of ours that are not finished


def start() -> Any:
    """Start the service, unless the program has done so, and return W&B's session."""
    global _session
    import wandb

    _disable_telemetry()
    hooks, inherited = (sys.exit, sys.excepthook), os.environ.get(ENVIRONMENT)
    had_service = _connection(_known_session(wandb)) is not None
    session = wandb.setup()
    connection = _connection(session)
    if connection is None or had_service:
        return session
    _session = session
    unregister = getattr(connection, "_cleanup", None)
    if callable(unregister):
        unregister()
        atexit.register(_finish_others)
    _restore(*hooks)
    if inherited is None:
        os.environ.pop(ENVIRONMENT, None)
    return session


def own(session: Any, run: Any) -> Any:
    """Note that a run is ours, so that the program's own `wandb.init()` makes another instead of returning it."""
    _runs.append(run)
    with suppress(AttributeError):
        session.remove_active_run(run)
    return run


def release(run: Any) -> None:
    """A run of ours is finished: end the service when nobody needs it any more."""
    global _session
    import wandb

    _runs[:] = [ours for ours in _runs if ours is not run]
    session = _session
    if session is None or _runs or _others():
        return
    try:
        wandb.teardown()
    finally:
        if _session is session:
            _session = None


def kill() -> None:
    """End the service at once, if it is ours alone; what it has not sent stays in its file."""
    if _session is None or _others():
        return
    with suppress(AttributeError, OSError):
        _session._connection._proc._process.kill()
        _session._connection._proc._process.wait(1)


def _known_session(wandb: Any) -> Any:
    return getattr(getattr(wandb.sdk, "wandb_setup", None), "_singleton", None)


def _connection(session: Any) -> Any:
    return getattr(session, "_connection", None)


def _others() -> list[Any]:
    """Runs that the program itself has begun and not finished."""
    return list(getattr(_session, "_active_runs", []))


def _finish_others() -> None:
    """What W&B's exit handler would have done for the program's own runs."""
    for run in _others():
        run.finish()


def _restore(exit_: Any, excepthook: Any) -> None:
    """Put the program's own functions back where W&B's stand now."""
    if _is_wandbs(sys.exit):
        sys.exit = exit_
    if _is_wandbs(sys.excepthook):
        sys.excepthook = excepthook


def _is_wandbs(function: Any) -> bool:
    return type(getattr(function, "__self__", None)).__module__.startswith("wandb.")


def _disable_telemetry() -> None:
    """W&B's statistics about itself: after an error their exit handler waits for the server, 10 s and more."""
    with suppress(ImportError, AttributeError):
        from wandb.analytics.opentelemetry import opentelemetry_proxy

        opentelemetry_proxy.disable()
