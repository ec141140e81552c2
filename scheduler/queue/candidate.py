"""A job whose turn it is: on which terms it may start now, and what the driver of the pass answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from scheduler.queue.types import (
    CapacityReservation,
    ClusterState,
    HeldNodes,
    Keep,
    QueuedJob,
    QueuePolicy,
    Running,
    Waiting,
)

J = TypeVar("J", bound=Waiting)


@dataclass(slots=True, eq=False)
class Candidate(Generic[J]):
    """A question: whether a job has room now; and the driver's answer.

    :param offers: what the job must leave free, one array for each attempt; the first attempt that finds room counts.
        None at all = it may not start now.
    :param ahead: jobs before it for which something is kept.
    :param passing: whether any job may pass one that waits.
    :param emptying: its own zone will be clear when those have gone that are leaving or may be stopped.
    :param victims: asked as if these had left; they are to be stopped if there is room then.
    :param trial: nothing is to be started.
    :param found: the answer; ``None`` = there is none, and the job is left out of this pass.
    :param possible: of a live cluster, whether the job would have room if the cluster were empty.
    """

    job: J
    offers: Iterable[Keep] = (None,)
    ahead: Sequence[J] = ()
    passing: bool = True
    emptying: bool = False
    victims: Sequence[Running] = ()
    trial: bool = False
    found: bool | None = None
    possible: bool = True


def candidate_of(
    policy: QueuePolicy,
    job: J,
    cluster: ClusterState,
    *,
    seen: Waiting | None = None,
    holds: Sequence[HeldNodes] = (),
    live: bool,
) -> Candidate[J]:
    """Return the question on which terms a job may start now.

    :param seen: the job as the policy is to see it; ``None`` = as it is.
    :param holds: for those before it.
    :param live: whether the cluster is a real one (``scheduler.queue.dispatch``).
    """
    seen = job if seen is None else seen
    if not live:
        return Candidate(job, policy.offers(seen, cluster, holds))
    if seen.preemptible and any(one.claimed and one.name != job.reservation for one in cluster.reservations):
        seen = QueuedJob.of(seen, preemptible=False)
    offers = policy.offers(seen, cluster, holds)
    emptying = _is_being_emptied(job, cluster)
    return Candidate(job, tuple(islice(offers, 1) if emptying else offers), emptying=emptying)


def closed_to(candidate: Candidate[J], cluster: ClusterState) -> tuple[CapacityReservation, ...]:
    """Return the reservations whose zone is closed to a job even in the last attempt.

    :param candidate: of a live cluster.
    """
    offers = tuple(candidate.offers)
    last = offers[-1] if offers else cluster.total
    if last is None:
        return ()
    others = (one for one in cluster.reservations if one.zone and one.name != candidate.job.reservation)
    return tuple(one for one in others if last[list(one.zone)].any())


def _is_being_emptied(job: Waiting, cluster: ClusterState) -> bool:
    """Return whether all that are left in a job's own zone go away for it, and it has room there then."""
    own = next((one for one in cluster.reservations if job.reservation and one.name == job.reservation), None)
    if own is None or np.count_nonzero(cluster.usable(job)[list(own.zone)]) < job.nodes:
        return False
    zone = set(own.zone)
    there = [one for one in cluster.running if not zone.isdisjoint(one.places)]
    return bool(there) and all(one.preemptible or one.leaving for one in there)
