"""Which real domain takes which part: the shape of a placement is found, its domains are still free to choose.

A placement with some (S, R) stays one when the cells of a domain move together to another domain with room for them.
The choice is a matching of parts to domains: fewest flagged nodes first, then the least room in the domains touched, so
that large free domains stay whole (best fit).
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.exact.instance import Instance
from topology.cluster import IntArray


def choose_domains(instance: Instance, part_of_block: IntArray) -> IntArray:
    """The domain of each block, by index at the job's level.

    :param part_of_block: shape [rows, columns] of blocks: domains as the grid problem numbers them, read as parts.
    :returns: same shape.
    """
    from ortools.graph.python import linear_sum_assignment

    size = instance.blocks.size
    parts, sizes = np.unique(part_of_block, return_counts=True)
    room = instance.room[instance.domains].astype(np.int64)
    healthy = instance.healthy[instance.domains].astype(np.int64)
    part, domain = np.nonzero(sizes[:, None] <= room[None, :])
    flagged = np.maximum(sizes[part] * size - healthy[domain], 0)
    cost = flagged * (int(room.sum()) * size + 1) + room[domain] * size
    assignment = linear_sum_assignment.SimpleLinearSumAssignment()
    # parts beyond the real ones are empty and may go anywhere: the solver wants as many parts as domains
    idle = np.arange(len(parts), len(room))
    assignment.add_arcs_with_cost(part, domain, cost)
    if len(idle):
        everywhere = np.tile(np.arange(len(room)), len(idle))
        assignment.add_arcs_with_cost(np.repeat(idle, len(room)), everywhere, np.zeros(len(everywhere), dtype=np.int64))
    if assignment.solve() != assignment.OPTIMAL:
        raise AssertionError("the parts came from these domains, so they fit")
    domain_of_part = np.zeros(int(parts.max()) + 1, dtype=np.int32)
    for i, p in enumerate(parts):
        domain_of_part[p] = instance.domains[assignment.right_mate(i)]
    return domain_of_part[part_of_block]
