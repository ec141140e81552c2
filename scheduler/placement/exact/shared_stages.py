"""Placing a job whose stages share nodes: there is no grid of rows and columns, and each group is counted as it is.

Most of such a job is a grid all the same, embedded in it.  The pairs of that grid give a bound and a start, and the
integer model of repairs (:mod:`scheduler.placement.moves`), with every block of cells free to go anywhere, improves the
start, and proves it on small jobs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil

import numpy as np

from ground.errors import SolverTimeout
from scheduler.grid import Grid, joined
from scheduler.job import Count, Family, Parallelism
from scheduler.job_on_cluster import closest_named
from scheduler.objective import TOLERANCE
from scheduler.placement.admission import least_spread
from scheduler.placement.exact.goals import GoalSearch, WeighedPlacement, weighed
from scheduler.placement.exact.lattice import PairSearch
from scheduler.placement.exact.level_bounds import LevelBounds
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.schedule import fill_front
from scheduler.placement.exact.solve import search_reduction
from scheduler.placement.exact.starts import matched, quick_starts, tight_fills
from scheduler.placement.moves import MoveChoices, MoveModel, greedy_targets, trimmed
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits
from scheduler.work_clock import LEAST_SECONDS, clock
from topology.cluster import IntArray, count_nodes

# A grid inside a job whose stages share nodes: rows in PP groups, columns in DP groups, no node twice.
#
# A part of a group touches no more domains than the group.  So what the search of pairs refutes of the grid is refuted
# of the job; and a good placement of the grid is most of one of the job, as few nodes are shared.


_MOST = 0.9  # Part of the cells in a grid from which no other choice of columns is looked at


def embedded_grid(grid: Grid) -> IntArray:
    """Return the cells of a large grid, shape [rows, columns], both at least 1."""
    columns_of: dict[int, list[int]] = {}
    columns = grid.groups["dp"].members
    for column, members in enumerate(columns):
        for cell in members:
            columns_of.setdefault(cell, []).append(column)
    lines = grid.groups["pp"].members
    best = _rows(lines, columns_of, range(len(columns)))
    if np.size(best) < _MOST * grid.cells:
        # one column after another, each if the grid gets larger by it
        chosen, found = list[int](), list[list[int]]()
        for column in range(len(columns)):
            rows = _rows(lines, columns_of, [*chosen, column])
            if np.size(rows) > np.size(found):
                chosen, found = [*chosen, column], rows
        best = max(best, found, key=np.size)
    return np.array(best, dtype=np.int32)


def _rows(
    lines: Sequence[tuple[int, ...]], columns_of: Mapping[int, Sequence[int]], columns: Sequence[int]
) -> list[list[int]]:
    """Return rows, one cell of a line for each column, for as many lines as have cells that no row before has."""
    wanted, used = set(columns), set[int]()
    rows = []
    for line in lines:
        free = {cell: [column for column in columns_of[cell] if column in wanted] for cell in line if cell not in used}
        cell_in = matched(free)
        if len(cell_in) == len(columns):
            rows.append([cell_in[column] for column in columns])
            used.update(cell_in.values())
    return rows


@dataclass(frozen=True)
class SharedStageBounds:
    """Bounds of the spreads of a job whose stages share nodes, on nodes up to some slowdown."""

    whole: GridReduction
    inside: LevelBounds  # of the embedded grid; spreads are no less than the groups of the whole job ask for

    def least(self, terms: Sequence[Count], *, among: Sequence[tuple[Sequence[Count], float]] = ()) -> float:
        """Return what some terms come to at least; see :meth:`LevelBounds.least`."""
        limits = [(_of_grid(others), most - self._of_others(others)) for others, most in among]
        return self.inside.least(_of_grid(terms), among=limits) + self._of_others(terms)

    def _of_others(self, terms: Sequence[Count]) -> float:
        whole, others = self.whole, [term for term in terms if term.family not in ("dp", "pp")]
        fewest = (least_spread(whole.cluster, whole.job, term.family, term.level, whole.admitted) for term in others)
        return sum(term.weight * few for term, few in zip(others, fewest, strict=True))


def _of_grid(terms: Sequence[Count]) -> list[Count]:
    return [term for term in terms if term.family in ("dp", "pp")]


def _connected_spread(reduction: GridReduction, family: Family, level: str) -> int:
    """Return what the spread of a family is at least, by counting.

    Groups that hang together through nodes that they share touch K domains in all, if as many hold their cells.  Taken
    in an order in which each has a node of those before it, each touches one domain of theirs.  So g groups of spread s
    touch 1 + g * (s - 1) domains at most.
    """
    cells = np.arange(reduction.job.grid.cells, dtype=np.int32)
    groups = reduction.job.grid.groups[family]
    part = joined(cells, groups.cell, groups.group)
    sizes = np.bincount(part)
    tied = np.zeros_like(sizes)
    np.add.at(tied, part[[members[0] for members in groups.members]], 1)
    room = np.cumsum(np.sort(count_nodes(reduction.cluster.level(level), reduction.admitted))[::-1])
    domains = np.searchsorted(room, sizes) + 1
    connected = int((1 - (1 - domains) // tied).max())
    return max(connected, least_spread(reduction.cluster, reduction.job, family, level, reduction.admitted))


def search_shared_stages(
    reduction: GridReduction, limits: Limits, until: float, params: ExactParams
) -> tuple[PairSearch, GoalSearch]:
    """Search the objective; return the search of the pairs of the embedded grid as well.

    :raises SolverTimeout: time ran out before a placement was found.
    """
    cells = embedded_grid(reduction.job.grid)
    # a job whose cells are the embedded grid, with nothing that counts but its rows and columns
    parallelism = Parallelism(tp=reduction.job.gpus_per_node, dp=cells.shape[0], pp=cells.shape[1])
    grid_job = reduction.job.replace(parallelism=parallelism, holds=(), counts=(), levels=(), tp_level=None)
    inside = GridReduction(reduction.cluster, grid_job, reduction.slowest)
    seconds = max(LEAST_SECONDS, until - clock())
    search = search_reduction(inside, limits, params.long_share * seconds, params)
    # no corner need be the best one with the nodes that are not in the grid
    fill_front(search, seconds=params.short_share * seconds)
    lattices = {inside.level.name: search.lattice}
    # what S and R are at least at each level
    floors = {
        level.name: (_connected_spread(reduction, "dp", level.name), _connected_spread(reduction, "pp", level.name))
        for level in reduction.cluster.levels
    }
    bounds = SharedStageBounds(reduction, LevelBounds(inside, limits, params, lattices, floors, end=until))
    starts = chain(
        _from_grid(reduction, search, inside, cells), quick_starts(reduction, limits, params), tight_fills(reduction)
    )
    placements = [start for nodes in starts if (start := weighed(reduction.cluster, reduction.job, nodes))]
    best = min(placements) if placements else _first(reduction, limits, until)
    effort = params.term_effort * limits.seconds
    goals = GoalSearch(reduction, bounds, best, [], limits, params, effort, until)
    goals.count(0)
    if not goals.settled(0):
        _improve(goals)
    goals.search([0])
    return search, goals


def _from_grid(
    reduction: GridReduction, search: PairSearch, inside: GridReduction, cells: IntArray
) -> Iterator[IntArray]:
    """Yield nodes, shape [cells, 1] each, of placements that have the embedded grid on a corner of its front."""
    if reduction.job.holds_groups:
        return
    for point in search.lattice.pareto():
        domain_of_part = inside.domain_of_cell(search.lattice.built[point.dp, point.pp])
        yield seat(
            reduction.cluster,
            reduction.job,
            level=reduction.level,
            domain_of_cell=_completed(reduction, cells, domain_of_part),
            admitted=reduction.admitted,
        )


def _completed(reduction: GridReduction, cells: IntArray, domain_of_part: IntArray) -> IntArray:
    """Return the domain of every cell, shape [cells, 1], given those of the embedded grid.

    Each other cell goes to the domain with room that most cells of its groups are in.
    """
    grid = reduction.job.grid
    domain = np.full(grid.cells, -1, dtype=np.int32)
    domain[cells] = domain_of_part
    left = reduction.room * reduction.blocks.size - np.bincount(domain[cells].ravel(), minlength=len(reduction.level))
    for cell in np.flatnonzero(domain < 0):
        near = np.zeros(len(reduction.level), dtype=np.int64)
        for family in ("dp", "pp"):
            groups = grid.groups[family]
            members = groups.cell[np.isin(groups.group, groups.group[groups.cell == cell])]
            near += np.bincount(domain[members[domain[members] >= 0]], minlength=len(near))
        domain[cell] = np.lexsort((-left, -near, left <= 0))[0]
        left[domain[cell]] -= 1
    return domain.reshape(grid.rows, grid.columns)


def _improve(goals: GoalSearch) -> None:
    """Improve the objective in the model of repairs, and raise its bound, where that is small enough."""
    offered = _anywhere(goals.reduction)
    if not offered.few:
        return
    reduction, best = goals.reduction, goals.best
    model = _model(offered, goals.limits)
    model.suggest(offered.target_of_mover(best.nodes))
    model.at_most("objective", model.value_of(best.worth))
    model.at_least("objective", ceil((goals.certified[0] - TOLERANCE) * model.scale - 1e-6))
    left = (1 - goals.params.long_share) * (goals.end - clock())
    step = model.minimise("objective", clock() + left)
    if step is None or model.answer is None:
        return
    goals.offer(_seated(reduction, offered, model.answer))
    goals.certified[0] = max(goals.certified[0], min(step.bound / model.scale, goals.best.costs[0]))


def _first(reduction: GridReduction, limits: Limits, until: float) -> WeighedPlacement:
    """Return a placement that keeps holds which no quick start kept; raises SolverTimeout."""
    offered = _anywhere(reduction)
    if not offered.few:
        offered = trimmed(offered)
    model = _model(offered, limits)
    model.suggest(greedy_targets(offered))
    model.minimise("objective", clock() + until - clock())
    if model.answer is not None:
        placement = weighed(reduction.cluster, reduction.job, _seated(reduction, offered, model.answer))
        if placement is not None:
            return placement
    raise SolverTimeout("time ran out before a placement was found", where="--time-limit", fix="give more seconds")


def _model(offered: MoveChoices, limits: Limits) -> MoveModel:
    return MoveModel(offered, replace(limits, workers=1))


def _seated(reduction: GridReduction, offered: MoveChoices, target_of_mover: IntArray) -> IntArray:
    """Return nodes for an answer of the model, shape [cells, 1]."""
    cluster, job = reduction.cluster, reduction.job
    level, domain_of_cell = cluster.levels[closest_named(cluster, job)], offered.class_of_cell(target_of_mover)
    return seat(cluster, job, level=level, domain_of_cell=domain_of_cell, admitted=reduction.admitted)


def _anywhere(reduction: GridReduction) -> MoveChoices:
    """Return the choice of a domain for every block of the job."""
    cluster, job = reduction.cluster, reduction.job
    return MoveChoices.anywhere(cluster, job, reduction.admitted, depth=closest_named(cluster, job))
