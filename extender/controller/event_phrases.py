"""Numbers and names in sentences for people."""

from __future__ import annotations

from collections.abc import Iterable

from extender.plans import GangPlan
from extender.texts import clip

_SHOWN = 3


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: ``1 pod``, ``3 pods``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def named(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    everyone = list(names)
    more = len(everyone) - _SHOWN
    return ", ".join(map(clip, everyone[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


def worth(plan: GangPlan) -> str:
    """Return what a placement is worth, in one sentence."""
    if plan.spread is None or plan.objective is None:
        return f"{counted(plan.size, 'node')} planned"
    proof = "proved best" if not plan.gap else f"at most {plan.gap:.1%} from the best"
    return f"DP spread {plan.spread[0]}, PP spread {plan.spread[1]}, objective {plan.objective:g}, {proof}"
