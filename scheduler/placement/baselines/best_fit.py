"""best-fit: always the minipod with the least room left.

Source: arXiv 2509.15940, section 7.1.  Read literally: a node goes to the minipod with the fewest free nodes that still
has one, so minipods fill up one after another from the fullest on.  Good against fragmentation, blind to spread: on a
fragmented cluster it collects the crumbs first.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.heuristic import Heuristic, Request, by_rank
from topology.cluster import IntArray


def best_fit() -> Heuristic:
    """Make the paper's baseline best-fit."""
    return Heuristic(
        "best-fit", "fill the minipod with the least room left, PP group by PP group", by_rank(list_nodes, "rows")
    )


def list_nodes(request: Request) -> IntArray:
    """Return nodes from the domain with the least room to the one with most; equal ones in the order of the cluster."""
    return np.concatenate(sorted(request.pools, key=len))
