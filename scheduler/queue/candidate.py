"""A job whose turn it is: on which terms it may start now, and what the driver of the pass answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Generic, TypeVar

import numpy as np

from scheduler.queue.allocation import Allocation
from scheduler.queue.queue_policy import (
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


@dataclass(eq=False)
class Candidate(Generic[J]):
    """A question: whether a job has room now; and the driver's answer."""

    job: J
    offers: Iterable[Keep]
    """What the job must leave free, one array for each attempt; the first attempt that finds room counts.  None at all
    = it may not start now."""
    # A default that is not set by the constructor costs nothing: replays make hundreds of thousands of candidates.
    ahead: Sequence[J] = field(default=(), init=False)  # Jobs before it for which something is kept
    passing: bool = field(default=True, init=False)  # Whether any job may pass one that waits
    outshared: bool = field(default=False, init=False)
    """The first before it is of another namespace, whose turn came first by its share."""
    emptying: bool = field(default=False, init=False)
    """Its own zone will be clear when those have gone that are leaving or may be stopped."""
    victims: Sequence[Running] = field(default=(), init=False)
    """Asked as if these had left; those of them that are on nodes that it then has are to be stopped for it."""
    allocations: Sequence[Allocation] = field(default=(), init=False)
    """In rounds, how the job may lie, in place of offers: the first that has room counts; a victim may be the job
    itself, which then moves."""
    trial: bool = field(default=False, init=False)  # Nothing is to be started or stopped
    found: bool | None = field(default=None, init=False)
    """The answer; ``None`` = there is none, and the job is left out of this pass."""
    objective: float = field(default=inf, init=False)
    """Of a placement with which a set of victims is compared with others, its objective; infinite = it has none."""
    possible: bool = field(default=True, init=False)
    """Of a live cluster, whether the job would have room if the cluster were empty."""


def live_candidate(
    policy: QueuePolicy, job: J, cluster: ClusterState, *, holds: Sequence[HeldNodes] = ()
) -> Candidate[J]:
    """Return the question on which terms a job may start now on a live cluster; ``holds`` are for those before it."""
    seen: Waiting = job
    if job.preemptible and any(one.claimed and one.name != job.reservation for one in cluster.reservations):
        seen = QueuedJob.of(job, preemptible=False)
    offers = policy.offers(seen, cluster, holds)
    emptying = _is_being_emptied(job, cluster)
    candidate = Candidate(job, tuple(islice(offers, 1) if emptying else offers))
    candidate.emptying = emptying
    return candidate


def candidate_without(
    victims: Sequence[Running], policy: QueuePolicy, job: J, cluster: ClusterState, *, live: bool
) -> Candidate[J]:
    """Return the question whether a job has room when some others have left."""
    candidate = live_candidate(policy, job, cluster) if live else Candidate(job, policy.offers(job, cluster, ()))
    candidate.victims = sorted(victims, key=lambda one: (one.started, one.key))
    return candidate


def closed_to(candidate: Candidate[J], cluster: ClusterState) -> tuple[CapacityReservation, ...]:
    """Return the reservations whose zone is closed to a job of a live cluster even in the last attempt."""
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
