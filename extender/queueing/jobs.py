"""Gangs and single pods as queue policies see them.

How long they run is what their pods say (``arnold.dev/expected-duration``), which is expected and upper end of the band
at once; a gang runs from its first binding on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf

from extender.cluster_cache import ClusterCache as State
from extender.gangs import Gang, GangKey, hints_of
from extender.kubernetes_names import SCHEDULER
from extender.queueing.reserved import claimed, reservation_for
from extender.reservations import Reservation
from topology.readers.kubernetes_pods import Pod


@dataclass(frozen=True, slots=True)
class Waiting:
    """A complete gang without nodes, or a single pod.

    :param nodes: nodes that it needs.
    :param gpus: GPUs on each.
    """

    key: GangKey
    priority: int
    created: datetime
    nodes: int
    gpus: int = 8
    predicted: float | None = None
    preemptible: bool = False
    reservation: str = ""

    @property
    def submitted(self) -> float:
        """Seconds since 1970 UTC."""
        return self.created.timestamp()

    @property
    def predicted_high(self) -> float | None:
        """What the user says counts as the most."""
        return self.predicted


@dataclass(frozen=True, slots=True)
class Running:
    """A gang, or a single pod, that has nodes.

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
    """The key of a single pod; no gang has a slash in its name."""
    return GangKey(pod.namespace, f"pod/{pod.name}")


def waiting_gang(state: State, gang: Gang) -> Waiting:
    """A gang in the queue.

    Nobody counts as preemptible while an announced gang waits for its zone to be emptied: whoever came in now would
    have to leave at once.
    """
    own = reservation_for(state, gang)
    return Waiting(
        gang.key,
        gang.priority,
        gang.created,
        gang.size or 0,
        gpus=gang.job.gpus_per_node if gang.job is not None else 0,
        predicted=gang.seconds,
        preemptible=gang.preemptible and not _emptied(state, own),
        reservation="" if own is None else str(own.key),
    )


def waiting_pod(state: State, pod: Pod, gpus: int) -> Waiting:
    """A single pod that is looking for a node."""
    hints = hints_of((pod,))
    return Waiting(
        key_of_pod(pod),
        pod.spec.priority or 0,
        pod.created,
        1,
        gpus=gpus,
        predicted=hints.seconds,
        preemptible=hints.preemptible and pod.spec.scheduler_name == SCHEDULER and not _emptied(state, None),
    )


def running_jobs(state: State, rows: Mapping[str, int], now: datetime) -> Iterator[Running]:
    """All that has nodes, in no particular order.

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
            yield Running(
                key_of_pod(pod),
                pod.spec.priority or 0,
                hints.preemptible and pod.spec.scheduler_name == SCHEDULER,
                gpus,
                (rows[node],),
                started,
                inf if hints.seconds is None else started + hints.seconds,
                pod.leaving,
            )


def _running_gang(state: State, gang: Gang, rows: Mapping[str, int], now: datetime) -> Running | None:
    plan = state.plans.get(gang.key)
    holding = plan is not None and plan.holding
    bound = [pod for pod in gang.pods if pod.node is not None and not pod.terminal]
    names = dict.fromkeys((*(plan.nodes if plan is not None and holding else ()), *(pod.node or "" for pod in bound)))
    places = tuple(rows[name] for name in names if name in rows)
    if not places:
        return None
    gpus = plan.spec.gpus_per_node if plan is not None and holding else max(map(_gpus, bound), default=0)
    started = min((pod.bound_at for pod in bound), default=now).timestamp()
    ends = inf if gang.seconds is None else started + gang.seconds
    leaving = not holding and all(pod.leaving for pod in bound)
    return Running(gang.key, gang.priority, gang.preemptible, gpus, places, started, ends, leaving)


def _emptied(state: State, own: Reservation | None) -> bool:
    """Whether the zone of a reservation, one's own aside, is being emptied for a gang that is here."""
    others = (one for one in state.reservations.values() if one.held and one is not own)
    return any(claimed(state, one) for one in others)


def _gpus(pod: Pod) -> int:
    try:
        return pod.gpus
    except ValueError:
        return 0
