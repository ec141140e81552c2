"""What policies are made from: the two simplest, and what is kept from a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.queue.queue_policy import ClusterState, HeldNodes, Keep, Rank, Running, Waiting
from topology.cluster import BoolArray


def ends_by(job: Waiting, now: float, until: float) -> bool:
    """Return whether a job that starts now is expected to end by a moment."""
    return job.predicted is not None and now + job.predicted <= until


def surely_ends_by(job: Waiting, now: float, until: float) -> bool:
    """Return whether it ends by then even by the upper end of the band."""
    return job.predicted_high is not None and now + job.predicted_high <= until


def kept(holds: Sequence[HeldNodes], job: Waiting, cluster: ClusterState) -> Keep:
    """Return what several holds keep together from a job; ``None`` = nothing."""
    if not holds:
        return None
    arrays = [hold.against(job, cluster) for hold in holds]
    return arrays[0] if len(arrays) == 1 else np.sum(arrays, axis=0, dtype=np.int32)


def usable_together(job: Waiting, cluster: ClusterState) -> Sequence[BoolArray]:
    """Return among which nodes a job could lie if the cluster were empty: all that it could use, or those of each
    compartment.

    :returns: masks of shape [nodes]; no compartment without a node for it.
    """
    usable, compartment_of = cluster.usable(job), cluster.compartments(mix_types=job.mix_types)
    if compartment_of is None:
        return (usable,)
    return [usable & (compartment_of == number) for number in np.unique(compartment_of[usable])]


class BasePolicy:
    """First come, first asked; none passes; none is stopped."""

    passing = False
    claims: int | None = 0
    sharing = False
    reserving = False
    stops_any_time = False
    round_seconds: float | None = None

    def rank(self, job: Waiting) -> Rank:
        """Rank by time of submission."""
        return (job.submitted, job.key)

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:  # noqa: ARG002
        """Keep nothing."""
        return ()

    def offers(self, job: Waiting, cluster: ClusterState, holds: Sequence[HeldNodes]) -> Iterable[Keep]:
        """Offer everything but what is kept beyond the job's expected end."""
        return (kept([hold for hold in holds if not ends_by(job, cluster.now, hold.until)], job, cluster),)

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Sequence[Running]]:  # noqa: ARG002
        """Stop none."""
        return ()


class PriorityFirst(BasePolicy):
    """Higher priority first, older first among equals."""

    def rank(self, job: Waiting) -> Rank:
        """Rank by priority, submission and key."""
        return (-job.priority, job.submitted, job.key)
