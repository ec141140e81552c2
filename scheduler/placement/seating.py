"""Seating: from the domain of every cell to its node, so that neighbours in a group are neighbours on the wire.

The search decides which domain of the job's level each cell goes to.  Inside every domain the same problem comes again
one level down, and again, until a domain is a set of nodes: at each level the cells of a domain are shared out among
its children so that the whole job's Eq. 2 *at that level* is least, then its mean spread, then the number of children
in use.  What the job's own level counts is fixed by the caller and never changes here.

In this order: holds are kept, fewest slow nodes are used (least slow first), spread is least, whole racks stay free.

A *parcel* is the blocks that one domain holds, shared out among the children of the domain.  A group's spread over
racks is the sum over the domains it touches of the racks it touches there.  The score of the job counts the worst group
of each family, so domains are improved one at a time against the sums of all others.

*Shelves*: the cells of a parcel cut into rectangles, these into bands of rows or columns, and the orders of the cells.
A shelf is a band of rows.  It is filled column after column, one shelf forth, the next back.  The same with rows and
columns exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.grid import CellGroups
from scheduler.job import FAMILIES, Family, Job
from scheduler.objective import spread
from scheduler.placement.admission import Blocks, blocks_at, capacity_by_level
from scheduler.placement.node_order import nodes_by_name
from scheduler.work_clock import clock
from topology.cluster import BoolArray, Cluster, IntArray, Level
from topology.flags import HEALTHY


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
    return nodes_of(cluster, job, domain_of_cell, pool)


def nodes_of(cluster: Cluster, job: Job, closest: IntArray, admitted: BoolArray) -> IntArray:
    """Return the node of each cell, shape [rows, columns]: ranks in order of names, on the closest run of free nodes.

    :param closest: shape [rows, columns], the closest domain of each cell; none has fewer free nodes than cells.
    :param admitted: shape [nodes], the free nodes.
    """
    flat = closest.ravel()
    wanted = np.bincount(flat)
    used = wanted.nonzero()[0]
    by_name, starts, sizes = nodes_by_name(cluster, cluster.levels[-1])
    sizes = sizes[used]
    ends = sizes.cumsum()
    # all nodes of each used domain, one domain after another
    seats = by_name[np.arange(ends[-1]) + (starts[used] - ends + sizes).repeat(sizes)]
    taken = admitted[seats]
    offered = np.add.reduceat(taken, ends - sizes, dtype=np.int64)
    for i in (wanted[used] < offered).nonzero()[0].tolist():
        # of the free seats of the domain so many, one after another, with the fewest nodes between
        end, count = int(ends[i]), int(wanted[used[i]])
        of_domain = taken[end - int(sizes[i]) : end]
        places = of_domain.nonzero()[0]
        start = int((places[count - 1 :] - places[: len(places) - count + 1]).argmin())
        of_domain[places[:start]] = False
        of_domain[places[start + count :]] = False
    nodes = np.empty(len(flat), dtype=np.int32)
    nodes[np.lexsort((job.grid.node_rank.ravel(), flat))] = seats[taken]
    return nodes.reshape(closest.shape)


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
    tied = [parts[i : i + step] for i in range(0, len(parts) - step + 1, step)]
    return [
        _Supply(
            sum(part.slow for part in parts),
            sum(part.slowness for part in parts),
            tuple(node for part in parts for node in part.nodes),
        )
        for parts in tied
    ]


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
    of_shape: dict[tuple[bytes, ...], Fillings] = {}
    for done, site in enumerate(sorted(sites, key=lambda site: -len(site.parcel))):
        if site.parcel.shape not in of_shape:
            of_shape[site.parcel.shape] = _options(
                site.parcel, in_one_domain, solve_grid, deadline=deadline, sharing=len(sites) - done, end=end
            )
    options = [of_shape[site.parcel.shape] for site in sites]
    group_counts = {family: len(job.grid.groups[family].sizes) for family in families}
    chosen = choose_fillings([site.parcel for site in sites], options, weights=weights, group_counts=group_counts)
    total = (np.bincount(closer.domain_of, minlength=len(closer)) // blocks.size).astype(np.int32)
    child_of_cell = np.empty(domain_of_cell.size, dtype=np.int32)
    for site, child in zip(sites, chosen, strict=True):
        # to the children that leave the most for others: loads go, the largest first, to the child with the least room
        # left over, and a child that is all free is not broken into while another fits
        capacities, unused = site.parcel.capacities, total[site.children]
        loads = np.bincount(child, minlength=len(capacities))
        free = np.ones(len(capacities), dtype=np.bool_)
        moved = np.arange(len(capacities), dtype=np.int32)
        for loaded in np.argsort(-loads, kind="stable"):
            if not loads[loaded]:
                break
            fits = np.flatnonzero(free & (capacities >= loads[loaded]))
            over = capacities[fits] - loads[loaded]
            breaks = (capacities[fits] == unused[fits]) & (over > 0)
            moved[loaded] = fits[np.lexsort((fits, over, breaks))[0]]
            free[moved[loaded]] = False
        child_of_cell[site.cells] = site.children[moved[child]][site.parcel.block_of_cell]
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
        inside: dict[Family, ParcelGroups] = {}
        for family, of_family in groups.items():
            pairs = cells if of_family.one_each else np.flatnonzero(np.isin(of_family.cell, cells))
            ids, inner = np.unique(of_family.group[pairs], return_inverse=True)
            cell = np.searchsorted(cells, of_family.cell[pairs]).astype(np.int32)
            inside[family] = ParcelGroups(ids, CellGroups(cell, inner.astype(np.int32)))
        parcel = Parcel(
            rows=(numbers // blocks.columns).astype(np.int32),
            columns=(numbers % blocks.columns).astype(np.int32),
            capacities=capacity[children],
            block_of_cell=block_of_cell.astype(np.int32),
            groups=inside,
        )
        yield _Site(parcel, cells, children.astype(np.int32))


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
    for number in np.argsort(-sizes, kind="stable"):
        members = np.flatnonzero(piece == number)
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
) -> Fillings:
    """Return the fillings of one parcel, the best first; so many parcels share the time until the deadline."""
    if len(parcel) <= parcel.capacities[0]:
        return Fillings.of(parcel, [np.zeros(len(parcel), dtype=np.int32)])
    if clock() > end:
        return Fillings.of(parcel, list(islice(shelf_fillings(parcel), 1)))
    fillings = list(shelf_fillings(parcel))
    # on large parcels the shelves take time of their own: the clock is read after them
    seconds = (deadline - clock()) / sharing
    if (child := _exact_filling(parcel, weights, solve, seconds)) is not None:
        fillings.append(child)
    kept = Fillings.of(parcel, fillings).sorted(weights).without_twins()
    turned = [child[turn] for child in kept.child[:_KEPT] for turn in parcel.symmetries]
    return Fillings.of(parcel, turned).without_twins()


_ROUNDS = 3  # Rounds of improvement; two settle nearly all instances


_MOST_WHOLE = 8  # Fillings in whole segments are tried up to this number of shelves
_MOST_TOUCHES = 2_000_000  # Array elements for which fillings are measured at once: those of a processor's cache


@dataclass(frozen=True, slots=True)
class ParcelGroups:
    """The communication groups of one family that have cells in a parcel."""

    ids: IntArray  # shape [groups], their numbers in the whole job
    pairs: CellGroups  # of a cell of the parcel and an index into `ids`

    def touched(self, child_of_cell: IntArray, children: int) -> IntArray:
        """Return how many children each group touches, shape [fillings, groups].

        :param child_of_cell: shape [fillings, cells].
        """
        fillings, groups = len(child_of_cell), len(self.ids)
        child = child_of_cell if self.pairs.one_each else child_of_cell[:, self.pairs.cell]
        touches = np.zeros(fillings * groups * children, dtype=np.bool_)
        first = np.arange(0, len(touches), groups * children)
        touches[child + (self.pairs.group.astype(np.int64) * children + first[:, None])] = True
        count: IntArray = np.add.reduce(touches.reshape(fillings, groups, children), axis=2, dtype=np.int32)
        return count


@dataclass(frozen=True)
class Parcel:
    """What one domain has to share out among its children."""

    rows: IntArray  # shape [blocks], the block row of each block
    columns: IntArray  # shape [blocks], the block column of each block
    capacities: IntArray  # shape [children], blocks each child can take; descending, none of them zero
    block_of_cell: IntArray  # shape [cells], the block each cell of the parcel belongs to
    groups: Mapping[Family, ParcelGroups]  # the communication groups whose spread matters

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def shape(self) -> tuple[bytes, ...]:
        """Equal for parcels that differ only in where they lie: they have the same fillings."""
        groups = (array for groups in self.groups.values() for array in (groups.pairs.cell, groups.pairs.group))
        return tuple(array.tobytes() for array in (*self.pieces, self.capacities, self.block_of_cell, *groups))

    @cached_property
    def pieces(self) -> tuple[IntArray, IntArray, IntArray]:
        """Its rectangles; see :func:`pieces_of`."""
        return pieces_of(self.rows, self.columns)

    @cached_property
    def symmetries(self) -> tuple[IntArray, ...]:
        """Permutations of the blocks that leave the spread of a filling as it is and change which row or column bears
        it: rows, or columns, of every piece mirrored, or moved on by half of them.

        :returns: shape [blocks] each: each block takes the place of the block named; the first changes nothing.
        """
        piece, row, column = self.pieces
        height, width = extent(piece, row), extent(piece, column)
        positions = (
            (row, column),
            (height - 1 - row, column),
            (row, width - 1 - column),
            ((row + height // 2) % height, column),
            (row, (column + width // 2) % width),
        )
        places = np.lexsort((column, row, piece))
        turns = []
        for new_row, new_column in positions:
            turn = np.empty(len(self), dtype=np.int32)
            turn[np.lexsort((new_column, new_row, piece))] = places
            turns.append(turn)
        return tuple(turns)


@dataclass(frozen=True, slots=True)
class Weights:
    """What spread at one level costs."""

    # family -> weight of the job's soft terms at this level: part of the job's objective, so it comes first
    soft: Mapping[Family, float]
    affinity: Mapping[Family, float]  # family -> alpha and beta: Eq. 2 one level down


@dataclass(frozen=True, slots=True)
class Fillings:
    """Ways to share a parcel out, side by side."""

    child: IntArray  # shape [fillings, blocks], the child of each block
    touched: Mapping[Family, IntArray]  # family -> shape [fillings, groups of the parcel], children each group touches
    used: IntArray  # shape [fillings], number of children in use

    @classmethod
    def of(cls, parcel: Parcel, fillings: Sequence[IntArray]) -> Fillings:
        """Measure the spread of some fillings, the child of each block, shape [blocks] each."""
        children = len(parcel.capacities)
        lines = 1 + max((len(groups.ids) for groups in parcel.groups.values()), default=0)
        together = max(1, _MOST_TOUCHES // (lines * children))
        touched: dict[Family, list[IntArray]] = {family: [] for family in parcel.groups}
        for i in range(0, len(fillings), together):
            child_of_cell = np.stack(fillings[i : i + together])[:, parcel.block_of_cell]
            for family, groups in parcel.groups.items():
                touched[family].append(groups.touched(child_of_cell, children))
        child = np.stack(fillings)
        seen = np.zeros((len(child), children), dtype=np.bool_)
        seen[np.arange(len(child))[:, None], child] = True
        used: IntArray = np.add.reduce(seen, axis=1, dtype=np.int32)
        return cls(child, {family: np.concatenate(parts) for family, parts in touched.items()}, used)

    def __len__(self) -> int:
        return len(self.child)

    def only(self, which: Sequence[int]) -> Fillings:
        """Return some of them, by number."""
        rows = list(which)
        return Fillings(self.child[rows], {family: of[rows] for family, of in self.touched.items()}, self.used[rows])

    def sorted(self, weights: Weights) -> Fillings:
        """Return them, the best first: by how good each is when nothing is known of the other domains."""
        worst = {family: of.max(axis=1) for family, of in self.touched.items()}
        mean = {family: of.mean(axis=1) for family, of in self.touched.items()}
        return self.only(_order(worst, mean, self.used, weights))

    def without_twins(self) -> Fillings:
        """Return those that differ in spread; the first of each kind."""
        distinct: dict[tuple[bytes, ...], int] = {}
        for i in range(len(self)):
            distinct.setdefault(tuple(of[i].tobytes() for of in self.touched.values()), i)
        return self.only([*distinct.values()])

    def best(self, totals: Mapping[Family, IntArray], parcel: Parcel, weights: Weights) -> int:
        """Return the filling with which the whole job is best, given what all other parcels add up to."""
        worst, mean = {}, {}
        for family, total in totals.items():
            touched = self.touched[family]
            # what the other domains cost whatever it does
            worst[family] = np.maximum(int(total.max()), (total[parcel.groups[family].ids] + touched).max(axis=1))
            mean[family] = touched.sum(axis=1) / len(total)
        return _order(worst, mean, self.used, weights)[0]


def shelf_fillings(parcel: Parcel) -> Iterator[IntArray]:
    """Yield fillings that need no search, shape [blocks] each: the child of each block.

    A shelf is a band of rows.  It is filled column after column, back and forth in turn, so that a child of c nodes
    takes about c / height columns of it.  One shelf for each row is the row-by-row fill, one shelf of all rows the
    column-by-column fill; the same with rows and columns exchanged.  Filled to the brim, children straddle shelves and
    columns; filled in whole segments (a column within a shelf), they waste a little room and no spread.
    """
    piece = parcel.pieces[0]
    for bands, band, along, order in shelves(parcel.pieces):
        to_the_brim = np.empty(len(parcel), dtype=np.int32)
        to_the_brim[order] = np.searchsorted(np.cumsum(parcel.capacities), np.arange(len(parcel)), side="right")
        yield to_the_brim
        if bands <= _MOST_WHOLE and (whole := _in_segments(parcel, piece, band, along)) is not None:
            yield whole


def _in_segments(parcel: Parcel, piece: IntArray, band: IntArray, along: IntArray) -> IntArray | None:
    """Put each segment whole in one child; ``None`` when the children have not that many segments."""
    child = np.empty(len(parcel), dtype=np.int32)
    left = parcel.capacities.copy()
    shelf = piece * (int(band.max()) + 1) + band
    for number in np.unique(shelf):
        members = np.flatnonzero(shelf == number)
        width = int(along[members].max()) + 1
        height = len(members) // width
        done = 0
        while done < width:
            fits = left // height
            enough = np.flatnonzero(fits >= width - done)
            chosen = int(enough[fits[enough].argmin()]) if enough.size else int(fits.argmax())
            taken = min(int(fits[chosen]), width - done)
            if not taken:
                return None
            child[members[(along[members] >= done) & (along[members] < done + taken)]] = chosen
            left[chosen] -= taken * height
            done += taken
    return child


def choose_fillings(
    parcels: Sequence[Parcel], options: Sequence[Fillings], *, weights: Weights, group_counts: Mapping[Family, int]
) -> list[IntArray]:
    """Choose one filling for each parcel; return the child of each block, shape [blocks] each.

    :param options: for each parcel its fillings, the best by :meth:`Fillings.sorted` first.
    :param group_counts: family -> number of groups of the whole job.
    """
    chosen = [0] * len(parcels)
    totals = {family: np.zeros(count, dtype=np.int32) for family, count in group_counts.items()}

    def add(i: int, sign: int) -> None:
        for family, total in totals.items():
            total[parcels[i].groups[family].ids] += sign * options[i].touched[family][chosen[i]]

    for i in range(len(parcels)):
        add(i, 1)
    open_parcels = [i for i, fillings in enumerate(options) if len(fillings) > 1]
    for _ in range(_ROUNDS):
        before = list(chosen)
        for i in open_parcels:
            add(i, -1)
            chosen[i] = options[i].best(totals, parcels[i], weights)
            add(i, 1)
        if chosen == before:
            break
    return [fillings.child[i] for fillings, i in zip(options, chosen, strict=True)]


def _order(
    worst: Mapping[Family, npt.NDArray[Any]], mean: Mapping[Family, npt.NDArray[Any]], used: IntArray, weights: Weights
) -> list[int]:
    """Return fillings, the best first: by soft terms, Eq. 2 of the worst, then of the mean, then touches and children.

    :param worst: family -> shape [fillings], the most domains that a group touches; ``mean``: the same of the mean.
    """

    def weighed(by: Mapping[Family, float], spreads: Mapping[Family, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return sum((weight * spreads[family] for family, weight in by.items()), np.zeros(len(used)))

    keys = (
        weighed(weights.soft, worst),
        weighed(weights.affinity, worst),
        weighed(weights.affinity, mean),
        sum(mean.values(), np.zeros(len(used))),
        used,
    )
    # the first key decides; equals stay in their order
    order: list[int] = np.lexsort(keys[::-1]).tolist()
    return order


_MOST_BANDS = 24  # Numbers of shelves tried in either direction: all small ones, then ever fewer


def pieces_of(rows: IntArray, columns: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Cut blocks into rectangles (row set x column set): rows with the same columns make one, or columns with the same
    rows where that gives fewer.

    :param rows: shape [blocks], the row of each block; ``columns``: its column.
    :returns: for each block its piece, and its row and column within the piece, each shape [blocks].
    """
    row, column = _number(rows), _number(columns)
    mask = np.zeros((int(row.max()) + 1, int(column.max()) + 1), dtype=np.bool_)
    mask[row, column] = True
    # a full rectangle is one piece
    if mask.all():
        return np.zeros_like(row), row, column
    row_piece, column_piece = _number_rows(mask), _number_rows(mask.T)
    piece = row_piece[row] if row_piece.max() <= column_piece.max() else column_piece[column]
    inner_row, inner_column = np.empty_like(row), np.empty_like(column)
    for p in range(int(piece.max()) + 1):
        members = piece == p
        inner_row[members] = _number(row[members])
        inner_column[members] = _number(column[members])
    return piece, inner_row, inner_column


def extent(piece: IntArray, position: IntArray) -> IntArray:
    """Return the rows (or columns) of the piece of each block, given its row (or column) within it; shapes [blocks]."""
    most = np.zeros(int(piece.max()) + 1, dtype=np.int32)
    np.maximum.at(most, piece, position + 1)
    return most[piece]


def _number(values: IntArray) -> IntArray:
    """Replace the values by their rank among the distinct ones."""
    return np.unique(values, return_inverse=True)[1].astype(np.int32)


def _number_rows(mask: BoolArray) -> IntArray:
    """Return the kind of each row of a table, equal rows alike; kinds numbered by first appearance."""
    _, first, kind = np.unique(np.packbits(mask, axis=1), axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[kind.ravel()].astype(np.int32)


def shelves(
    pieces: tuple[IntArray, IntArray, IntArray],
) -> Iterator[tuple[int, IntArray, IntArray, npt.NDArray[np.int64]]]:
    """Yield numbers of shelves, for each cell its shelf and where it lies along it, and the order in which these are
    filled: shelf after shelf, one forth, the next back; shelves of every height, both ways round.
    """
    piece, row, column = pieces
    for across, along in ((row, column), (column, row)):
        depth, width, height = extent(piece, across), int(along.max()) + 1, int(across.max()) + 1
        for bands in _band_counts(int(depth.max())):
            band = across * np.minimum(bands, depth) // depth
            # one number by which cells are sorted
            shelf = (piece * np.int64(bands) + band) * width + np.where(band % 2, width - 1 - along, along)
            yield bands, band, along, np.argsort(shelf * height + across)


def _band_counts(most: int) -> list[int]:
    """Return the numbers of bands that cut ``most`` lines in really different ways: one for each height of a band."""
    counts = sorted({-(-most // -(-most // bands)) for bands in range(1, most + 1)})
    if len(counts) <= _MOST_BANDS:
        return counts
    return sorted({counts[i] for i in np.geomspace(1, len(counts), _MOST_BANDS).astype(int) - 1})
