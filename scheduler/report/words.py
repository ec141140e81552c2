"""Numbers and verdicts in words a person reads."""

from __future__ import annotations

from scheduler.documents.words import decimal
from scheduler.job import Job
from scheduler.outcome import TOLERANCE, Outcome
from scheduler.placement.types import Refutation
from scheduler.spread import objective_of
from topology.cluster import Level
from topology.drawing.labels import plural

STATUS = {
    "optimal": "proved optimal",
    "feasible": "valid",
    "infeasible": "infeasible",
    "timeout": "out of time",
    "gave-up": "nothing found",
    "refused": "refused",
}
"""Statuses of an outcome as they are shown."""


def seconds(value: float) -> str:
    """A time with the unit that suits it."""
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1.0:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s"


def widest_refutations(outcome: Outcome) -> list[Refutation]:
    """Refutations that no other covers: refuting (S, R) refutes every pair that is at most S and at most R.

    By DP spread; one a pair.
    """
    widest: list[Refutation] = []
    for refutation in sorted(outcome.proposal.refutations, key=lambda r: (-r.pair[0], -r.pair[1])):
        if not widest or refutation.pair[1] > widest[-1].pair[1]:
            widest.append(refutation)
    return widest[::-1]


def cheaper_pairs(job: Job, outcome: Outcome, domains: int) -> int:
    """How many pairs that would cost less than what was found are refuted.

    :param domains: domains of the level that spread counts: no group can touch more.
    """
    if outcome.evaluation is None:
        return 0
    limit = objective_of(job, outcome.evaluation.dp, outcome.evaluation.pp) - TOLERANCE
    refuted = [refutation.pair for refutation in widest_refutations(outcome)]
    return sum(
        objective_of(job, dp, pp) < limit and any(dp <= s and pp <= r for s, r in refuted)
        for dp in range(1, min(domains, job.grid.rows) + 1)
        for pp in range(1, min(domains, job.grid.columns) + 1)
    )


def verdict(job: Job, outcome: Outcome, level: Level) -> str:
    """What is known about the placement, in a few sentences.

    :param level: the level that spread counts.
    """
    if outcome.evaluation is None or outcome.bound is None or outcome.gap is None:
        return f"No placement: {outcome.reason}."
    worth = outcome.evaluation
    start = (
        f"{plural(job.grid.cells, 'node')} on {plural(len(worth.domains), level.name)}: a DP group touches at most "
        f"{plural(worth.dp, level.name)}, a PP group at most {plural(worth.pp, level.name)}."
    )
    if outcome.status == "optimal":
        cheaper = cheaper_pairs(job, outcome, len(level))
        how = f" Each of the {plural(cheaper, 'cheaper pair')} of spreads was refuted." if cheaper > 1 else ""
        return f"{start} Proved optimal: no valid placement has a smaller objective.{how}"
    return (
        f"{start} Not proved optimal: no placement can have an objective below {decimal(outcome.bound)}, so the best "
        f"possible is at most {outcome.gap:.1%} lower than this one."
    )
