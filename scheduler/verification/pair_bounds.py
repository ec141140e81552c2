"""What placements cost at least, given the pairs of spreads that are ruled out at some levels.

A group touches no fewer domains of a closer level than of a broader one.  So the spreads of a placement, from the
broadest level on, are pairs (S, R) that are not ruled out and that never become smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.job import Job
from scheduler.objective import Spread, objective_terms
from scheduler.verification.counted_grid import CountedGrid
from topology.cluster import BoolArray, Cluster, count_nodes

Costs = npt.NDArray[np.float64]


def least_costs(
    cluster: Cluster,
    job: Job,
    nodes: BoolArray,
    grids: Mapping[str, CountedGrid],
    refuted: Mapping[str, Sequence[Spread]],
) -> Costs:
    """Return the least objective by the pair (S, R) at the closest level with a grid; infinite = it is ruled out.

    Terms of other families, and at levels without a grid, count what their largest group needs at least.

    :param nodes: shape [nodes], those that a placement may use.
    :param grids: by level; ``refuted``: by level, pairs that cannot be had.
    :returns: shape [S, R], both from 1.
    """
    paths = np.zeros((1, 1))
    rest = 0.0
    on_grids = {(family, level): 0.0 for level in grids for family in ("dp", "pp")}
    for term in objective_terms(cluster, job):
        if (term.family, term.level) in on_grids:
            on_grids[term.family, term.level] += term.weight
        else:
            largest = job.grid.groups[term.family].largest
            rest += term.weight * _fewest(cluster, nodes, term.level, largest)
    for level in (one.name for one in cluster.levels if one.name in grids):
        most = grids[level].largest
        shape = max(paths.shape[0], most.dp), max(paths.shape[1], most.pp)
        before = np.full(shape, np.inf)
        before[: paths.shape[0], : paths.shape[1]] = paths
        # the least of all pairs at the level above that are as small in both
        before = np.minimum.accumulate(np.minimum.accumulate(before, axis=0), axis=1)
        s, r = np.arange(1, shape[0] + 1)[:, None], np.arange(1, shape[1] + 1)[None, :]
        paths = before + on_grids["dp", level] * s + on_grids["pp", level] * r
        paths[most.dp :] = np.inf
        paths[:, most.pp :] = np.inf
        _rule_out(paths, refuted.get(level, ()))
    return paths + rest


def _rule_out(costs: Costs, pairs: Iterable[Spread]) -> None:
    for pair in pairs:
        costs[: pair.dp, : pair.pp] = np.inf


def _fewest(cluster: Cluster, nodes: BoolArray, level: str, cells: int) -> int:
    """Return how many domains of a level have so many of some nodes together, at least 1."""
    inside = np.sort(count_nodes(cluster.level(level), nodes))[::-1]
    return int(np.searchsorted(np.cumsum(inside), cells)) + 1
