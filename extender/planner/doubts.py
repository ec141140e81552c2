"""Hints that cannot be read, as a condition of the plan: a warning, since the gang is placed all the same."""

from __future__ import annotations

from datetime import datetime

from extender.gangs import Gang
from extender.plans import GangPlan

HINTS_READ = "HintsRead"
"""Condition: whether what the pods say for the queue policy could be understood; absent where it always could."""


def with_doubts(plan: GangPlan, gang: Gang, now: datetime) -> GangPlan:
    """Return the plan with a condition about its gang's hints, if there was ever something to say."""
    if gang.doubts:
        message = "; ".join(map(str, gang.doubts))
        return plan.with_condition(HINTS_READ, False, gang.doubts[0].reason, message, now)
    known = plan.condition(HINTS_READ)
    return plan if known is None else plan.with_condition(HINTS_READ, True, "Understood", "", now)
