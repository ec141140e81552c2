"""Gangs that take a part of each of their nodes: in as few domains as possible, and as singles inside one.

A gang of whole nodes is for the placement algorithms.  One that takes, say, 4 of 8 GPUs on each of two nodes shares
nodes with others, which those do not model: for it any nodes with room will do, so the fewest domains are found
greedily, level by level: the domain with the least room that holds all of it, else the one with the most room, and the
rest as if it were a gang of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.placement.singles import Rows
from topology.cluster import IntArray


def fewest_domains(
    rows: Rows, count: int, *, free: IntArray, idle: npt.NDArray[np.bool_], domain_of: Sequence[IntArray]
) -> Rows:
    """Choose nodes for a gang in as few domains as the greedy rule finds.

    :param rows: shape [fitting], the nodes with room; at least ``count``.
    :param free: shape [nodes], what is free on each.
    :param idle: shape [nodes], whether nothing of it is in use.
    :param domain_of: for each level from broad to close: shape [nodes], the node's domain.
    :returns: shape [count], those in use before idle ones, the fullest first, then by number.
    """
    if not domain_of:
        order = np.lexsort((rows, free[rows], idle[rows]))
        first: Rows = rows[order[:count]]
        return first
    chosen: list[Rows] = []
    domains = domain_of[0][rows]
    while count:
        numbers, room = np.unique(domains, return_counts=True)
        enough = room >= count
        best = int(numbers[enough][room[enough].argmin()]) if enough.any() else int(numbers[room.argmax()])
        inside = rows[domains == best]
        part = min(count, len(inside))
        chosen.append(fewest_domains(inside, part, free=free, idle=idle, domain_of=domain_of[1:]))
        count -= part
        rows, domains = rows[domains != best], domains[domains != best]
    return np.concatenate(chosen)
