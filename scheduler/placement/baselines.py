"""The baselines of the Arnold paper (arXiv 2509.15940, section 7.1): best-fit, random-fit, gpu-packing, topo-aware.

The paper names them in a sentence each and publishes no code.  Each fills PP groups row by row, the unit of the paper's
own formulation; algorithms.md of the docs says which of its published ratios follow from that.

- **best-fit**, read literally: the minipod with the fewest free nodes that still has one.
- **random-fit**: what is drawn is not said; here every cell draws a free node of the cluster with equal probability.
- **gpu-packing**: the largest minipods first, since no other choice uses fewer; the remainder goes to the smallest
  minipod that holds it, which keeps the larger ones whole.
- **topo-aware**: dual recursive bipartitioning as Amaral et al. use it to place learning jobs (SC'17), after
  F. Pellegrini's static mapping.

  - The tree of switches is cut at its broadest switch: its children are dealt into two parts of nearly equal free
    capacity; a part of one domain is opened one level closer.
  - The job graph has a ring along each DP group (weight alpha) and a chain along each PP group (weight beta).
  - Cells that fit into one part stay together, in the smaller part that holds them.  Otherwise the cut is the cheapest
    prefix of the cells in row or column order that both parts can hold: small cuts of a grid run along these.

  Left out: utility of interference and fragmentation; single tasks are not moved by utility.
"""

from functools import partial

import numpy as np

from scheduler.placement.heuristic import Heuristic, Request
from topology.cluster import FloatArray, IntArray


def tightest_first(request: Request) -> IntArray:
    """Return nodes from the domain with the least room to the one with most; equal ones in the order of the cluster."""
    return np.concatenate(sorted(request.pools, key=len))


def at_random(request: Request) -> IntArray:
    """Return free nodes in an order that depends on the seed alone."""
    return np.random.default_rng(request.seed).permutation(np.flatnonzero(request.admitted).astype(np.int32))


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


def bipartition(request: Request) -> IntArray:
    """Map the job graph onto the tree of switches, part by part; return the nodes row by row."""
    cells = np.arange(request.grid.cells, dtype=np.int32)
    placed = np.empty_like(cells)
    work = [(cells, _children(request, np.flatnonzero(request.admitted).astype(np.int32), 0), 0)]
    while work:
        cells, siblings, depth = work.pop()
        if len(siblings) > 1:
            # two parts of nearly equal capacity: the largest domain first, each to the lighter part
            parts: tuple[list[IntArray], list[IntArray]] = ([], [])
            sizes = [0, 0]
            for domain in sorted(siblings, key=len, reverse=True):
                lighter = int(sizes[1] < sizes[0])
                parts[lighter].append(domain)
                sizes[lighter] += len(domain)
            shares = _split_cells(request, cells, sum(map(len, parts[0])), sum(map(len, parts[1])))
            work += [(share, part, depth) for share, part in zip(shares, parts, strict=True) if len(share)]
        elif depth + 1 < len(request.cluster.levels):
            work.append((cells, _children(request, siblings[0], depth + 1), depth + 1))
        else:
            placed[cells] = siblings[0][: len(cells)]
    return placed


def _children(request: Request, nodes: IntArray, depth: int) -> list[IntArray]:
    """Return the nodes, grouped by their domain at a level."""
    domain_of = request.cluster.levels[depth].domain_of[nodes]
    order = np.argsort(domain_of, kind="stable")
    return list(np.split(nodes[order], np.flatnonzero(np.diff(domain_of[order])) + 1))


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
    # the ring of a DP group is closed by an edge of its own from three cells on
    if grid.rows > 2:
        edges.append((position[-1:], position[:1], job.alpha))
    # an edge is cut by the prefixes that end between its two cells
    change = np.zeros(len(swept) + 1)
    for cell, other, weight in edges:
        both = (cell >= 0) & (other >= 0)
        begun = np.bincount(np.minimum(cell[both], other[both]) + 1, minlength=len(change))
        ended = np.bincount(np.maximum(cell[both], other[both]) + 1, minlength=len(change))
        change += weight * (begun - ended)
    return np.asarray(np.round(np.cumsum(change), 9))


_fill_groups = partial(Heuristic, order="rows")
best_fit = partial(
    _fill_groups, "best-fit", "fill the minipod with the least room left, PP group by PP group", tightest_first
)
random_fit = partial(_fill_groups, "random-fit", "every cell takes a free node at random", at_random)
gpu_packing = partial(
    _fill_groups, "gpu-packing", "as few minipods as possible, the largest first, PP group by PP group", fewest_minipods
)
topo_aware = partial(
    _fill_groups, "topo-aware", "recursive bipartition of cluster and job together (Amaral et al.)", bipartition
)
