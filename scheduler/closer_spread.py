"""What a placement is worth at the levels closer than the job's, which come after its objective, level by level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.job import Job
from scheduler.objective import TOLERANCE, closer_levels, objective_of
from scheduler.outcome import Outcome
from topology.cluster import Cluster
from topology.field_types import AtLeastOne
from topology.json_record import JsonRecord


@dataclass(frozen=True, slots=True)
class CloserSpread(JsonRecord):
    """Spread at a level closer than the job's."""

    dp: AtLeastOne
    """Spread of the DP groups."""
    pp: AtLeastOne
    """Spread of the PP groups."""
    proved: bool
    """No placement with as good an objective (which is proved too), and as good at the levels between, has less of
    alpha * dp + beta * pp here; of placements on the types of GPU that were chosen, with no node slower than was
    admitted."""


def closer_spreads(cluster: Cluster, job: Job, outcome: Outcome) -> Mapping[str, CloserSpread]:
    """Return what the placement of an outcome is worth at each closer level, from the broadest; empty without one."""
    if outcome.evaluation is None:
        return {}
    proved = outcome.status == "optimal"
    found = {}
    for level in closer_levels(cluster, job):
        spreads = outcome.evaluation.by_level[level]
        dp, pp = spreads["dp"], spreads["pp"]
        # every group touches one domain at least
        bound = max(outcome.proposal.closer_bounds.get(level, 0.0), objective_of(job, 1, 1))
        # what a level has at least is asked of placements that are the best at the levels before it
        proved = proved and objective_of(job, dp, pp) <= bound + TOLERANCE
        found[level] = CloserSpread(dp, pp, proved)
    return found
