"""The verdicts on a run in its file: on all of it, each rank by itself.

    for verdict in diagnose(read_run("output")):
        print(verdict.text)

Of a rule that several ranks have, the gravest verdict stands, and its evidence says which rank that was.
"""

from dataclasses import replace

from ..diagnose.bottlenecks import verdicts
from ..diagnose.case import Case
from ..diagnose.verdict import Verdict, ranked
from .run_file import Run


def diagnose(run: Run) -> list[Verdict]:
    """What the rules find in a run, the gravest first."""
    ranks = list(run.ranks)
    found = [verdict for rank in ranks for verdict in _of_rank(run, rank, several=len(ranks) > 1)]
    kept: dict[tuple[str, object], Verdict] = {}
    for verdict in ranked(found):
        kept.setdefault((verdict.rule, verdict.evidence.get("gpu")), verdict)
    return list(kept.values())


def _of_rank(run: Run, rank: int, several: bool) -> list[Verdict]:
    case = Case()
    for record in run.records(rank=rank):
        case.see(record)
    found = verdicts(case)
    return [replace(v, evidence=v.evidence | {"rank": rank}) for v in found] if several else found
