"""Jobs that share nodes with others: they go where they do the least harm to gangs of whole nodes.

One rule for the extender and the simulator.  A job inside one node goes to a node that is in use anyway, the fullest
with room; an idle node is broken into last, and then one in the domains with the fewest idle nodes left, the broadest
level first, so that large free domains stay whole.  A gang that takes a part of each of its nodes (say 4 of 8 GPUs on
two) goes into the fewest domains, found greedily level by level: the domain with the least room that holds all of it,
else the one with the most room, and the rest as if it were a gang of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.placement.admission import BoolArray
from topology.cluster import IntArray

Rows = npt.NDArray[np.signedinteger[Any]]  # Numbers of nodes


def tightest(
    rows: Rows, *, free: IntArray, idle: BoolArray, idle_in_domain: Iterable[tuple[IntArray, IntArray]]
) -> Rows:
    """Return the nodes that fit best, all equally well.

    :param rows: shape [fitting], the nodes with room.
    :param free: shape [nodes], what is free on each.
    :param idle: shape [nodes], whether nothing of it is in use.
    :param idle_in_domain: for each level from broad to close: shape [nodes], the node's domain; and shape [domains],
        idle nodes in each.
    :returns: those of ``rows`` that are least in order.
    """
    if len(rows) < 2:
        return rows
    used: Rows = rows[~idle[rows]]
    left = used if len(used) else rows
    left = _least(left, free[left])
    for domain_of, count in idle_in_domain:
        if len(left) < 2:
            break
        left = _least(left, count[domain_of[left]])
    return left


def _least(rows: Rows, values: IntArray) -> Rows:
    least: Rows = rows[values == values.min()]
    return least


def fewest_domains(rows: Rows, count: int, *, free: IntArray, idle: BoolArray, domain_of: Sequence[IntArray]) -> Rows:
    """Choose nodes for a gang in as few domains as the greedy rule finds.

    :param rows: shape [fitting], the nodes with room; at least ``count``; ``free`` and ``idle`` as in :func:`tightest`.
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
