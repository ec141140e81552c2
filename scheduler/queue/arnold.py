"""Algorithm 1 of the Arnold paper (arXiv 2509.15940): a zone is emptied for a large job that was announced.

The zone is where production placement puts the job on the cluster as if empty (:func:`place_zone`).  From the
announcement until the job has its nodes, for each job in the queue in order of (priority, submission):

1. a preemptible job may run in the zone, and elsewhere; when the large job arrives, it is stopped;
2. any other runs outside the zone if it fits there;
3. else inside, if it is expected to end before the arrival;
4. else it waits, and the next is asked: none waits for it.

*Expected* is the upper end of the band of the prediction.  The two others leave out one idea each, for comparison.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.outcome import Outcome
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.queue.policy import CapacityReservation, ClusterState, HeldNodes, Keep, PriorityFirst, Running, Waiting
from topology.cluster import Cluster


class Arnold(PriorityFirst):
    """Algorithm 1."""

    name = "arnold"
    summary = "a zone is emptied in time for a large job that was announced (the Arnold paper's Algorithm 1)"
    passing = True
    reserving = True
    predicting = True

    def offers(self, job: Waiting, cluster: ClusterState, holds: Sequence[HeldNodes]) -> Iterable[Keep]:  # noqa: ARG002
        """Offer by the steps of the algorithm; the large job itself goes to its zone, or else where there is room."""
        zones = [reservation for reservation in cluster.reservations if reservation.zone]
        own = next((zone for zone in zones if zone.name == job.reservation), None)
        others = [zone for zone in zones if zone is not own]
        if own is not None:
            keep = cluster.total.copy()
            keep[list(own.zone)] = 0
            for other in others:
                keep[list(other.zone)] = cluster.total[list(other.zone)]
            yield keep
        elif job.preemptible and others:
            yield None
            return
        yield _inside(cluster, others)
        if self.predicting and job.predicted_high is not None:
            # it ends before these arrive even by the upper end of the band
            ends = cluster.now + job.predicted_high
            if open_zones := [other for other in others if ends <= other.arrives]:
                yield _inside(cluster, [other for other in others if other not in open_zones])

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Sequence[Running]]:
        """Return the preemptible jobs in the zone of a large job that is here, once no other is there."""
        own = next(
            (
                reservation
                for reservation in cluster.reservations
                if reservation.name == job.reservation and reservation.zone
            ),
            None,
        )
        if own is None:
            return ()
        zone = set(own.zone)
        there = [other for other in cluster.running if not zone.isdisjoint(other.places)]
        return [there] if there and all(other.preemptible for other in there) else ()


class NoReserve(PriorityFirst):
    """Algorithm 1 without a zone: each job in the queue that fits is started."""

    name = "arnold-no-reserve"
    summary = "Algorithm 1 without its zone: every job that fits is started, by priority and age"
    passing = True


class NoJct(Arnold):
    """Algorithm 1 without predictions: only preemptible jobs enter the zone."""

    name = "arnold-no-jct"
    summary = "Algorithm 1 without predicted run times: only preemptible jobs enter the zone"
    predicting = False


def _inside(cluster: ClusterState, closed: Sequence[CapacityReservation]) -> Keep:
    """Return what to keep so that only nodes outside some zones are left."""
    if not closed:
        return None
    keep = np.zeros_like(cluster.total)
    for reservation in closed:
        keep[list(reservation.zone)] = cluster.total[list(reservation.zone)]
    return keep


def place_zone(
    cluster: Cluster, job: Job, *, algorithm: PlacementAlgorithm, limits: Limits, taken: Iterable[int] = ()
) -> Outcome:
    """Return the placement whose nodes are the zone, and what it is worth; zones reserved before are ``taken``."""
    return run(algorithm, cluster.emptied().with_busy(taken), job, limits)


def find_zone(
    cluster: Cluster, job: Job, *, algorithm: PlacementAlgorithm, limits: Limits, taken: Iterable[int] = ()
) -> tuple[int, ...]:
    """Return the numbers of the nodes to reserve, in order; empty when the job would not fit even then."""
    outcome = place_zone(cluster, job, algorithm=algorithm, limits=limits, taken=taken)
    if outcome.evaluation is None or outcome.proposal.nodes is None:
        return ()
    return tuple(sorted(outcome.proposal.nodes.ravel().tolist()))
