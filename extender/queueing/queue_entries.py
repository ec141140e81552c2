"""Gangs and single pods as queue policies see them.

How long they run is what their pods say (``arnold.dev/expected-duration``), which is expected and upper end of the band
at once; a gang runs from its first binding on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf

from extender.cluster_cache import ClusterCache
from extender.gangs.hints import hints_of
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import SCHEDULER
from extender.plans.reservation import Reservation
from scheduler.queue.types import QueuedJob
from topology.readers.kubernetes_pods import Pod


@dataclass(frozen=True, slots=True)
class RunningEntry:
    """A gang, or a single pod, that has nodes: a ``Running`` of the queue policies."""

    key: GangKey
    priority: int
    preemptible: bool
    gpus: int
    places: tuple[int, ...]
    started: float  # seconds since 1970 UTC
    ends: float
    leaving: bool = False  # whether all that it has on nodes is being deleted


def key_of_pod(pod: Pod) -> GangKey:
    """Return the key of a single pod; no gang has a slash in its name."""
    return GangKey(pod.namespace, f"pod/{pod.name}")


def waiting_gang(state: ClusterCache, gang: Gang) -> QueuedJob:
    """Return a complete gang without nodes as it stands in the queue."""
    own = reservation_for(state, gang)
    return QueuedJob(
        key=gang.key,
        priority=gang.priority,
        submitted=gang.created.timestamp(),
        nodes=gang.size or 0,
        gpus=gang.job.gpus_per_node if gang.job is not None else 0,
        predicted=gang.seconds,
        predicted_high=gang.seconds,
        preemptible=gang.preemptible,
        reservation="" if own is None else str(own.key),
    )


def waiting_pod(pod: Pod, gpus: int) -> QueuedJob:
    """Return a single pod that is looking for a node."""
    hints = hints_of((pod,))
    return QueuedJob(
        key=key_of_pod(pod),
        priority=pod.spec.priority or 0,
        submitted=pod.created.timestamp(),
        nodes=1,
        gpus=gpus,
        predicted=hints.seconds,
        predicted_high=hints.seconds,
        preemptible=hints.preemptible and pod.spec.scheduler_name == SCHEDULER,
    )


def running_jobs(state: ClusterCache, rows: Mapping[str, int], now: datetime) -> Iterator[RunningEntry]:
    """Yield all that has nodes, in no particular order; ``rows`` are those of the fleet's table."""
    for gang in state.gangs():
        if (job := _running_gang(state, gang, rows, now)) is not None:
            yield job
    for uid, (node, gpus) in state.fleet.holding.items():
        pod = state.pods.get(uid)
        if pod is not None and node in rows and state.member(uid) is None:
            hints = hints_of((pod,))
            started = pod.bound_at.timestamp()
            yield RunningEntry(
                key_of_pod(pod),
                pod.spec.priority or 0,
                hints.preemptible and pod.spec.scheduler_name == SCHEDULER,
                gpus,
                (rows[node],),
                started,
                inf if hints.seconds is None else started + hints.seconds,
                pod.leaving,
            )


def _running_gang(state: ClusterCache, gang: Gang, rows: Mapping[str, int], now: datetime) -> RunningEntry | None:
    plan = state.holding_plan(gang.key)
    bound = [pod for pod in gang.pods if pod.node is not None and not pod.terminal]
    names = dict.fromkeys((*(plan.nodes if plan is not None else ()), *(pod.node or "" for pod in bound)))
    places = tuple(rows[name] for name in names if name in rows)
    if not places:
        return None
    gpus = max(pod.readable_gpus for pod in bound) if plan is None else plan.spec.gpus_per_node
    started = min((pod.bound_at for pod in bound), default=now).timestamp()
    ends = inf if gang.seconds is None else started + gang.seconds
    leaving = plan is None and all(pod.leaving for pod in bound)
    return RunningEntry(gang.key, gang.priority, gang.preemptible, gpus, places, started, ends, leaving)


def reservation_for(state: ClusterCache, gang: Gang) -> Reservation | None:
    """Return the reservation with the zone that a gang may use; of several, the first to arrive."""
    if not state.reservations:
        return None
    found = (one for one in state.reservations.values() if one.held and _meant(one, gang))
    return min(found, key=lambda one: (one.ask.arrives, one.key), default=None)


def gang_for(state: ClusterCache, reservation: Reservation) -> Gang | None:
    """Return the gang that uses a reservation, or will: one with nodes, else one that is complete, else the oldest."""
    if reservation.gang is not None:
        return state.gang(reservation.gang)
    found = [gang for gang in state.gangs() if not gang.over and _meant(reservation, gang)]

    def order(gang: Gang) -> tuple[object, ...]:
        return state.holding_plan(gang.key) is None, not gang.complete, gang.created, gang.key

    return min(found, key=order, default=None)


def claimed(state: ClusterCache, reservation: Reservation) -> bool:
    """Return whether its gang is here, complete, and waits for its nodes: then no other comes in."""
    gang = gang_for(state, reservation)
    return gang is not None and not gang.over and gang.complete and state.holding_plan(gang.key) is None


def _meant(reservation: Reservation, gang: Gang) -> bool:
    if gang.key.namespace != reservation.key.namespace:
        return False
    if reservation.gang is not None:
        return gang.key == reservation.gang
    wanted = reservation.ask.labels.items()
    return all(wanted <= pod.labels.items() for pod in gang.pods)
