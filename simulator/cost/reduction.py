"""All-reduce of a DP group of nodes: its time on a flat network, and what narrow tiers add."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simulator.cost.group_crossings import GroupCrossings
from simulator.cost.traffic import Traffic
from simulator.cost.types import PlacedJob
from topology.cluster import FloatArray
from topology.graph import GPU_BANDWIDTH


def reduction_seconds(traffic: Traffic, rows: int, bandwidth: float) -> float:
    """Return all-reduce of a DP group of nodes: ``2 (n - 1) / n * V / B``, which no algorithm undercuts.

    :param rows: n, nodes of the group.
    :param bandwidth: B, bytes a second of each node.
    """
    return 2.0 * (rows - 1) / rows * traffic.dp / bandwidth


def node_bandwidth(placed: PlacedJob) -> float:
    """Return bytes a second between a node of the job and the network, one way."""
    return placed.job.gpus_per_node * GPU_BANDWIDTH * 1e9


def tier_excess(tiers: Iterable[tuple[GroupCrossings, FloatArray | float]]) -> FloatArray:
    """Return what crossing tiers adds to ``(n - 1) / n``: sum of ``(k - 1) / k * (stretch - stretch of the closer tier)
    / w``.

    With k equal domains of w nodes this is the reduction in turns, inside the domains, between them with w nodes of
    each side by side, and inside again; for no oversubscription it is 0.

    :param tiers: from the broadest to the closest, what the groups touch and by what they are slowed there, shape
        [groups] or one number.  A broader tier is taken as at least as slow as a closer one.
    :returns: shape [groups].
    """
    total: FloatArray = np.zeros(1)
    closer: FloatArray = np.ones(1)
    for groups, stretch in reversed(list(tiers)):
        slowed = np.where(groups.touched > 1, np.maximum(stretch, closer), closer)
        total = total + (groups.touched - 1) / groups.touched * (slowed - closer) / groups.fewest
        closer = slowed
    return total
