"""From domains to nodes: cells that stay keep theirs, the others get the nearest spare."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from scheduler.placement.node_order import natural
from scheduler.repair.repair_problem import RepairProblem
from topology.cluster import IntArray

Cells = npt.NDArray[np.int64]
"""Flat numbers of cells."""


def nearest_nodes(problem: RepairProblem, depth: int, domain_of_cell: IntArray) -> IntArray:
    """Give every cell a node of its domain.

    Of the nodes of a domain, healthy spares go first, then healthy nodes that other cells of the job left, then slow
    ones, the least slow first.  A cell takes one in the closest domain it shares with its old node; where there are
    several, one whose closer domains its groups already touch, then the nearest by name.

    :param depth: of the level that ``domain_of_cell`` speaks of.
    :param domain_of_cell: shape [rows, columns]; no domain has more cells than nodes that may be used.
    :returns: shape [rows, columns].
    """
    domain_of = problem.cluster.levels[depth].domain_of
    keeps = problem.stays & (domain_of[problem.old] == domain_of_cell)
    nodes = np.where(keeps, problem.old, -1).astype(np.int32)
    free = problem.admitted.copy()
    free[problem.old[keeps]] = False
    moving = np.flatnonzero(~keeps)
    moving = moving[np.argsort(problem.job.grid.node_rank.ravel()[moving], kind="stable")]
    wanted = domain_of_cell.ravel()[moving]
    for domain in np.unique(wanted):
        cells = moving[wanted == domain]
        for offered in _by_preference(problem, np.flatnonzero(free & (domain_of == domain))):
            cells = _match(problem, depth, nodes, cells=cells, offered=offered)
    return nodes


def _by_preference(problem: RepairProblem, inside: Cells) -> Iterator[Cells]:
    """Yield the nodes in classes, the best first."""
    slowdown, left = problem.slowdown[inside], ~problem.spare[inside]
    order = np.lexsort((left, slowdown))
    ends = np.flatnonzero((np.diff(slowdown[order]) != 0) | (np.diff(left[order].astype(np.int8)) != 0)) + 1
    yield from (inside[part] for part in np.split(order, ends))


def _match(problem: RepairProblem, depth: int, nodes: IntArray, *, cells: Cells, offered: Cells) -> Cells:
    """Seat as many cells as there are nodes, those first that find one close to their old node.

    :param nodes: shape [rows, columns], filled in.
    :returns: the cells that are left.
    """
    levels = problem.cluster.levels
    place = _positions(problem, np.concatenate([offered, problem.old.ravel()[cells]]))
    for closeness in range(len(levels) - 1, depth - 2, -1):
        left = []
        for cell in cells:
            old = problem.old.ravel()[cell]
            near = offered
            if closeness >= depth:
                domain_of = levels[closeness].domain_of
                near = offered[domain_of[offered] == domain_of[old]]
            if not near.size:
                left.append(cell)
                continue
            distance = np.array([abs(place[int(i)] - place[int(old)]) for i in near])
            best = near[np.lexsort((near, distance, -_touched(problem, depth, nodes, cell, near)))[0]]
            nodes.ravel()[cell] = best
            offered = offered[offered != best]
        cells = np.array(left, dtype=np.int64)
    return cells


def _touched(problem: RepairProblem, depth: int, nodes: IntArray, cell: int, near: Cells) -> npt.NDArray[np.float64]:
    """Return how much of the cell's groups already touches the closer domains of each node, weighed by affinity."""
    row, column = divmod(int(cell), nodes.shape[1])
    score = np.zeros(len(near))
    for weight, group in ((problem.job.alpha, nodes[:, column]), (problem.job.beta, nodes[row])):
        seated = group[group >= 0]
        for level in problem.cluster.levels[depth + 1 :]:
            score += weight * np.isin(level.domain_of[near], level.domain_of[seated])
    return score


def _positions(problem: RepairProblem, nodes: Cells) -> dict[int, int]:
    """Return the position of each node when names are read in order."""
    ordered = sorted({int(i) for i in nodes}, key=lambda i: natural(problem.cluster.names[i]))
    return {node: position for position, node in enumerate(ordered)}
