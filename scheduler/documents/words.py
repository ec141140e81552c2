"""Outcomes and numbers in words."""

from __future__ import annotations

from scheduler.outcome import Outcome

WITHOUT = {"timeout": "not settled", "gave-up": "nothing found"}
"""Statuses without a placement, where another word says more."""


def verdict(outcome: Outcome) -> str:
    """An outcome in one sentence: ``proved optimal: DP spread 2, PP spread 4, objective 3.0``."""
    if outcome.evaluation is None:
        return f"{WITHOUT.get(outcome.status, outcome.status)}: {outcome.reason}"
    found = (
        f"DP spread {outcome.evaluation.dp}, PP spread {outcome.evaluation.pp}, "
        f"objective {decimal(outcome.evaluation.objective)}"
    )
    if outcome.status == "optimal":
        return f"proved optimal: {found}"
    return f"valid, gap {outcome.gap:.1%}: {found}, proved bound {decimal(outcome.bound or 0.0)}"


def decimal(value: float) -> str:
    """A number as people read it: ``3.0``, ``2.25``, ``1.667``."""
    text = f"{value:.3f}".rstrip("0")
    return text + "0" if text.endswith(".") else text
