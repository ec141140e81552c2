"""The cluster, its gangs and its single pods as queue policies see them: rows of the table, GPUs, seconds since 1970.

How long pods run is what they say (``arnold.dev/expected-duration``): expected and upper end of the band at once.  Of
a gang that says nothing it is what ended gangs tell (:meth:`ClusterCache.prediction`).  A gang runs from its first
binding on.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import inf

import numpy as np

from extender.cluster_cache import ClusterCache, key_of_pod
from extender.fleet.table import FleetTable
from extender.gangs.annotations import hints_of
from extender.gangs.job import nodes_needed, on_nodes
from extender.gangs.types import Gang, GangKey, InvalidGang
from extender.kubernetes_names import SCHEDULER
from extender.plans.gang_plan import GangPlan
from extender.plans.reservation import Reservation
from scheduler.queue.live_pass import LiveNodes
from scheduler.queue.policy import CapacityReservation, QueuedJob, RunningEntry, Waiting
from topology.cluster import BoolArray, IntArray
from topology.kubernetes.pods import Pod


def unevictable(state: ClusterCache) -> frozenset[GangKey]:
    """Return the gangs and single pods on nodes that a disruption budget keeps from being evicted whole."""
    pods: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in state.pods.values() if state.budgets else ():
        if pod.node is not None and not pod.terminal:
            pods[state.key_of(pod)].append(pod)
    return frozenset(key for key, of_key in pods.items() if state.unevictable(of_key))


def waiting_gang(state: ClusterCache, gang: Gang) -> QueuedJob:
    """Return a complete gang without nodes as it stands in the queue.

    Where several sizes of nodes will do, it wants nodes of that of most.  One that fits on no size is taken to want a
    node for each pod: it is told why it waits when it is asked about.
    """
    own, prediction, plan = reservation_for(state, gang), state.prediction(gang), state.plans.get(gang.key)
    rested = None if plan is None else plan.comes_again  # since it was refused on its nodes
    nodes, gpus, of_pods = gang.size or 0, 0, gang.job
    if of_pods is not None:
        gpus = of_pods.gpus_per_node
        with suppress(InvalidGang):
            gpus = on_nodes(of_pods, state.fleet.table.node_sizes).gpus_per_node
        nodes = nodes_needed(nodes, gpus // of_pods.gpus_per_node)
    return QueuedJob(
        key=gang.key,
        priority=gang.priority,
        submitted=max(gang.created, rested or gang.created).timestamp(),
        nodes=nodes,
        gpus=gpus,
        predicted=gang.seconds if prediction is None else prediction.seconds,
        predicted_high=gang.seconds if prediction is None else prediction.high,
        preemptible=gang.preemptible,
        reservation="" if own is None else str(own.key),
        gpu_types=None if gang.job is None else gang.job.gpu_types,
        mix_types=gang.job is not None and gang.job.mix_types,
        namespace=gang.key.namespace,
    )


def wanted_nodes(state: ClusterCache, plan: GangPlan) -> int:
    """Return how many nodes the gang of a plan without nodes waits for; 0 = it is gone."""
    return 0 if (gang := state.gang(plan.key)) is None else waiting_gang(state, gang).nodes


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
        namespace=pod.namespace,
    )


def running_jobs(state: ClusterCache, rows: Mapping[str, int], now: datetime) -> Iterator[RunningEntry[GangKey]]:
    """Yield all that has nodes, in no particular order; ``rows`` are those of the fleet's table."""
    for gang in state.gangs():
        plan = state.holding_plan(gang.key)
        bound, held = [pod for pod in gang.pods if pod.node is not None and not pod.terminal], Counter[str]()
        for pod in bound:
            held[pod.node or ""] += pod.readable_gpus
        names = dict.fromkeys((*(plan.promised if plan is not None else ()), *held))
        if not (places := tuple(rows[name] for name in names if name in rows)):
            continue
        gpus = max(held.values()) if plan is None else plan.gpus_per_node
        started = min((pod.bound_at for pod in bound), default=now).timestamp()
        prediction = state.prediction(gang)
        seconds = gang.seconds if prediction is None else prediction.seconds
        ends = inf if seconds is None else started + seconds
        leaving = plan is None and all(pod.leaving for pod in bound)
        key, priority, stoppable = gang.key, gang.priority, gang.preemptible
        yield RunningEntry(key, priority, stoppable, gpus, places, started, ends, leaving, gang.protected)
    for uid, tenant in state.fleet.held.holders.items():
        single, node, gpus = state.pods.get(uid), tenant.node, tenant.request.gpus
        if single is not None and node in rows and state.member(uid) is None:
            hints = hints_of((single,))
            started = single.bound_at.timestamp()
            ends = inf if hints.seconds is None else started + hints.seconds
            key, priority, places = key_of_pod(single), single.spec.priority or 0, (rows[node],)
            stoppable = hints.preemptible and single.spec.scheduler_name == SCHEDULER
            # one of a DaemonSet, or of the node itself, comes again where it was
            protected = hints.protected or (single.owner is not None and single.owner.kind in ("DaemonSet", "Node"))
            yield RunningEntry(key, priority, stoppable, gpus, places, started, ends, single.leaving, protected)


def reservation_for(state: ClusterCache, gang: Gang) -> Reservation | None:
    """Return the reservation with the zone that a gang may use; of several, the first to arrive."""
    if not state.reservations:
        return None
    meant = (zone for zone in state.reservations.values() if zone.held and _meant(zone, gang))
    return min(meant, key=lambda zone: (zone.ask.arrives, zone.key), default=None)


def gang_for(state: ClusterCache, reservation: Reservation) -> Gang | None:
    """Return the gang that uses a reservation, or will: one with nodes, else one that is complete, else the oldest."""
    if reservation.gang is not None:
        return state.gang(reservation.gang)
    meant = [gang for gang in state.gangs() if not gang.over and _meant(reservation, gang)]

    def order(gang: Gang) -> tuple[object, ...]:
        return state.holding_plan(gang.key) is None, not gang.complete, gang.created, gang.key

    return min(meant, key=order, default=None)


def claimed(state: ClusterCache, reservation: Reservation) -> bool:
    """Return whether its gang is here, complete, and waits for its nodes: then no other comes in."""
    gang = gang_for(state, reservation)
    return gang is not None and not gang.over and gang.complete and state.holding_plan(gang.key) is None


def _meant(reservation: Reservation, gang: Gang) -> bool:
    if gang.key.namespace != reservation.key.namespace:
        return False
    if reservation.gang is not None:
        return gang.key == reservation.gang
    return all(reservation.ask.labels.items() <= pod.labels.items() for pod in gang.pods)


@dataclass(frozen=True, slots=True, eq=False)
class UsableRows:
    """The nodes that a gang could use if the cluster were empty: shape [nodes], by row of a table."""

    table: FleetTable
    mask: BoolArray

    def of(self, table: FleetTable) -> BoolArray:
        """Shape [nodes], the same nodes as rows of another table."""
        if table is self.table:
            return self.mask
        mask = np.zeros(len(table.hosts), dtype=np.bool_)
        names = (self.table.hosts[row].name for row in np.flatnonzero(self.mask))
        mask[[table.index_of[name] for name in names if name in table.index_of]] = True
        return mask


_UNKNOWN: Mapping[GangKey, UsableRows] = {}


class FleetState(LiveNodes):
    """One look at the cluster cache, as a ``ClusterState``; what a policy does not ask for is not computed."""

    def __init__(self, state: ClusterCache, now: datetime, usable: Mapping[GangKey, UsableRows] = _UNKNOWN) -> None:
        super().__init__(state.fleet.table.tree, now.timestamp())
        self._state = state
        self._time = now
        self._usable = usable
        self._table = state.fleet.table
        self._masks: dict[int, BoolArray] = {}

    @property
    def version(self) -> int:
        """Of the fleet."""
        return self._state.fleet.version

    @cached_property
    def free(self) -> IntArray:
        """Shape [nodes], GPUs that no pod holds and that are promised to no gang."""
        return self._state.fleet.occupancy.available

    @cached_property
    def running(self) -> Sequence[RunningEntry[GangKey]]:
        """All that has nodes, by expected end."""
        entries = running_jobs(self._state, self._table.index_of, self._time)
        return sorted(entries, key=lambda entry: (entry.ends, entry.key))

    @cached_property
    def reservations(self) -> Sequence[CapacityReservation]:
        """Those with a zone that is kept for them; when its gang is here early, a reservation arrives now."""
        rows = self._table.index_of
        in_order = []
        for reservation in self._state.reservations.values():
            if reservation.held:
                here = claimed(self._state, reservation)
                arrives = min(reservation.ask.arrives, self._time) if here else reservation.ask.arrives
                seen = CapacityReservation(
                    name=str(reservation.key),
                    nodes=len(reservation.zone),
                    gpus=reservation.ask.gpus_per_node,
                    announced=reservation.announced.timestamp(),
                    arrives=arrives.timestamp(),
                    zone=tuple(rows[name] for name in reservation.zone if name in rows),
                    claimed=here,
                )
                in_order.append((arrives, reservation.key, seen))
        return tuple(seen for _, _, seen in sorted(in_order, key=lambda row: row[:2]))

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], those that a job could use, or where that is not known all on which new pods may come."""
        usable = self._usable.get(job.key) if isinstance(job.key, GangKey) else None
        about = id(None if usable is None else usable.mask)
        if about not in self._masks:
            if usable is None:
                hosts = (self._state.fleet.host(host.name) for host in self._table.hosts)
                self._masks[about] = np.array([host is not None and not host.fault for host in hosts], dtype=np.bool_)
            else:
                self._masks[about] = usable.of(self._table)
        return self._masks[about]

    def share(self, namespace: str) -> float:
        """Return the GPUs that a namespace has in use or is promised, divided by its weight."""
        return self._state.share(namespace)
