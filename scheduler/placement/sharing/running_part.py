"""A running job in the program that shares nodes out: which of its cells move, and that its objective gets no worse.

Cells move in *units*, each to one class.  With a unit for each cell nothing is lost; with fewer there is less to
choose.  A job that has the least objective there is keeps each of its groups in one domain: then the groups are the
units, and nothing is lost either.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING, Literal

import numpy as np

from scheduler.job import Job
from scheduler.placement.moves.move_choices import integer_weights, terms_of
from scheduler.placement.sharing.node_classes import NodeDemand
from scheduler.placement.sharing.share_part import OptionCosts, only_if_admitted
from scheduler.rank_groups import CellGroups
from topology.cluster import Cluster, IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MOST_CHOICES = 4_000  # Cells times classes of all jobs up to which each cell is a unit: as many are decided in seconds


@dataclass(frozen=True, slots=True)
class TouchTerm:
    """A family whose groups touch domains: a term of the objective, or a hard constraint."""

    weight: int  # in the objective, a whole number; 0 = hard: no group touches two
    groups: CellGroups
    domain_of: IntArray  # shape [classes]


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
            if len(np.unique(term.domain_of[classes])) < len(classes):
                return None
        units = np.arange(len(self.homes), dtype=np.int32)
        while True:
            before = units.copy()
            for term in self.terms:
                least = np.full(int(term.groups.group.max()) + 1, len(units), dtype=np.int32)
                np.minimum.at(least, term.groups.group, units[term.groups.cell])
                np.minimum.at(units, term.groups.cell, least[term.groups.group])
            if (units == before).all():
                return units


def running_terms(
    cluster: Cluster, job: Job, *, example: IntArray, objective: float
) -> tuple[tuple[TouchTerm, ...], OptionCosts, int]:
    """Return what counts in the objective of a job and what holds it, its costs, and the most it may have of them.

    :param example: shape [classes], a node of each.
    :param objective: what it has now; no placement with as much has more in whole numbers than what is returned.
    """
    terms = terms_of(cluster, job)
    weights, scale = integer_weights(terms)
    groups = job.grid.groups
    soft = [
        TouchTerm(weight, groups[term.family], cluster.levels[term.depth].domain_of[example])
        for term, weight in zip(terms, weights, strict=True)
        if weight
    ]
    hard = [
        TouchTerm(0, groups[hold.family], cluster.level(hold.level).domain_of[example])
        for hold in job.holds_on(cluster)
    ]
    dp, pp, *others = weights
    # what rounding the weights can add: no group touches more domains than there are classes
    rounded = sum(abs(term.weight * scale - weight) for term, weight in zip(terms, weights, strict=True)) * len(example)
    # a thousandth of a unit makes up for arithmetic in floating point
    return (*soft, *hard), OptionCosts(dp, pp, sum(others)), floor(objective * scale + rounded + 1e-3)


def any_moved(cp: cp_model.CpModel, share: RunningShare, moved: Sequence[cp_model.LinearExprT]) -> cp_model.IntVar:
    """Return whether any cell of a running job moves, as far as that costs anything.

    :param moved: numbers of cells that move, which together are all.
    """
    moves = cp.new_bool_var("")
    for one in moved if share.price else ():
        cp.add(one == 0).only_enforce_if(~moves)
    return moves


class RunningPart:
    """The variables of one running job.

    :param units: shape [cells].
    """

    def __init__(self, cp: cp_model.CpModel, share: RunningShare, sizes: IntArray, units: IntArray) -> None:
        self.cp, self.share, self.units = cp, share, units
        self.options = [cp.new_bool_var("") for _ in share.options]
        cp.add_exactly_one(self.options)
        self.takes: dict[int, cp_model.LinearExprT] = {}
        moved = self._by_unit(units, sizes)
        self.moved: cp_model.LinearExprT = sum(moved)
        self.any_moved = any_moved(cp, share, moved)

    def _by_unit(self, units: IntArray, sizes: IntArray) -> list[cp_model.LinearExprT]:
        """Add a class for each unit, and return the cells that move with each."""
        cp, share = self.cp, self.share
        options = [share.demand.options[i] for i in share.options]
        names, first, counts = np.unique(units, return_index=True, return_counts=True)
        self.goes: dict[int, dict[int, cp_model.IntVar]] = {}
        taken: dict[int, list[cp_model.LinearExprT]] = {}
        moved: list[cp_model.LinearExprT] = []
        for name, cell, size in zip(names.tolist(), first.tolist(), counts.tolist(), strict=True):
            home = int(share.homes[cell])
            places = [c for c in np.flatnonzero(share.demand.admits).tolist() if size <= sizes[c]]
            goes = self.goes[name] = {c: cp.new_bool_var("") for c in places}
            cp.add_exactly_one(goes.values())
            for c, here in goes.items():
                taken.setdefault(c, []).append(size * here)
                admits = [(on, bool(of.admits[c])) for on, of in zip(self.options, options, strict=True)]
                only_if_admitted(cp, here, 1, admits)
            moved.append(size - size * goes[home] if home in goes else size)
        self.takes = {c: sum(of_class) for c, of_class in taken.items()}
        members = [self._members(term, units) for term in share.terms]
        sizes_of = [max(map(len, groups)) for groups in members]
        hard = [size for term, size in zip(share.terms, sizes_of, strict=True) if not term.weight]
        worst = sum(term.weight * size for term, size in zip(share.terms, sizes_of, strict=True))
        # of as few units no group can touch more domains than it may
        if worst > share.most or max(hard, default=1) > 1:
            spreads = [
                term.weight * self._spread(term, groups) for term, groups in zip(share.terms, members, strict=True)
            ]
            cp.add(sum(spreads) <= share.most)
        return moved

    @staticmethod
    def _members(term: TouchTerm, units: IntArray) -> set[frozenset[int]]:
        """Return the units of each group."""
        members: dict[int, set[int]] = {}
        for group, unit in zip(term.groups.group.tolist(), units[term.groups.cell].tolist(), strict=True):
            members.setdefault(group, set()).add(unit)
        return {frozenset(group) for group in members.values()}

    def _spread(self, term: TouchTerm, members: Collection[frozenset[int]]) -> cp_model.LinearExprT:
        """Return the largest number of domains that a group touches, given the units of each; for a hard term 1."""
        cp = self.cp
        several = [group for group in members if len(group) > 1]
        if not several:
            return 1
        domains = np.unique(term.domain_of[self.share.demand.admits]).tolist()
        spread = cp.new_int_var(1, len(domains) if term.weight else 1, "")
        for group in sorted(map(sorted, several)):
            touches = {k: cp.new_bool_var("") for k in domains}
            for unit in group:
                for k, touch in touches.items():
                    here = [on for c, on in self.goes[unit].items() if term.domain_of[c] == k]
                    cp.add(sum(here) <= touch)
            cp.add(sum(touches.values()) <= spread)
        return spread

    def targets(self, solver: cp_model.CpSolver) -> IntArray:
        """Return the class of each cell in a solution, shape [cells]."""
        place = {
            name: next(c for c, on in goes.items() if solver.boolean_value(on)) for name, goes in self.goes.items()
        }
        return np.array([place[unit] for unit in self.units.tolist()], dtype=np.int32)


class LeavingPart:
    """A running job of which only is decided what leaves, not where it goes: quick, and good for bounds alone."""

    def __init__(self, cp: cp_model.CpModel, share: RunningShare, sizes: IntArray) -> None:
        self.share = share
        has = np.bincount(share.homes, minlength=len(sizes))
        leaves: dict[int, list[cp_model.LinearExprT]] = {}
        if share.tied is None:
            for c in np.flatnonzero(has).tolist():
                leaves[c] = [cp.new_int_var(0, int(has[c]), "")]
        else:
            _, first, counts = np.unique(share.tied, return_index=True, return_counts=True)
            for cell, size in zip(first.tolist(), counts.tolist(), strict=True):
                leaves.setdefault(int(share.homes[cell]), []).append(size * cp.new_bool_var(""))
        moved = [one for of_class in leaves.values() for one in of_class]
        self.takes: dict[int, cp_model.LinearExprT] = {c: int(has[c]) - sum(some) for c, some in leaves.items()}
        self.moved: cp_model.LinearExprT = sum(moved)
        self.any_moved = any_moved(cp, share, moved)


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
