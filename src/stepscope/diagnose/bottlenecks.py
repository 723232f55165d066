"""All rules over a run: what costs it time, what endangers it, and what to do about it.

    case = Case()
    for record in read_run("output").records():
        case.see(record)
    for verdict in verdicts(case):
        print(verdict.text, verdict.advice)

No evidence, no verdict: a rule whose records are not there says nothing. A healthy run has none.
"""

from .case import Case
from .hardware import hardware_verdicts
from .input import input_verdicts
from .light import speed_of_light
from .limits import Limits
from .memory import memory_verdicts
from .pace import pace_verdicts
from .verdict import Verdict, ranked
from .work import work_verdicts

FAMILIES = (input_verdicts, work_verdicts, pace_verdicts, memory_verdicts, hardware_verdicts)
DEFAULT = Limits()
SAID_BY = {"data_generation": ("data_generation", "input_wait"), "optimizer_step": ("optimizer",)}


def verdicts(case: Case, limits: Limits = DEFAULT) -> list[Verdict]:
    """What the rules find, the gravest first."""
    found = [verdict for family in FAMILIES for verdict in family(case, limits)]
    found = [verdict for verdict in found if not _is_said(verdict, found)]
    light = speed_of_light(case, ranked(found), limits)
    return ranked([*found, *([light] if light else [])])


def _is_said(verdict: Verdict, found: list[Verdict]) -> bool:
    """Whether slow steps are only the way in which a phase that has its own verdict is slow."""
    names = SAID_BY.get(str(verdict.evidence.get("phase")), ())
    return verdict.rule == "slow_step" and any(other.rule in names for other in found)
