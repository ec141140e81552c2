"""What a placed job asks of the links between domains: flows over the switches of a tier and of all closer tiers.

A DP group that touches several domains of a tier reduces between them with w nodes of each side by side, w being the
nodes in the domain that has fewest: w lanes up and down at each domain that it touches.  A PP group has a lane at a
domain for each hop that leaves it, forward and backward passes taking turns.  Groups that ask for the same are one
flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cost.group_crossings import GroupCrossings, columns_at, hops_of
from simulator.cost.tiers import Tier
from simulator.cost.types import PlacedJob
from topology.cluster import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Flows:
    """Flows of one family of a job across one tier.

    :param flow_of: shape [groups], the flow that a group is of; -1 = it stays inside a domain.
    :param count: number of flows.
    :param links: shape [uses], the link of each use, numbered over the tier and all closer ones.
    :param flows: shape [uses], the flow of each use.
    :param lanes: shape [uses], of all groups of the flow together.
    """

    flow_of: IntArray
    count: int
    links: IntArray
    flows: IntArray
    lanes: FloatArray


@dataclass(frozen=True, slots=True)
class TierDemand:
    """What a job asks of one tier.

    :param domains: shape [rows, columns], domain of each cell.
    """

    domains: IntArray
    columns: GroupCrossings
    dp: Flows
    pp: Flows


def demands_of(placed: PlacedJob, tiers: Sequence[Tier]) -> tuple[TierDemand, ...]:
    """Return what a job asks of each tier, from the broadest to the closest; nothing at all if it crosses none."""
    domains = [tier.level.domain_of[placed.nodes] for tier in tiers]
    if not any((of_cell != of_cell[0, 0]).any() for of_cell in domains):
        return ()
    sizes = [len(tier.level) for tier in tiers]
    around = placed.chunks > 1
    return tuple(_demand(domains[i:], sizes[i:], around=around) for i in range(len(tiers)))


def _demand(domains: Sequence[IntArray], sizes: Sequence[int], *, around: bool) -> TierDemand:
    columns = columns_at(domains[0])
    return TierDemand(
        domains=domains[0],
        columns=columns,
        dp=_flows(np.hstack([_reduction(columns, domains[0], *at) for at in zip(domains, sizes, strict=True)])),
        pp=_flows(np.hstack([_hops(domains[0], *at, around=around) for at in zip(domains, sizes, strict=True)])),
    )


def _reduction(columns: GroupCrossings, tier: IntArray, domains: IntArray, size: int) -> FloatArray:
    """Return lanes of DP groups that cross a tier, at each domain of that or a closer one.

    A closer domain carries the part of the lanes that its nodes are of the tier's domain.
    """
    count = domains.shape[1]
    column = np.broadcast_to(np.arange(count), domains.shape)
    crosses = columns.touched[column] > 1
    here = np.zeros((count, int(tier.max()) + 1))
    np.add.at(here, (column, tier), 1.0)
    lanes = np.zeros((count, size))
    np.add.at(lanes, (column, domains), crosses * columns.fewest[column] / here[column, tier])
    return lanes


def _hops(tier: IntArray, domains: IntArray, size: int, *, around: bool) -> FloatArray:
    """Return lanes of PP groups at each domain: hops across the tier that leave it, or that enter it, whichever are
    more.
    """
    one, other = hops_of(tier, around=around)
    source, target = hops_of(domains, around=around)
    row = np.broadcast_to(np.arange(len(tier))[:, None], one.shape)
    out, into = np.zeros((2, len(tier), size))
    np.add.at(out, (row, source), one != other)
    np.add.at(into, (row, target), one != other)
    return np.maximum(out, into)


def _flows(lanes: FloatArray) -> Flows:
    """Return groups with the same lanes made one flow.

    :param lanes: shape [groups, links].
    """
    crossing = np.flatnonzero(lanes.any(axis=1))
    flow_of = np.full(len(lanes), -1, dtype=np.int32)
    kinds, which, members = np.unique(lanes[crossing], axis=0, return_inverse=True, return_counts=True)
    flow_of[crossing] = which.ravel()
    flows, links = np.nonzero(kinds)
    return Flows(
        flow_of=flow_of,
        count=len(kinds),
        links=links.astype(np.int32),
        flows=flows.astype(np.int32),
        lanes=(kinds * members[:, None])[flows, links],
    )
