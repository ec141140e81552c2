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
from extender.gangs import Gang, GangKey, hints_of
from extender.kubernetes_names import SCHEDULER
from extender.queueing.reserved import reservation_for
from scheduler.queue.types import QueuedJob
from topology.readers.kubernetes_pods import Pod


@dataclass(frozen=True, slots=True)
class RunningEntry:
    """A gang, or a single pod, that has nodes: a ``Running`` of the queue policies.

    :param places: rows of the fleet's table.
    :param started: seconds since 1970 UTC.
    :param leaving: whether all that it has on nodes is being deleted.
    """

    key: GangKey
    priority: int
    preemptible: bool
    gpus: int
    places: tuple[int, ...]
    started: float
    ends: float
    leaving: bool = False


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
    """Yield all that has nodes, in no particular order.

    :param rows: node -> row of the fleet's table.
    """
    for gang in state.gangs():
        if (job := _running_gang(state, gang, rows, now)) is not None:
            yield job
    for uid, (node, gpus) in state.fleet.holding.items():
        pod = state.pod(uid)
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
    plan = state.plans.get(gang.key)
    holding = plan is not None and plan.holding
    bound = [pod for pod in gang.pods if pod.node is not None and not pod.terminal]
    names = dict.fromkeys((*(plan.nodes if plan is not None and holding else ()), *(pod.node or "" for pod in bound)))
    places = tuple(rows[name] for name in names if name in rows)
    if not places:
        return None
    of_pods = max((pod.readable_gpus for pod in bound), default=0)
    gpus = plan.spec.gpus_per_node if plan is not None and holding else of_pods
    started = min((pod.bound_at for pod in bound), default=now).timestamp()
    ends = inf if gang.seconds is None else started + gang.seconds
    leaving = not holding and all(pod.leaving for pod in bound)
    return RunningEntry(gang.key, gang.priority, gang.preemptible, gpus, places, started, ends, leaving)
