"""Aim: every number by its name and step, through `run.track`.

    sink = Aim(header, experiment="mae", repo="output")
    sink.write(Gpu(step=7, id=0, power=350000))      # gpu/0/power
    sink.close()

Tracking a step again replaces its value, which is what makes a refill safe. Texts of events are Aim texts.
"""

from contextlib import suppress
from typing import Any

from ..records import Header, Record
from ..tags import Names, config


class Aim:
    """An Aim run: a new one, or the one of `run_hash`."""

    def __init__(
        self,
        header: Header,
        experiment: str | None = None,
        name: str | None = None,
        repo: str = ".",
        run_hash: str | None = None,
    ):
        import aim

        self._text = aim.Text
        opened = aim.Repo.from_path(repo, init=not _is_remote(repo) and not aim.Repo.exists(repo))
        self._run = aim.Run(
            run_hash,
            repo=opened,
            experiment=experiment or header.project or "stepscope",
            system_tracking_interval=None,
            log_system_params=False,
            capture_terminal_logs=False,
            force_resume=run_hash is not None,
        )
        _let_go(self._run, opened)
        self._run.name = name or header.name or self._run.hash
        self.run_hash: str = self._run.hash
        self.address: str | None = f"{repo}, run {self.run_hash}"
        self.names = Names("aim")
        self._open = True

    def write(self, record: Record) -> None:
        """Track the numbers of a record."""
        for key, value in config(record).items():
            self._run[key] = value
        step = getattr(record, "step", 0)
        for name, value in self.names.tags(record):
            tracked = self._text(value) if isinstance(value, str) else float(value)
            self._run.track(tracked, name=name, step=step)

    def close(self) -> None:
        """Mark the run as ended."""
        if self._open:
            self._open = False
            self._run.close()


def _is_remote(repo: str) -> bool:
    return "://" in repo


def _let_go(run: Any, repo: Any) -> None:
    """Take the run out of Aim's exit handler: it would close it before what waits is written, or wait for ever."""
    with suppress(ImportError, AttributeError):
        from aim.ext.cleanup import AutoClean

        for resource in (run, repo):
            AutoClean._finalizers.pop(resource, None)
