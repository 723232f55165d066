"""How a process ends with its runs closed: at exit, on SIGTERM, and never twice after a fork.

    register(run)      # closed at exit, and on SIGTERM where nobody else handles it
    release(run)

A handler of the user's is never replaced, and one that comes later replaces ours. Python runs handlers only
between two of its instructions: while the main thread hangs in a device or a network call, a process that has a
handler would no longer die of SIGTERM. So a thread that the interpreter wakes at once closes the runs and lets the
signal do its work when the main thread has not come back within a few seconds.
"""

import atexit
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

GRACE_S = 3.0  # until a main thread that does not answer counts as hanging
CLOSING_S = 8.0  # for the record and the close that it may be in the middle of


class Closable(Protocol):
    """What can be closed with a status."""

    def close(self, status: str = ..., reason: str | None = ...) -> None: ...
    def busy(self) -> bool: ...
    def forked(self) -> None: ...


_live: dict[int, Closable] = {}
_heard, _dying = threading.Event(), threading.Event()
_error_before: Any = None
_installed = False
_guarded = False
_hooked = False
_masked = threading.local()  # `by`: the signals that a thread held back before it forks
deferred: list[tuple[int, Callable[[], None]]] = []  # by thread: what waits until its record is whole


def register(run: Closable) -> None:
    """Close `run` when the process ends."""
    global _hooked, _error_before
    _live[id(run)] = run
    _error_before = getattr(sys, "last_value", None)  # a notebook keeps that of an earlier cell
    if not _hooked:
        _hooked = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
        atexit.register(_at_exit)
    _install()


def release(run: Closable) -> None:
    """Forget a run that is closed, and the signal with the last one."""
    _live.pop(id(run), None)
    if not _live:
        _uninstall()


def open_runs() -> list[Closable]:
    """The runs that are open, the oldest first."""
    return list(_live.values())


def _at_exit() -> None:
    _close_all(*(by_error() or ("exited", "the program ended without close()")))


def by_error() -> tuple[str, str] | None:
    """Status and reason of a program that an exception ended; None where none did."""
    error = getattr(sys, "last_value", None)
    if isinstance(error, KeyboardInterrupt):
        return "stopped", "KeyboardInterrupt"
    return None if error is None or error is _error_before else ("failed", describe(error))


def _close_all(status: str, reason: str) -> None:
    for run in list(_live.values()):
        with suppress(BaseException):  # what one run's callback raises must not cost another its end
            run.close(status, reason)


def describe(error: BaseException) -> str:
    """An exception as one line."""
    try:
        return f"{type(error).__name__}: {error}".split("\n")[0][:500]
    except Exception:  # noqa: BLE001 - its own text raises
        return type(error).__name__


def _install() -> None:
    global _installed
    if _installed or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    signal.signal(signal.SIGTERM, _on_sigterm)
    _installed = True
    if not _guarded:
        _guard_against_hang()


def _uninstall() -> None:
    global _installed
    if not _installed or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _installed = False


def _on_sigterm(signum: int, frame: Any) -> None:
    _heard.set()
    defer(_die)
    settle()


def defer(call: Callable[[], None]) -> None:
    """Do something as soon as this thread is not in the middle of a record or a close any more."""
    deferred.append((threading.get_ident(), call))


def settle() -> None:
    """Do what this thread has deferred, if it may."""
    me = threading.get_ident()
    for mine in [entry for entry in deferred if entry[0] == me]:
        if any(run.busy() for run in list(_live.values())):
            return
        if mine in deferred:
            deferred.remove(mine)
            mine[1]()


def _die() -> None:
    """Close everything and let the signal end the process, so that its exit status is the signal's."""
    _dying.set()
    _close_all("stopped", "SIGTERM")
    ctypes.CDLL(None).signal(signal.SIGTERM, 0)  # signal.signal works in the main thread alone
    os.kill(os.getpid(), signal.SIGTERM)


def _guard_against_hang() -> None:
    global _guarded
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    if (before := signal.set_wakeup_fd(writer, warn_on_full_buffer=False)) != -1:
        signal.set_wakeup_fd(before)  # an event loop owns it
        os.close(reader)
        os.close(writer)
        return
    try:
        threading.Thread(target=_await_signal, args=(reader,), name="stepscope-sigterm", daemon=True).start()
    except RuntimeError:  # none can be started at the end of the interpreter
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)
        return
    _guarded = True


def _await_signal(reader: int) -> None:
    while numbers := os.read(reader, 64):
        ours = signal.getsignal(signal.SIGTERM) is _on_sigterm
        if signal.SIGTERM in numbers and ours and not (_heard.wait(GRACE_S) and _dying.wait(CLOSING_S)):
            _die()


def _before_fork() -> None:
    """A SIGTERM waits until the child is rid of our handler, whose alarm would reach the parent."""
    _masked.by = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masked.by)


def _in_child() -> None:
    """A forked child leaves the parent's runs and signals alone."""
    global _installed, _guarded
    for run in list(_live.values()):
        run.forked()
    _live.clear()
    deferred.clear()
    if _guarded:
        _guarded = False
        signal.set_wakeup_fd(-1)
    if _installed:
        _installed = False
        if signal.getsignal(signal.SIGTERM) is _on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _after_fork()
