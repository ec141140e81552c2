"""gpu-packing: as few minipods as possible.

Source: arXiv 2509.15940, section 7.1.  The largest minipods first, since no other choice uses fewer; the remainder goes
to the smallest minipod that holds it, which keeps the larger ones whole.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.heuristic import Heuristic, Request, by_rank
from topology.cluster import IntArray


def gpu_packing() -> Heuristic:
    """Make the paper's baseline gpu-packing."""
    return Heuristic(
        "gpu-packing",
        "as few minipods as possible, the largest first, PP group by PP group",
        by_rank(list_nodes, "rows"),
    )


def list_nodes(request: Request) -> IntArray:
    """Return nodes of the largest domains, then of the smallest domain that holds the rest."""
    left = request.grid.cells
    open_pools = sorted(request.pools, key=len, reverse=True)
    listed = []
    while left > 0:
        fitting = [i for i, pool in enumerate(open_pools) if len(pool) >= left]
        listed.append(open_pools.pop(fitting[-1] if fitting else 0)[:left])
        left -= len(listed[-1])
    return np.concatenate(listed)
