"""Single pods with GPUs: of the nodes that are not promised, the best by ``scheduler.placement.singles``.

Zones of reservations are closed to them as to gangs, by the queue policy: first it offers what lies outside, then
perhaps the zones that a pod will have left in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import compress, repeat

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.fleet import Fleet
from extender.queueing import FleetState, waiting_pod
from scheduler.placement import singles
from scheduler.queue.candidate import live_candidate
from scheduler.queue.types import Keep, QueuePolicy
from topology.readers.kubernetes_pods import Pod

RESERVED = "reserved for a gang that was announced"
"""Why a node of a zone is refused."""

_ALL: tuple[Keep, ...] = (None,)


def keeps_for(state: ClusterCache, policy: QueuePolicy, pod: Pod, gpus: int, now: datetime) -> Sequence[Keep]:
    """Return what a pod must leave free, for each attempt to place it."""
    if not any(one.held for one in state.reservations.values()):
        return _ALL
    return tuple(live_candidate(policy, waiting_pod(pod, gpus), FleetState(state, now)).offers)


def reserved(state: ClusterCache, keeps: Sequence[Keep]) -> AbstractSet[str]:
    """Return the names of the nodes that are closed even in the last attempt."""
    if not keeps or keeps[-1] is None:
        return frozenset() if keeps else state.fleet.table.index_of.keys()
    hosts = state.fleet.table.hosts
    return frozenset(hosts[i].name for i in np.flatnonzero(keeps[-1]))


def tightest(
    fleet: Fleet, names: Sequence[str], gpus: int, now: datetime, *, keeps: Sequence[Keep] = _ALL
) -> tuple[list[str], dict[str, str]]:
    """Return the nodes that fit a pod best, all equally well; and those closed to any preemption, with the reason.

    :param names: the nodes that the scheduler thinks fit.
    :param gpus: GPUs that the pod asks for, at least 1.
    :param keeps: what it must leave free; the first attempt that finds a node counts.
    """
    occupancy = fleet.occupancy
    rows = np.fromiter(map(fleet.table.index_of.get, names, repeat(-1)), np.int32, len(names))
    position = np.flatnonzero(rows >= 0)
    rows = rows[position]
    promised = np.zeros(len(names), dtype=np.bool_)
    promised[position] = occupancy.promised[rows]
    refused = dict.fromkeys(compress(names, promised.tolist()), "promised to a gang")
    fits = (occupancy.free[rows] >= gpus) & ~occupancy.promised[rows]
    for i in np.flatnonzero(fits & fleet.annotated[rows]).tolist():
        name = names[position[i]]
        if ailment := fleet.ailing(name, now):
            refused[name] = ailment
            fits[i] = False
    opened = np.zeros(len(rows), dtype=np.bool_)
    for keep in keeps:
        opened = np.ones_like(fits) if keep is None else occupancy.free[rows] - gpus >= keep[rows]
        if (fits & opened).any():
            break
    for i in np.flatnonzero(fits & ~opened).tolist():
        refused.setdefault(names[position[i]], RESERVED)
    best = singles.tightest(
        rows[fits & opened], free=occupancy.free, idle=occupancy.idle, idle_in_domain=occupancy.idle_in_domain
    )
    chosen = position[np.isin(rows, best)].tolist()
    return [names[i] for i in chosen], refused
