"""KAI scheduler, v0.14: topology plugin with a preferred level.

Source: kai-scheduler/KAI-Scheduler v0.14, ``pkg/scheduler/plugins/topology`` (job_filtering.go, node_scoring.go) and
docs/topology; read, not copied.

1. Bin-packing across domains: siblings are tried from the one with the least free GPUs to the one with most (equal ones
   by name), the preferred level first, then each broader level; the first domain that holds the whole job is taken.
2. Inside a domain broader than preferred, nodes are scored by the place of their preferred-level domain in the same
   order, roomiest best, in steps of a tenth: ``floor(10 * place / domains)``.  Best score first, equal ones by name.

With more than ten domains several share a score, and their nodes mix by name.

Left out: required levels, sub-groups and segments, fractions of GPUs, other plugins' scores (equal for whole free
nodes).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from scheduler.placement.heuristic import Heuristic, Request
from scheduler.placement.node_order import domain_ranks, ranks_of
from topology.cluster import IntArray, count_nodes


def list_nodes(request: Request) -> IntArray:
    """Return nodes in the order of ranks."""
    levels = request.cluster.levels[: request.level_index + 1]
    free = [count_nodes(level, request.admitted) for level in levels]
    # the place of each domain in its level when siblings are sorted by free nodes, then by name
    places: list[IntArray] = []
    for level, room, rank in zip(request.cluster.levels, free, domain_ranks(request.cluster.levels), strict=False):
        broader = places[-1][level.parent_of] if places else np.zeros(len(level), dtype=np.int32)
        place = np.empty(len(level), dtype=np.int32)
        place[np.lexsort((rank, room, broader))] = np.arange(len(level), dtype=np.int32)
        places.append(place)
    inside = request.admitted
    # from the preferred level to ever broader ones: the first domain that holds the whole job
    for level, room, at in zip(reversed(levels), reversed(free), reversed(places), strict=True):
        roomy = np.flatnonzero(room >= request.grid.cells)
        if len(roomy):
            inside = inside & (level.domain_of == roomy[np.argmin(at[roomy])])
            break
    nodes = np.flatnonzero(inside).astype(np.int32)
    # steps of a tenth, as KAI scores from 0 to 10
    score = 10 * (places[-1][request.level.domain_of[nodes]] + 1) // len(request.level)
    return nodes[np.lexsort((ranks_of(request.cluster.names)[nodes], -score))]


kai = partial(Heuristic, "kai", "KAI 0.14: tightest domain that fits, else the roomiest first", list_nodes)
