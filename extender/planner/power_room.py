"""Which nodes the pods of a gang would overload a power domain on, by what pods say of their peak."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.fleet.fleet_table import FleetTable
from extender.gangs.gang_annotations import watts_of
from extender.gangs.types import Gang, GangKey
from extender.queueing import key_of_pod
from scheduler.power_caps import power_caps
from topology.cluster import BoolArray, Cluster, FloatArray, IntArray


def without_power(
    state: ClusterCache,
    gang: Gang,
    table: FleetTable,
    cluster: Cluster,
    rows: IntArray,
    *,
    kept: Sequence[str] = (),
    lost: Sequence[str] = (),
    gone: AbstractSet[GangKey] = frozenset(),
) -> BoolArray:
    """Return shape [nodes of the cluster], idle nodes that the gang may not have: their power domain has too little.

    :param rows: shape [nodes of the cluster], the row of each in the table; -1 = it is gone.
    :param kept: nodes of its plan, which it may have in any case.
    :param lost: those of them that its pods leave.
    :param gone: gangs that are taken to be gone.
    """
    dark = np.zeros(len(cluster), dtype=np.bool_)
    watts = max((watts_of(pod) for pod in gang.pods), default=0.0)
    if table.tree is None or not watts:
        return dark
    levels = {level.name: level for level in table.tree.second_levels}
    here = np.flatnonzero(cluster.idle & (rows >= 0))
    candidates = np.zeros(len(table.tree), dtype=np.bool_)
    candidates[rows[here]] = True
    each = 1 if gang.job is None else max(1, gang.job.gpus_per_node)
    more = watts * np.clip(table.tree.gpus // each, 1, len(gang.members) or 1).astype(np.float64)
    drawn = _drawn(state, table, leaving={(gang.key, name) for name in lost}, gone=gone)
    for name, cap in state.power_caps.items():
        if name in levels:
            caps = power_caps(levels[name], each=cap, named={})
            candidates = caps.admitted(table.tree, candidates, more, drawn)
    dark[here] = ~candidates[rows[here]]
    dark[[cluster.index_of[name] for name in kept if name in cluster.index_of]] = False
    return dark


def _drawn(
    state: ClusterCache, table: FleetTable, *, leaving: AbstractSet[tuple[GangKey, str]], gone: AbstractSet[GangKey]
) -> FloatArray:
    """Return what is drawn at peak on each node of the table, by pods that are there and those that are to come."""
    drawn = np.zeros(len(table.hosts))

    def add(key: GangKey, name: str, watts: float) -> None:
        row = None if key in gone or (key, name) in leaving else table.index_of.get(name)
        if row is not None:
            drawn[row] += watts

    for uid, pod in state.pods.items():
        node = pod.node or state.fleet.pinned(uid)
        if node is not None and not pod.terminal:
            member = state.member(uid)
            add(key_of_pod(pod) if member is None else member.key, node, watts_of(pod))
    for plan in state.plans.values():
        gang = state.gang(plan.key) if plan.holding else None
        if gang is None:
            continue
        watts = max((watts_of(pod) for pod in gang.pods), default=0.0)
        for rank, name in enumerate(plan.nodes):
            there = gang.members[rank] if rank < len(gang.members) else None
            if rank not in gang.done and (there is None or there.pod.node is None):
                add(plan.key, name, watts)
    return drawn
