"""Jobs inside one node: where they do the least harm to gangs.  One rule, for the extender and the simulator.

Of the nodes with room, those come first that are in use anyway, the fullest of them; an idle node is broken into last,
and then one whose domains have the fewest idle nodes left, the broadest level first, so that large free domains stay
whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from topology.cluster import IntArray

Rows = npt.NDArray[np.signedinteger[Any]]
"""Numbers of nodes."""


def tightest(
    rows: Rows, *, free: IntArray, idle: npt.NDArray[np.bool_], idle_in_domain: Iterable[tuple[IntArray, IntArray]]
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
