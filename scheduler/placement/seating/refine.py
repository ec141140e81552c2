"""One level down: from the domain of each cell to the child of that domain it goes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from scheduler.job import FAMILIES, Family, Job
from scheduler.objective import spread
from scheduler.placement.admission import Blocks, blocks_at, capacity_by_level
from scheduler.placement.seating.parcel import (
    Filling,
    Parcel,
    ParcelGroups,
    Weights,
    by_local_score,
    choose_fillings,
    measure,
    shelf_fillings,
    without_twins,
)
from scheduler.rank_groups import CellGroups
from scheduler.work_clock import clock
from topology.cluster import BoolArray, Cluster, IntArray, Level

GridSolver = Callable[[int, int, tuple[int, ...], float, float], IntArray | None]
"""``(rows, columns, capacities, alpha, seconds)`` -> shape [rows, columns], an index into the capacities for each cell;
``None`` when it found nothing in time.  The capacities descend and are positive."""

_KEPT = 8  # Fillings kept for each domain, each with its turns, to choose from
_MOST_PIECES = 4
"""Parcels of more rectangles than this are left to shelves: solved one by one, their children no longer match."""


@dataclass(frozen=True, slots=True)
class _Site:
    """A parcel with where it lies: flat numbers of its cells, and the domains its capacities belong to."""

    parcel: Parcel
    cells: npt.NDArray[np.int64]
    children: IntArray


def refine(
    cluster: Cluster,
    job: Job,
    *,
    depth: int,
    domain_of_cell: IntArray,
    pool: BoolArray,
    solve_grid: GridSolver | None,
    seconds: float,
    end: float,
) -> IntArray:
    """Share the cells of every domain of one level out among its children.

    :param pool: shape [nodes], the nodes that may be used; they have room for all cells in whole blocks.
    :param solve_grid: exact search for one rectangle; ``None`` = none; ``seconds``: limit of all of them together.
    :param end: by the clock; of the domains that are left then each is filled in the first way there is.
    """
    closer = cluster.levels[depth + 1]
    blocks = blocks_at(cluster, job, depth + 1)
    capacity = capacity_by_level(cluster, job, pool)[depth + 1] // blocks.size
    sites = list(_sites(job, closer, blocks, domain_of_cell=domain_of_cell, capacity=capacity))
    families = _families(job)
    soft = dict.fromkeys(families, 0.0)
    for count in job.soft:
        if count.level == closer.name and count.family in soft:
            soft[count.family] += count.weight
    weights = Weights(soft, affinity={"dp": job.alpha, "pp": job.beta})
    # for one domain alone: a column touches S domains, so a child more in each costs S times
    spreads = {family: spread(*job.grid.groups[family].paired(domain_of_cell)) for family in weights.affinity}
    in_one_domain = Weights(weights.soft, {f: weight * spreads[f] for f, weight in weights.affinity.items()})
    deadline = clock() + seconds
    options: list[list[Filling]] = [[] for _ in sites]
    known: dict[tuple[bytes, ...], list[Filling]] = {}
    largest_first = sorted(range(len(sites)), key=lambda i: (-len(sites[i].parcel), i))
    for done, i in enumerate(largest_first):
        parcel = sites[i].parcel
        if parcel.shape not in known:
            known[parcel.shape] = _options(
                parcel, in_one_domain, solve_grid, deadline=deadline, sharing=len(sites) - done, end=end
            )
        options[i] = known[parcel.shape]
    group_counts = {family: len(job.grid.groups[family].sizes) for family in families}
    parcels = [site.parcel for site in sites]
    chosen = choose_fillings(parcels, options, weights=weights, group_counts=group_counts)
    total = (np.bincount(closer.domain_of, minlength=len(closer)) // blocks.size).astype(np.int32)
    child_of_cell = np.empty(domain_of_cell.size, dtype=np.int32)
    for site, filling in zip(sites, chosen, strict=True):
        child = _best_fit(filling.child, site.parcel.capacities, total[site.children])
        child_of_cell[site.cells] = site.children[child][site.parcel.block_of_cell]
    return child_of_cell.reshape(domain_of_cell.shape)


def _families(job: Job) -> list[Family]:
    """Return the families that tell one filling from another: DP and PP, and those with groups of several cells."""
    return [family for family in FAMILIES if family in ("dp", "pp") or job.grid.groups[family].largest > 1]


def _sites(job: Job, closer: Level, blocks: Blocks, *, domain_of_cell: IntArray, capacity: IntArray) -> Iterator[_Site]:
    """Yield the parcel of every domain that holds cells, in order of the domains."""
    groups = {family: job.grid.groups[family] for family in _families(job)}
    block_of = blocks.of_cell.ravel()
    by_domain = np.argsort(domain_of_cell.ravel(), kind="stable")
    domains, starts = np.unique(domain_of_cell.ravel()[by_domain], return_index=True)
    by_parent = np.argsort(closer.parent_of, kind="stable")
    first_child = np.searchsorted(closer.parent_of, domains, side="left", sorter=by_parent)
    last_child = np.searchsorted(closer.parent_of, domains, side="right", sorter=by_parent)
    for cells, first, last in zip(np.split(by_domain, starts[1:]), first_child, last_child, strict=True):
        children = by_parent[first:last]
        children = children[capacity[children] > 0]
        children = children[np.argsort(-capacity[children], kind="stable")]
        numbers, block_of_cell = np.unique(block_of[cells], return_inverse=True)
        parcel = Parcel(
            rows=(numbers // blocks.columns).astype(np.int32),
            columns=(numbers % blocks.columns).astype(np.int32),
            capacities=capacity[children],
            block_of_cell=block_of_cell.astype(np.int32),
            groups={family: _groups(of_family, cells) for family, of_family in groups.items()},
        )
        yield _Site(parcel, cells, children.astype(np.int32))


def _groups(of_family: CellGroups, cells: npt.NDArray[np.int64]) -> ParcelGroups:
    """Return the groups that some cells, ascending, are in."""
    pairs = cells if of_family.one_each else np.flatnonzero(np.isin(of_family.cell, cells))
    ids, inner = np.unique(of_family.group[pairs], return_inverse=True)
    cell = np.searchsorted(cells, of_family.cell[pairs])
    return ParcelGroups(ids, CellGroups(cell.astype(np.int32), inner.astype(np.int32)))


def _exact_filling(parcel: Parcel, weights: Weights, solve: GridSolver | None, seconds: float) -> IntArray | None:
    """Solve the rectangles of a parcel one by one, the largest first, each on what the ones before left.

    :returns: shape [blocks], the child of each block; ``None`` = none in time.
    """
    piece, row, column = parcel.pieces
    sizes = np.bincount(piece)
    if solve is None or seconds <= 0.0 or len(sizes) > _MOST_PIECES:
        return None
    alpha = weights.affinity["dp"] / (sum(weights.affinity.values()) or 1.0)
    child = np.empty(len(parcel), dtype=np.int32)
    left = parcel.capacities.copy()
    for one in np.argsort(-sizes, kind="stable"):
        members = np.flatnonzero(piece == one)
        roomy = np.argsort(-left, kind="stable")
        roomy = roomy[left[roomy] > 0]
        rows, columns = int(row[members].max()) + 1, int(column[members].max()) + 1
        answer = solve(rows, columns, tuple(left[roomy].tolist()), alpha, seconds * len(members) / len(parcel))
        if answer is None:
            return None
        child[members] = roomy[answer[row[members], column[members]]]
        left -= np.bincount(child[members], minlength=len(left)).astype(left.dtype)
    return child


def _options(
    parcel: Parcel, weights: Weights, solve: GridSolver | None, *, deadline: float, sharing: int, end: float
) -> list[Filling]:
    """Return the fillings of one parcel, the best first; so many parcels share the time until the deadline."""
    if len(parcel) <= parcel.capacities[0]:
        return measure(parcel, [np.zeros(len(parcel), dtype=np.int32)])
    if clock() > end:
        return measure(parcel, list(islice(shelf_fillings(parcel), 1)))
    fillings = list(shelf_fillings(parcel))
    # on large parcels the shelves take time of their own: the clock is read after them
    seconds = (deadline - clock()) / sharing
    if (child := _exact_filling(parcel, weights, solve, seconds)) is not None:
        fillings.append(child)
    kept = without_twins(by_local_score(measure(parcel, fillings), weights))[:_KEPT]
    return without_twins(measure(parcel, [filling.child[turn] for filling in kept for turn in parcel.turns]))


def _best_fit(child: IntArray, capacities: IntArray, total: IntArray) -> IntArray:
    """Move the filling to the children that leave the most for others: loads go, the largest first, to the child with
    the least room left over, and a child that is all free is not broken into while another fits.

    :param child: shape [blocks].
    :param capacities: shape [children], descending; ``total``: the same if no node were in use.
    """
    loads = np.bincount(child, minlength=len(capacities))
    free = np.ones(len(capacities), dtype=np.bool_)
    moved = np.arange(len(capacities), dtype=np.int32)
    for one in np.argsort(-loads, kind="stable"):
        if not loads[one]:
            break
        fits = np.flatnonzero(free & (capacities >= loads[one]))
        over = capacities[fits] - loads[one]
        breaks = (capacities[fits] == total[fits]) & (over > 0)
        moved[one] = fits[np.lexsort((fits, over, breaks))[0]]
        free[moved[one]] = False
    return moved[child]
