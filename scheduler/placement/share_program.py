"""The program that shares classes of nodes out to jobs, new ones and running ones.

Of a running job it decides which of its cells move, and that its objective gets no worse.  Cells move in *units*, each
to one class.  With a unit for each cell nothing is lost; with fewer there is less to choose.  A job that has the least
objective there is keeps each of its groups in one domain: then the groups are the units, and nothing is lost either.

Or it decides numbers of nodes alone, by the cases of S and R that the job may have: cells that may be exchanged are not
told apart.  Where whole rows (or columns) move alone, which cells move follows from the numbers, so nothing is lost;
elsewhere this is less than any placement satisfies, and good for bounds alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from scheduler.grid import joined
from scheduler.objective import objective_terms
from scheduler.placement.cell_choice import MOST_CHOICES, CellChoice
from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.moves import integer_weights
from scheduler.placement.node_classes import NodeDemand, TouchedDomains
from scheduler.placement.share_parts import JobWays, OptionCosts, SharePart, only_if_admitted
from scheduler.work_clock import counts_work
from topology.cluster import Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

    Variable = cp_model.IntVar
    Expression = cp_model.LinearExpr
    Solution = cp_model.CpSolver


class ShareModel:
    """Jobs beside each other on some classes of nodes."""

    def __init__(self, sizes: IntArray) -> None:
        from scheduler.placement import cp_model

        self.cp = cp_model.CpModel()
        self.sizes = sizes
        self.parts: list[JobWays] = []
        self.running: list[RunningPart] = []  # the caller adds them
        self.out_of_time = False  # whether the clock, and not its effort, ended a search

    def add_job(self, demands: Sequence[NodeDemand], *, optional: bool = False) -> JobWays:
        """Add a job, with a demand for each of its ways; its share is chosen by the program."""
        part = JobWays(self.cp, demands, self.sizes, optional=optional)
        self.parts.append(part)
        return part

    def share(self) -> None:
        """Add that no class is used up twice."""
        used: list[Mapping[int, cp_model.LinearExprT]] = [part.takes for part in self.parts]
        used += [part.takes for part in self.running]
        for c, size in enumerate(self.sizes.tolist()):
            taken = [takes[c] for takes in used if c in takes]
            if taken:
                self.cp.add(sum(taken) <= size)

    def least(self, cost: cp_model.LinearExprT, limit: Slice) -> tuple[Answer, cp_model.CpSolver]:
        """Search for the least cost within a limit."""
        self.cp.minimize(cost)
        answer, solver = solve(self.cp, limit)
        spent = solver.response_proto.deterministic_time if counts_work() else solver.wall_time
        self.out_of_time |= spent >= limit.wall
        return answer, solver


def taken(part: JobWays | RunningPart, solver: cp_model.CpSolver) -> Counter[int]:
    """Return the nodes of each class that a job takes in a solution, classes without any left out."""
    return Counter({c: count for c, take in part.takes.items() if (count := int(solver.value(take)))})


@dataclass(frozen=True, slots=True)
class TouchTerm:
    """A family whose groups touch domains: a term of the objective, or a hard constraint."""

    weight: int  # in the objective, a whole number; 0 = hard: no group touches two
    touched: TouchedDomains


@dataclass(frozen=True)
class RunningShare:
    """What a running job has, and what it must keep."""

    demand: NodeDemand
    options: tuple[int, ...]  # the options of the demand that are no slower than what it has
    homes: IntArray  # shape [cells], the class of each, row by row
    columns: int  # of cells
    terms: tuple[TouchTerm, ...]
    costs: OptionCosts  # of Eq. 2, of soft terms their least
    most: int  # its objective now in whole numbers, of which it may have no more
    price: int = 0  # what it costs to move any of it, in whole numbers

    @cached_property
    def pieces(self) -> IntArray:
        """Shape [cells], all cells of a class in one row as one unit, or in one column: wherever the units of a row go,
        it touches no more domains than now.
        """
        cell = np.arange(len(self.homes), dtype=np.int32)
        line = cell // self.columns if self.costs.per_pp >= self.costs.per_dp else cell % self.columns
        units: IntArray = np.unique(line * (int(self.homes.max()) + 1) + self.homes, return_inverse=True)[1]
        return units.reshape(-1).astype(np.int32)

    @cached_property
    def moves_by(self) -> Literal["rows", "columns"] | None:
        """What moves alone where nothing is lost by it: whole rows, as no placement that is no worse than now has
        another R than 1; whole columns, as for S; ``None`` = neither.
        """
        demand, classes = self.demand, np.flatnonzero(self.demand.admits)
        plain = demand.aligned and demand.movable and demand.blocks.block == 1 and not demand.other_levels
        # soft terms see other groups; and where a domain has several classes, numbers do not say which cells stay
        one_each = len(np.unique(demand.blocks.domain_of[classes])) == len(classes)
        if not plain or not one_each or self.costs.fixed:
            return None
        if demand.columns == 1 or self.costs.of(1, 2) > self.most:
            return "rows"
        return "columns" if demand.rows == 1 or self.costs.of(2, 1) > self.most else None

    @cached_property
    def choices(self) -> int:
        """Cells times classes: what there is to decide with a unit for each cell."""
        return len(self.homes) * int(self.demand.admits.sum())

    @cached_property
    def tied(self) -> IntArray | None:
        """Shape [cells], units of cells that stay together, as parting one makes the objective worse; ``None`` = groups
        may be parted.
        """
        if self.most > sum(term.weight for term in self.terms):
            return None
        classes = np.flatnonzero(self.demand.admits)
        for term in self.terms:
            # a unit goes to one class, and a domain may have several
            if len(np.unique(term.touched.domain_of[classes])) < len(classes):
                return None
        units = np.arange(len(self.homes), dtype=np.int32)
        for term in self.terms:
            units = joined(units, term.touched.groups.cell, term.touched.groups.group)
        return units


def running_terms(
    cluster: Cluster, demand: NodeDemand, *, objective: float
) -> tuple[tuple[TouchTerm, ...], OptionCosts, int]:
    """Return what counts in the objective of a job and what holds it, its costs, and the most it may have of them.

    :param objective: what it has now; no placement with as much has more in whole numbers than what is returned.
    """
    terms = objective_terms(cluster, demand.job)
    weights, scale = integer_weights(terms)
    soft = [TouchTerm(weight, touched) for touched, weight in zip(demand.terms, weights, strict=True) if weight]
    hard = [TouchTerm(0, touched) for touched in demand.holds]
    dp, pp, *others = weights
    # what rounding the weights can add: no group touches more domains than there are classes
    errors = [abs(term.weight * scale - weight) for term, weight in zip(terms, weights, strict=True)]
    rounded = sum(errors) * len(demand.admits)
    # a thousandth of a unit makes up for arithmetic in floating point
    return (*soft, *hard), OptionCosts(dp, pp, sum(others)), floor(objective * scale + rounded + 1e-3)


@dataclass(frozen=True, slots=True)
class RunningPart:
    """The variables of one running job."""

    share: RunningShare
    takes: Mapping[int, cp_model.LinearExprT]  # nodes of each class that it takes, those that it keeps among them
    moved: cp_model.LinearExprT  # cells that move
    any_moved: cp_model.IntVar  # whether any does, as far as that costs anything
    targets: Callable[[Solution], IntArray] | None  # the class of each cell, shape [cells]; None = that is not decided

    @classmethod
    def of(
        cls,
        cp: cp_model.CpModel,
        share: RunningShare,
        takes: Mapping[int, cp_model.LinearExprT],
        moved: Sequence[cp_model.LinearExprT],
        targets: Callable[[Solution], IntArray] | None = None,
    ) -> Self:
        """Return them, given numbers of cells that move, which together are all."""
        moves = cp.new_bool_var("")
        for count in moved if share.price else ():
            cp.add(count == 0).only_enforce_if(~moves)
        return cls(share, takes, sum(moved), moves, targets)


def by_units(cp: cp_model.CpModel, share: RunningShare, sizes: IntArray, units: IntArray) -> RunningPart:
    """Add a running job, which may move in some units, shape [cells]."""
    chosen = [cp.new_bool_var("") for _ in share.options]
    cp.add_exactly_one(chosen)
    options = [share.demand.options[i] for i in share.options]
    cells = CellChoice(cp, share.demand.admits, sizes, units)
    moved: list[cp_model.LinearExprT] = []
    names, first, counts = np.unique(units, return_index=True, return_counts=True)
    for name, cell, size in zip(names.tolist(), first.tolist(), counts.tolist(), strict=True):
        home, goes = int(share.homes[cell]), cells.goes[name]
        for c, here in goes.items():
            only_if_admitted(cp, here, 1, [(on, bool(of.admits[c])) for on, of in zip(chosen, options, strict=True)])
        moved.append(size - size * goes[home] if home in goes else size)
    # no group leaves its domain where that is hard, and the objective is no larger than now; of few units no group can
    # touch more domains than it may
    counted = [(term, cells.members(term.touched)) for term in share.terms if term.weight]
    worst = sum(term.weight * max(len(group.units) for group in groups) for term, groups in counted)
    if worst > share.most:
        cp.add(sum(term.weight * cells.spread(term.touched, groups) for term, groups in counted) <= share.most)
    for term in share.terms:
        if not term.weight:
            cells.hold(term.touched)
    return RunningPart.of(cp, share, cells.takes, moved, cells.classes)


def by_what_leaves(cp: cp_model.CpModel, share: RunningShare, sizes: IntArray) -> RunningPart:
    """Add a running job of which only is decided what leaves, not where it goes: quick, and good for bounds alone."""
    has = np.bincount(share.homes, minlength=len(sizes))
    leaves: dict[int, list[cp_model.LinearExprT]] = {}
    if share.tied is None:
        for c in np.flatnonzero(has).tolist():
            leaves[c] = [cp.new_int_var(0, int(has[c]), "")]
    else:
        _, first, counts = np.unique(share.tied, return_index=True, return_counts=True)
        for cell, size in zip(first.tolist(), counts.tolist(), strict=True):
            leaves.setdefault(int(share.homes[cell]), []).append(size * cp.new_bool_var(""))
    stays = {c: int(has[c]) - sum(some) for c, some in leaves.items()}
    return RunningPart.of(cp, share, stays, [count for of_class in leaves.values() for count in of_class])


def by_counts(cp: cp_model.CpModel, share: RunningShare, sizes: IntArray) -> RunningPart:
    """Add a running job of which only is decided how many nodes of each class it has; where its cells are then is known
    where whole rows or columns move alone.
    """
    demand = replace(share.demand, options=tuple(share.demand.options[i] for i in share.options))
    part = SharePart(cp, demand, sizes, optional=False)
    part.add_within(share.costs, share.most)
    moved: list[cp_model.LinearExprT] = []
    for c, has in sorted(Counter(share.homes.tolist()).items()):
        left = cp.new_int_var(0, has, "")
        cp.add(left >= has - part.takes.get(c, 0))
        moved.append(left)

    def targets(solver: Solution) -> IntArray:
        grid = share.homes.reshape(demand.rows, demand.columns)
        by_rows = share.moves_by == "rows"
        homes = (grid[:, 0] if by_rows else grid[0, :]).tolist()
        width = demand.columns if by_rows else demand.rows
        left = Counter({c: int(solver.value(takes)) // width for c, takes in part.takes.items()})
        stay = []
        for home in homes:
            stay.append(left[home] > 0)
            left[home] -= stay[-1]
        coming = left.elements()
        lines = np.array([c if stays else next(coming) for c, stays in zip(homes, stay, strict=True)], dtype=np.int32)
        return np.broadcast_to(lines[:, None] if by_rows else lines[None, :], grid.shape).reshape(-1).copy()

    return RunningPart.of(cp, share, part.takes, moved, targets)


def exact_units(shares: Sequence[RunningShare]) -> list[IntArray | None]:
    """Return units that lose nothing for each of some jobs, shape [cells]; ``None`` where they are too many, or where
    numbers lose nothing.
    """
    loose = [share for share in shares if share.tied is None and share.moves_by is None]
    few = sum(share.choices for share in loose) <= MOST_CHOICES
    units = []
    for share in shares:
        cells = np.arange(len(share.homes), dtype=np.int32) if few else None
        units.append(None if share.moves_by else cells if share.tied is None else share.tied)
    return units
