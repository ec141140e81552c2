"""The zone of a reservation: where production placement puts the job on the cluster as if empty."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.job import Job
from scheduler.outcome import Outcome, run
from scheduler.placement.types import Limits, PlacementAlgorithm
from topology.cluster import Cluster


def place_zone(
    cluster: Cluster, job: Job, *, algorithm: PlacementAlgorithm, limits: Limits, taken: Iterable[int] = ()
) -> Outcome:
    """Return the placement whose nodes are the zone, and what it is worth.

    :param taken: nodes of zones that were reserved before.
    :raises InvalidJob: the job cannot be cut into nodes.
    """
    return run(algorithm, cluster.emptied().with_busy(taken), job, limits)


def find_zone(
    cluster: Cluster, job: Job, *, algorithm: PlacementAlgorithm, limits: Limits, taken: Iterable[int] = ()
) -> tuple[int, ...]:
    """Return nodes to reserve.

    :param taken: nodes of zones that were reserved before.
    :returns: node numbers in order; empty when the job would not fit even then.
    :raises InvalidJob: the job cannot be cut into nodes.
    """
    outcome = place_zone(cluster, job, algorithm=algorithm, limits=limits, taken=taken)
    if outcome.evaluation is None or outcome.proposal.nodes is None:
        return ()
    return tuple(sorted(outcome.proposal.nodes.ravel().tolist()))
