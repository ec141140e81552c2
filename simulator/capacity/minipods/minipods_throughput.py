"""What jobs keep of a flat network's throughput, by the model ``anchored`` on links that oversubscription narrows.

``anchored`` (:mod:`simulator.cost.anchored`) says what spread costs where crossing traffic has its bandwidth: a family
whose groups touch n minipods costs ``j * lambda(n) / lambda(2)`` of the step, so that its traffic inside one takes
``j / lambda(2)``.  If nodes send a share u of their bandwidth out of their minipod at once, links upwards with a ratio
r carry it at ``1 / (r u)`` of its speed, where that is below 1

    relative step = 1 + sum over families with n > 1 of  j / lambda(2) * (max(1, r u) * (1 + lambda(n)) - 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simulator.capacity.uncertain_input import range_words

if TYPE_CHECKING:
    from scheduler.job import Job
    from scheduler.outcome import Outcome
    from topology.cluster import Cluster

LEVEL = "minipod"
MODEL = "anchored"  # Name of the model, for headlines

Placed: TypeAlias = "tuple[Cluster, Job, Outcome]"  # A job on one state of a cluster, and where an algorithm put it


@dataclass(frozen=True, slots=True)
class SpreadJob:
    """A job that has a place: its nodes, and by what its two families lengthen the step."""

    nodes: int
    families: tuple[tuple[float, float], ...]
    """Of each family that touches several minipods: time of its traffic inside one, as a share of the step, and
    lambda(n)."""

    @classmethod
    def of(cls, job: Job, outcome: Outcome) -> SpreadJob | None:
        """Return a job where an algorithm put it; ``None`` = nowhere."""
        from simulator.cost.calibration import PUBLISHED

        found = outcome.evaluation
        if found is None:
            return None
        families = (
            (job.spread_cost * job.alpha, PUBLISHED.collective_curve, found.dp),
            (job.spread_cost * job.beta, PUBLISHED.send_recv_curve, found.pp),
        )
        return cls(
            job.grid.cells,
            tuple((cost / curve.extra_time(2), curve.extra_time(n)) for cost, curve, n in families if n > 1),
        )

    def relative_step(self, stretch: float) -> float:
        """Return by what the placement lengthens the step, at least 1.

        :param stretch: by what crossing traffic takes longer, at least 1; 1 = as ``anchored``.
        """
        return 1.0 + sum(inside * (stretch * (1.0 + extra) - 1.0) for inside, extra in self.families)


def throughput(jobs: Sequence[SpreadJob | None], *, ratio: float, crossing: float) -> float | None:
    """Return the share of a flat network's throughput that jobs keep, by nodes; ``None`` = no job has a place.

    :param ratio: oversubscription between minipods, at least 1.
    :param crossing: u, share of their bandwidth that nodes send out of their minipods at once.
    """
    there = [job for job in jobs if job is not None]
    if not there:
        return None
    stretch = max(1.0, ratio * crossing)
    return sum(job.nodes / job.relative_step(stretch) for job in there) / sum(job.nodes for job in there)


def by_hierarchical(placed: Sequence[Placed], ratio: float) -> float | None:
    """Return the same share by the model ``hierarchical``, to compare; ``None`` = no job has a place."""
    from simulator.cost.hierarchical import hierarchical
    from simulator.cost.types import PlacedJob

    model = hierarchical(oversubscription={LEVEL: ratio})
    kept = weight = 0.0
    for cluster, job, outcome in placed:
        if outcome.proposal.nodes is not None and outcome.evaluation is not None:
            kept += job.grid.cells / model.relative_step_time(PlacedJob(job, cluster, outcome.proposal.nodes))
            weight += job.grid.cells
    return kept / weight if weight else None


def model_assumptions(crossing: str) -> tuple[str, ...]:
    """Return what the model takes for granted, each line once.

    :param crossing: u as it was given.
    """
    from simulator.cost.types import COMM_MODELS

    lines = (
        *(f"Model {MODEL}: {line}" for line in COMM_MODELS.load(MODEL).assumptions),
        f"Nodes send {range_words(crossing)} of their bandwidth out of their minipods at once; an oversubscription "
        "slows what crosses only where it leaves less than that. The range is an assumption: what the links upwards of "
        "a spine carry at their busiest, as a share of the nodes' bandwidth below, replaces it (--crossing).",
    )
    return tuple(" ".join(line.split()) for line in lines)
