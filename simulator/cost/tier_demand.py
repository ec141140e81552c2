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

from simulator.cost.tiers import Crossing, Tier, hops_of
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
    """What a job asks of one tier."""

    crossing: Crossing
    dp: Flows
    pp: Flows


def demands_of(placed: PlacedJob, tiers: Sequence[Tier]) -> tuple[TierDemand, ...]:
    """Return what a job asks of each tier, from the broadest to the closest; nothing at all if it crosses none."""
    domains = [tier.level.domain_of[placed.nodes] for tier in tiers]
    if not any((of_cell != of_cell[0, 0]).any() for of_cell in domains):
        return ()
    # each with the number of its domains: a flow holds the links of all closer tiers too
    sized = [(of_cell, len(tier.level)) for of_cell, tier in zip(domains, tiers, strict=True)]
    found = []
    for i, of_cell in enumerate(domains):
        crossing = Crossing.of(of_cell)
        dp = np.hstack([_reduction(crossing, *at) for at in sized[i:]])
        pp = np.hstack([_hops(of_cell, *at, around=placed.around) for at in sized[i:]])
        found.append(TierDemand(crossing, _flows(dp), _flows(pp)))
    return tuple(found)


def _reduction(crossing: Crossing, domains: IntArray, size: int) -> FloatArray:
    """Return lanes of DP groups that cross a tier, at each domain of that or a closer one.

    A closer domain carries the part of the lanes that its nodes are of the tier's domain.
    """
    count = domains.shape[1]
    column = np.broadcast_to(np.arange(count), domains.shape)
    tier, crosses = crossing.domains, crossing.touched[column] > 1
    here = np.zeros((count, int(tier.max()) + 1))
    np.add.at(here, (column, tier), 1.0)
    lanes = np.zeros((count, size))
    np.add.at(lanes, (column, domains), crosses * crossing.fewest[column] / here[column, tier])
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
