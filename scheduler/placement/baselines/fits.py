"""best-fit, random-fit and gpu-packing: baselines that list nodes and know nothing of spread.

Source: arXiv 2509.15940, section 7.1, a sentence each.

- **best-fit**, read literally: a node goes to the minipod with the fewest free nodes that still has one, so minipods
  fill up one after another from the fullest on.  Good against fragmentation, blind to spread: on a fragmented cluster
  it collects the crumbs first.
- **random-fit**: the paper does not say what is drawn; here every cell draws a free node of the whole cluster, each
  with equal probability.
- **gpu-packing**: as few minipods as possible.  The largest minipods first, since no other choice uses fewer; the
  remainder goes to the smallest minipod that holds it, which keeps the larger ones whole.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.heuristic import Heuristic, Request, by_rank
from topology.cluster import IntArray


def best_fit() -> Heuristic:
    """Make the paper's baseline best-fit."""
    return Heuristic(
        "best-fit", "fill the minipod with the least room left, PP group by PP group", by_rank(tightest_first, "rows")
    )


def tightest_first(request: Request) -> IntArray:
    """Return nodes from the domain with the least room to the one with most; equal ones in the order of the cluster."""
    return np.concatenate(sorted(request.pools, key=len))


def random_fit() -> Heuristic:
    """Make the paper's baseline random-fit."""
    return Heuristic("random-fit", "every cell takes a free node at random", by_rank(at_random, "rows"))


def at_random(request: Request) -> IntArray:
    """Return free nodes in an order that depends on the seed alone."""
    nodes = np.flatnonzero(request.admitted).astype(np.int32)
    return np.random.default_rng(request.seed).permutation(nodes)


def gpu_packing() -> Heuristic:
    """Make the paper's baseline gpu-packing."""
    return Heuristic(
        "gpu-packing",
        "as few minipods as possible, the largest first, PP group by PP group",
        by_rank(fewest_minipods, "rows"),
    )


def fewest_minipods(request: Request) -> IntArray:
    """Return nodes of the largest domains, then of the smallest domain that holds the rest."""
    left = request.grid.cells
    open_pools = sorted(request.pools, key=len, reverse=True)
    listed = []
    while left > 0:
        fitting = [i for i, pool in enumerate(open_pools) if len(pool) >= left]
        listed.append(open_pools.pop(fitting[-1] if fitting else 0)[:left])
        left -= len(listed[-1])
    return np.concatenate(listed)
