"""`stepscope doctor`: what costs a run time, what endangers it, and what to do about it."""

from typing import Annotated, Any

import typer

from ..readers.run_file import Run, read_run
from ..readers.verdicts import diagnose
from .files import HERE, Json, RunFile, locate
from .numbers import count
from .screen import facts, print_json, put, title

JUDGED = ("step", "phases", "profile", "epoch", "system", "memory", "gpu")
MISSING = "no step is timed: a run that stepscope.watch looks at says where its time goes"
TIMED = "steps alone are timed: a run that stepscope.watch looks at says where their time goes"


def doctor(
    file: RunFile = HERE,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 where a warning or an error stands.")] = False,
    as_json: Json = False,
) -> None:
    """Say what costs a run time, what endangers it, and what to do about it.

    The verdicts stand by gravity, and of the same gravity what costs most comes first. Each has its evidence, an
    estimate of what mending it would save, and advice. A run without a fault is called healthy. A file from which
    little can be known gets few verdicts: a rule without evidence says nothing.

    Exit code: 0. With --strict: 1 where a warning or an error stands.

    \b
    Example:
      stepscope doctor output/training.json
      stepscope doctor output --json | jq -r '.verdicts[].rule'
    """
    run = read_run(locate(file))
    found = document(run)
    if as_json:
        print_json(found)
    else:
        _print(found)
    raise typer.Exit(1 if strict and found["healthy"] is False else 0)


def document(run: Run) -> dict[str, Any]:
    """What --json prints; `healthy` is null where there was nothing to judge by."""
    found = diagnose(run)
    judged = {kind: number for kind in JUDGED if (number := run.kinds.get(kind))}
    faults = [verdict for verdict in found if verdict.level != "info"]
    healthy = False if faults else True if judged.keys() - {"step"} or _timed(run) else None
    return {
        "path": str(run.path),
        "name": run.header.name if run.header else None,
        "healthy": healthy,
        "verdicts": [verdict.as_dict() for verdict in found],
        "judged_by": judged,
    }


def _timed(run: Run) -> bool:
    return any(step.duration_ms for step in run.steps[:10])


def _print(found: dict[str, Any]) -> None:
    faults = sum(verdict["level"] != "info" for verdict in found["verdicts"])
    state = {True: "healthy", None: "nothing to judge by", False: count(faults, "finding")}[found["healthy"]]
    title(found["name"] or found["path"], state)
    for verdict in found["verdicts"]:
        put()
        facts(_lines(verdict))
    put()
    if found["judged_by"]:
        kinds = " · ".join(f"{number} {kind}" for kind, number in found["judged_by"].items())
        facts([("judged by", kinds), *([("", hint)] if (hint := _hint(found)) else [])])
    else:
        facts([("", MISSING)])


def _lines(verdict: dict[str, Any]) -> list[tuple[str, str]]:
    saving = [("", verdict["saving"])] if "saving" in verdict else []
    evidence = " · ".join(f"{name} {_value(value)}" for name, value in verdict["evidence"].items() if value is not None)
    return [
        (verdict["level"], f"{verdict['message']} [{verdict['rule']}]"),
        *saving,
        *([("", f"evidence: {evidence}")] if evidence else []),
        *(("", f"→ {advice}") for advice in verdict["advice"]),
    ]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}"
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)


def _hint(found: dict[str, Any]) -> str:
    """What the file does not have, and would say more."""
    if found["healthy"] is None:
        return MISSING
    return TIMED if not {"phases", "profile"} & found["judged_by"].keys() else ""
