"""random-fit: any free node will do.

Source: arXiv 2509.15940, section 7.1, which does not say what is drawn; here every cell draws a free node of the whole
cluster, each with equal probability.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.heuristic import Heuristic, Request, by_rank
from topology.cluster import IntArray


def random_fit() -> Heuristic:
    """Make the paper's baseline random-fit."""
    return Heuristic("random-fit", "every cell takes a free node at random", by_rank(list_nodes, "rows"))


def list_nodes(request: Request) -> IntArray:
    """Return free nodes in an order that depends on the seed alone."""
    nodes = np.flatnonzero(request.admitted).astype(np.int32)
    return np.random.default_rng(request.seed).permutation(nodes)
