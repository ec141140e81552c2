"""topo-aware: bisect the machine, bisect the job to match, and again in each half.

Source: dual recursive bipartitioning as Amaral et al. use it to place learning jobs (SC'17, "Topology-aware GPU
scheduling for learning workloads in cloud environments"), after F. Pellegrini's static mapping; named as a baseline in
arXiv 2509.15940.

- The physical graph is the tree of switches.  Its cheapest cut severs links of the broadest switch, so siblings under
  that switch are dealt into two parts of nearly equal free capacity; a part of one domain is opened one level closer.
- The job graph has a node for each cell, a ring along each DP group (weight alpha) and a chain along each PP group
  (weight beta): which cells talk to each other, and how much it matters.
- Where the cells fit into one part they stay together (nothing is cut), in the smaller part that holds them.
  Otherwise the cut is the cheapest prefix of the cells in row order or in column order that both parts can hold: in a
  grid graph the small cuts run along rows or along columns.

Left out: their utility adds interference between tenants and fragmentation of the machine; our jobs take whole nodes,
and what others do on the wire is unknown.  They move single tasks by utility where we sweep.
"""

from __future__ import annotations

import numpy as np

from scheduler.placement.heuristic import Heuristic, Request
from topology.cluster import FloatArray, IntArray


def topo_aware() -> Heuristic:
    """Make the paper's baseline topo-aware."""
    return Heuristic("topo-aware", "recursive bipartition of cluster and job together (Amaral et al.)", place_cells)


def place_cells(request: Request) -> IntArray:
    """Map the job graph onto the tree of switches, part by part."""
    grid = request.grid
    placed = np.full((grid.rows, grid.columns), -1, dtype=np.int32)
    everything = np.flatnonzero(request.admitted).astype(np.int32)
    work = [(np.arange(grid.cells, dtype=np.int32), _children(request, everything, 0), 0)]
    while work:
        cells, siblings, depth = work.pop()
        if len(siblings) > 1:
            parts = _halves(siblings)
            shares = _split_cells(request, cells, sum(map(len, parts[0])), sum(map(len, parts[1])))
            work += [(share, part, depth) for share, part in zip(shares, parts, strict=True) if len(share)]
        elif depth + 1 < len(request.cluster.levels):
            work.append((cells, _children(request, siblings[0], depth + 1), depth + 1))
        else:
            placed.ravel()[cells] = siblings[0][: len(cells)]
    return placed


def _children(request: Request, nodes: IntArray, depth: int) -> list[IntArray]:
    """Return the nodes, grouped by their domain at a level."""
    domain_of = request.cluster.levels[depth].domain_of[nodes]
    order = np.argsort(domain_of, kind="stable")
    starts = np.flatnonzero(np.diff(domain_of[order])) + 1
    return list(np.split(nodes[order], starts))


def _halves(siblings: list[IntArray]) -> tuple[list[IntArray], list[IntArray]]:
    """Return two parts of nearly equal capacity: the largest domain first, each to the lighter part."""
    parts: tuple[list[IntArray], list[IntArray]] = ([], [])
    sizes = [0, 0]
    for domain in sorted(siblings, key=len, reverse=True):
        lighter = int(sizes[1] < sizes[0])
        parts[lighter].append(domain)
        sizes[lighter] += len(domain)
    return parts


def _split_cells(request: Request, cells: IntArray, room: int, other_room: int) -> tuple[IntArray, IntArray]:
    """Return the cells for the one part and for the other, as many as they hold."""
    nothing = cells[:0]
    count = len(cells)
    if count <= min(room, other_room):
        return (cells, nothing) if room <= other_room else (nothing, cells)
    if count <= max(room, other_room):
        return (cells, nothing) if room >= other_room else (nothing, cells)
    prefixes = np.arange(count - other_room, min(room, count) + 1)
    even = count * room / (room + other_room)
    best, best_key = (cells, 0), (np.inf, np.inf)
    row, column = np.divmod(cells, request.grid.columns)
    for order in (np.lexsort((column, row)), np.lexsort((row, column))):
        swept = cells[order]
        cut = _cut_of_prefixes(request, swept)[prefixes]
        i = int(np.lexsort((abs(prefixes - even), cut))[0])
        key = (float(cut[i]), float(abs(prefixes[i] - even)))
        if key < best_key:
            best, best_key = (swept, int(prefixes[i])), key
    swept, prefix = best
    return swept[:prefix], swept[prefix:]


def _cut_of_prefixes(request: Request, swept: IntArray) -> FloatArray:
    """Return the weight of the edges between the first n cells and the rest, shape [cells + 1]."""
    grid, job = request.grid, request.job
    position = np.full((grid.rows, grid.columns), -1)
    position.ravel()[swept] = np.arange(len(swept))
    edges = [(position[:, :-1], position[:, 1:], job.beta), (position[:-1], position[1:], job.alpha)]
    if grid.rows > 2:
        edges.append((position[-1:], position[:1], job.alpha))
    change = np.zeros(len(swept) + 1)
    for one, other, weight in edges:
        both = (one >= 0) & (other >= 0)
        np.add.at(change, np.minimum(one[both], other[both]) + 1, weight)
        np.add.at(change, np.maximum(one[both], other[both]) + 1, -weight)
    return np.asarray(np.round(np.cumsum(change), 9))
