"""Seating: from the domain of every cell to its node, so that neighbours in a group are neighbours on the wire.

The search decides which domain of the job's level each cell goes to.  Inside every domain the same problem comes again
one level down, and again, until a domain is a set of nodes: at each level the cells of a domain are shared out among
its children so that the whole job's Eq. 2 *at that level* is least, then its mean spread, then the number of children
in use.  What the job's own level counts is fixed by the caller and never changes here.

In this order: holds are kept, fewest slow nodes are used (least slow first), spread is least, whole racks stay free.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.job import Job
from scheduler.placement.admission import blocks_at, capacity_by_level
from scheduler.placement.node_order import name_ranks, natural
from scheduler.placement.seating.refine import GridSolver, refine
from scheduler.work_clock import clock
from topology.cluster import BoolArray, Cluster, IntArray, Level
from topology.flags import HEALTHY

_FEW = 4  # Part of all nodes from which on the order of all names, which is kept, is sooner had than that of some


def seat(
    cluster: Cluster,
    job: Job,
    *,
    level: Level,
    domain_of_cell: IntArray,
    admitted: BoolArray,
    solve_grid: GridSolver | None = None,
    seconds: float = 0.5,
    most_seconds: float = inf,
) -> IntArray:
    """Turn an assignment of cells to domains into nodes; deterministic, as long as ``solve_grid`` is and time suffices.

    :param domain_of_cell: shape [rows, columns], index of a domain of ``level``; cells that holds tie together at this
        level or a closer one lie in one domain, and no domain is given more than it can take in whole blocks
        (:func:`scheduler.placement.admission.capacity_by_level`).
    :param solve_grid: exact search for one rectangle of cells; ``None`` = shelves alone.
    :param seconds: wall-clock limit of all exact searches together; ``most_seconds``: of all, after which every domain
        that is left is filled in the first way there is.
    """
    depth = cluster.level_index(level.name)
    needed = np.bincount(domain_of_cell.ravel(), minlength=len(level)).astype(np.int32)
    end = clock() + most_seconds
    pool = _choose_pool(cluster, job, depth=depth, needed=needed, admitted=admitted)
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
            end=end,
        )
    return _seat_on_nodes(cluster, domain_of_cell, node_rank=job.grid.node_rank, pool=pool)


@dataclass(frozen=True, slots=True)
class _Supply:
    """Nodes for one block, and what they cost: how many are slow, and by how much in sum."""

    slow: int
    slowness: float
    nodes: tuple[int, ...]


def _choose_pool(cluster: Cluster, job: Job, *, depth: int, needed: IntArray, admitted: BoolArray) -> BoolArray:
    """Choose the nodes that cells may be seated on: as few slow ones as possible, the least slow first.

    A domain with enough healthy nodes for its cells uses no other.  Elsewhere every block costs the slow nodes it
    needs.  Nodes of a closest domain are taken from the healthiest on, so the costs of its blocks rise; a broader
    domain merges the blocks of its children in order of cost and ties them into its own, so the costs rise there too.
    The cheapest blocks of a domain therefore use the fewest slow nodes of all ways to seat that many.  Under ``avoid:
    ignore`` slow nodes are like any other.

    :param needed: shape [domains of the level of that depth], cells of each.
    :returns: shape [nodes], a subset of ``admitted``: the healthy nodes of a domain that has enough of them, else
        exactly as many as it needs.
    """
    level = cluster.levels[depth]
    room = capacity_by_level(cluster, job, admitted)[depth]
    if (over := np.flatnonzero(needed > room)).size:
        k = over[0]
        raise ValueError(f"{level.name} {level.domains[k]!r} was given {needed[k]} cells and has room for {room[k]}")
    if job.avoid == "ignore":
        return admitted
    healthy: BoolArray = admitted & (cluster.slowdown == HEALTHY)
    short = needed > capacity_by_level(cluster, job, healthy)[depth]
    pool: BoolArray = healthy & ~short[level.domain_of]
    sizes = [blocks_at(cluster, job, d).size for d in range(len(cluster.levels))]
    for k in np.flatnonzero(short):
        inside = np.flatnonzero(admitted & (level.domain_of == k)).astype(np.int32)
        supplies = _supplies(cluster, sizes, depth, inside)
        for supply in supplies[: needed[k] // sizes[depth]]:
            pool[list(supply.nodes)] = True
    return pool


def _supplies(cluster: Cluster, sizes: list[int], depth: int, inside: IntArray) -> list[_Supply]:
    """Return nodes for each block that a domain (its nodes ``inside``) can take, from the cheapest on.

    :param sizes: cells of a block at each level.
    """
    if depth + 1 == len(sizes):
        slowdown = cluster.slowdown[inside]
        costs = zip((slowdown > HEALTHY).tolist(), (slowdown - HEALTHY).tolist(), inside.tolist(), strict=True)
        parts, merged = [_Supply(int(slow), slowness, (node,)) for slow, slowness, node in costs], 1
    else:
        child_of = cluster.levels[depth + 1].domain_of[inside]
        children = (inside[child_of == child] for child in np.unique(child_of))
        parts = [supply for child in children for supply in _supplies(cluster, sizes, depth + 1, child)]
        merged = sizes[depth + 1]
    parts.sort(key=lambda supply: (supply.slow, supply.slowness))
    step = sizes[depth] // merged
    return parts if step == 1 else [_tie(parts[i : i + step]) for i in range(0, len(parts) - step + 1, step)]


def _tie(parts: list[_Supply]) -> _Supply:
    return _Supply(
        sum(part.slow for part in parts),
        sum(part.slowness for part in parts),
        tuple(node for part in parts for node in part.nodes),
    )


def _seat_on_nodes(cluster: Cluster, domain_of_cell: IntArray, *, node_rank: IntArray, pool: BoolArray) -> IntArray:
    """Give every cell a node of its domain: ranks in order of names, on the closest run of free nodes.

    :param domain_of_cell: shape [rows, columns], domain of the closest level; ``node_rank``: same shape.
    """
    domain_of = cluster.levels[-1].domain_of
    used = np.zeros(len(cluster.levels[-1]), dtype=np.bool_)
    used[domain_of_cell] = True
    around = np.flatnonzero(used[domain_of])
    if len(around) * _FEW > len(cluster):
        around = around[np.argsort(name_ranks(cluster)[around])]
    else:
        around = np.array(sorted(around.tolist(), key=lambda i: natural(cluster.names[i])), dtype=np.int64)
    around = around[np.argsort(domain_of[around], kind="stable")]
    seats = np.flatnonzero(pool[around])
    domain_of_seat = domain_of[around[seats]]
    cells = np.lexsort((node_rank.ravel(), domain_of_cell.ravel()))
    domain_of_sorted = domain_of_cell.ravel()[cells]
    nodes = np.empty(domain_of_cell.size, dtype=np.int32)
    domains, first_cell, wanted = np.unique(domain_of_sorted, return_index=True, return_counts=True)
    first_seat = np.searchsorted(domain_of_seat, domains, side="left")
    offered = np.searchsorted(domain_of_seat, domains, side="right") - first_seat
    for cell, seat, want, offer in zip(first_cell, first_seat, wanted, offered, strict=True):
        places = seats[seat : seat + offer]
        # the run of so many seats with the fewest nodes between its ends
        start = int((places[want - 1 :] - places[: offer - want + 1]).argmin())
        nodes[cells[cell : cell + want]] = around[places[start : start + want]]
    return nodes.reshape(domain_of_cell.shape)
