"""Seating: from the domain of every cell to its node, so that neighbours in a group are neighbours on the wire.

The search decides which domain of the job's level each cell goes to.  Inside every domain the same problem comes again
one level down, and again, until a domain is a set of nodes: at each level the cells of a domain are shared out among
its children so that the whole job's Eq. 2 *at that level* is least, then its mean spread, then the number of children
in use.  What the job's own level counts is fixed by the caller and never changes here.

In this order: holds are kept, fewest slow nodes are used (least slow first), spread is least, whole racks stay free.
"""

from __future__ import annotations

import numpy as np

from scheduler.job import Job
from scheduler.placement.admission import BoolArray
from scheduler.placement.seating.refine import GridSolver, refine
from scheduler.placement.seating.seats import choose_pool, seat_on_nodes
from topology.cluster import Cluster, IntArray, Level

__all__ = ["GridSolver", "seat"]


def seat(
    cluster: Cluster,
    job: Job,
    *,
    level: Level,
    domain_of_cell: IntArray,
    admitted: BoolArray,
    solve_grid: GridSolver | None = None,
    seconds: float = 0.5,
) -> IntArray:
    """Turn an assignment of cells to domains into nodes.

    Deterministic, as long as ``solve_grid`` is and time does not run out.

    :param level: the level that ``domain_of_cell`` speaks of.
    :param domain_of_cell: shape [rows, columns], index of a domain of ``level``; cells that holds tie together at this
        level or a closer one lie in one domain, and no domain is given more than it can take in whole blocks
        (:func:`scheduler.placement.blocks.capacity_by_level`).
    :param admitted: shape [nodes], the nodes that may be used.
    :param solve_grid: exact search for one rectangle of cells; ``None`` = shelves alone.
    :param seconds: wall-clock limit of all exact searches together.
    :returns: shape [rows, columns], index of the node of each cell.
    :raises ValueError: a domain was given more cells than it can take; a fault of the caller.
    :raises UnknownName: a hold names a level that the cluster does not have.
    """
    depth = cluster.level_index(level.name)
    needed = np.bincount(domain_of_cell.ravel(), minlength=len(level)).astype(np.int32)
    pool = choose_pool(cluster, job, depth=depth, needed=needed, admitted=admitted)
    steps = range(depth, len(cluster.levels) - 1)
    for step in steps:
        domain_of_cell = refine(
            cluster,
            job,
            depth=step,
            domain_of_cell=domain_of_cell,
            pool=pool,
            solve_grid=solve_grid,
            seconds=seconds / len(steps),
        )
    return seat_on_nodes(cluster, domain_of_cell, node_rank=job.grid.node_rank, pool=pool)
