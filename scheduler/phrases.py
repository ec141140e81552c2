"""Outcomes in the words that texts and pages show."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.outcome import Outcome, Status
from topology.quantities import decimal

STATUS: Mapping[Status, str] = {
    "optimal": "proved optimal",
    "feasible": "feasible",
    "infeasible": "infeasible",
    "timeout": "stopped at its time limit",
    "gave-up": "gave up",
    "refused": "refused",
}
"""Statuses of an outcome as text and pages show them."""


def status_words(status: Status, stopped_at: float | None = None) -> str:
    """Return a status as text and pages show it: ``proved optimal``, ``feasible``, ``stopped at 5 s``.

    :param stopped_at: seconds of the time limit that stopped the algorithm; ``None`` = none did.
    """
    return STATUS[status] if stopped_at is None else f"stopped at {stopped_at:.3g} s"


def verdict(outcome: Outcome) -> str:
    """Return an outcome in one sentence: ``proved optimal: DP spread 2, PP spread 4, objective 3.0``."""
    status, evaluation = status_words(outcome.status, outcome.stopped_at), outcome.evaluation
    if evaluation is None:
        return f"{status}: {outcome.reason}"
    found = f"DP spread {evaluation.dp}, PP spread {evaluation.pp}, objective {decimal(evaluation.objective)}"
    if outcome.status == "optimal":
        return f"{status}: {found}"
    return f"{status}, gap {outcome.gap:.1%}: {found}, proved bound {decimal(outcome.bound or 0.0)}"
