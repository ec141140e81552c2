"""Goals in order, on the nodes themselves: the objective with its soft terms, the EP spread, Eq. 2 at closer levels.

A placement comes from the search over pairs; bounds come from counting.  Where the two do not meet, one model of all
units of cells and all sites goes on, goal after goal, each among the placements that are as good in those before, so
what it proves is proved of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import takewhile
from math import ceil, lcm
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from scheduler.job import Count, Family, Job
from scheduler.objective import TOLERANCE, Evaluation, goals, worth_of
from scheduler.placement.admission import Blocks, blocks_at
from scheduler.placement.cpsat import Slice, solve, work_of
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from topology.cluster import BoolArray, Cluster, IntArray, Level, count_nodes
from topology.flags import HEALTHY

if TYPE_CHECKING:
    from scheduler.placement import cp_model

# Cells and domains told apart as little as the objective allows: units of cells, and sites where they may go.
#
# A *site* is a domain of the closest level with room, a *unit* the cells that holds keep together in one, a single cell
# without holds.  Every level is an array that says which of its domains each site lies in: nothing is asked of how
# levels lie in each other.


@dataclass(frozen=True)
class Sites:
    """Units of a job, and the sites where they may go."""

    cluster: Cluster
    job: Job
    admitted: BoolArray  # shape [nodes], the nodes that may be used

    def __len__(self) -> int:
        return len(self._domains)

    @cached_property
    def closest(self) -> Level:
        """The level whose domains the sites are."""
        return self.cluster.levels[-1]

    @cached_property
    def blocks(self) -> Blocks:
        """The units."""
        return blocks_at(self.cluster, self.job, len(self.cluster.levels) - 1)

    @property
    def units(self) -> int:
        """Number of units."""
        return self.blocks.rows * self.blocks.columns

    @cached_property
    def room(self) -> IntArray:
        """Shape [sites], units that each can take."""
        return self._room_of_domain[self._domains]

    @cached_property
    def healthy(self) -> IntArray:
        """Shape [sites], nodes of each without a flag."""
        return count_nodes(self.closest, self.admitted & (self.cluster.slowdown <= HEALTHY))[self._domains]

    @cached_property
    def domain_at(self) -> Mapping[str, IntArray]:
        """Level -> shape [sites], the domain that each site lies in."""
        first = np.zeros(len(self.closest), dtype=np.int64)
        inside = np.flatnonzero(self.admitted)
        first[self.closest.domain_of[inside]] = inside
        return {level.name: level.domain_of[first[self._domains]] for level in self.cluster.levels}

    def site_of_unit(self, nodes: IntArray) -> IntArray:
        """Return the site of each unit of a placement, shape [units]; ``nodes`` has shape [rows, columns]."""
        index = np.full(len(self.closest), -1, dtype=np.int32)
        index[self._domains] = np.arange(len(self), dtype=np.int32)
        site = np.empty(self.units, dtype=np.int32)
        site[self.blocks.of_cell] = index[self.closest.domain_of[nodes]]
        return site

    def domain_of_cell(self, site_of_unit: IntArray) -> IntArray:
        """Return the domain of the closest level of each cell, shape [rows, columns]."""
        domain_of_unit = self._domains[site_of_unit].astype(np.int32)
        found: IntArray = domain_of_unit[self.blocks.of_cell]
        return found

    def groups(self, family: Family) -> list[tuple[int, ...]]:
        """Return the units of each group of a family; groups within one unit, and repetitions, are left out."""
        if family not in self._groups:
            self._groups[family] = self._several(*self.job.grid.groups[family].paired(self.blocks.of_cell))
        return self._groups[family]

    @cached_property
    def ties(self) -> Mapping[str, Sequence[tuple[int, ...]]]:
        """Level -> units that holds keep in one domain of it."""
        held = {hold.level for hold in self.job.holds_on(self.cluster)}
        unit_of = self.blocks.of_cell
        return {
            level.name: self._several(blocks_at(self.cluster, self.job, depth).of_cell.ravel(), unit_of.ravel())
            for depth, level in enumerate(self.cluster.levels)
            if level.name in held
        }

    @staticmethod
    def _several(group_of: IntArray, unit_of: IntArray) -> list[tuple[int, ...]]:
        """Return the distinct sets of several units that groups have, given pairs of a group and a unit."""
        group, unit = np.unique(np.stack([group_of, unit_of]), axis=1)
        parts = np.split(unit, np.flatnonzero(np.diff(group)) + 1)
        return list(dict.fromkeys(tuple(part.tolist()) for part in parts if len(part) > 1))

    @cached_property
    def _groups(self) -> dict[Family, list[tuple[int, ...]]]:
        return {}

    @cached_property
    def _room_of_domain(self) -> IntArray:
        return count_nodes(self.closest, self.admitted) // self.blocks.size

    @cached_property
    def _domains(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self._room_of_domain > 0)


# All units and all sites in one model: every term of the objective at every level, for what is small enough.
#
# ``x[unit, site]`` says where each unit goes.  A group touches a domain where one of its units does; its spread is the
# number of domains touched.  Units that may not move take part in what groups touch, and in nothing else: so the same
# model improves a part of a large placement.


_LARGEST_SCALE = 10**9  # Largest common denominator of weights: sums of a model stay far within 64 bits


@dataclass(frozen=True, slots=True)
class Goal:
    """What is minimised: weights times spreads, as whole numbers."""

    terms: tuple[Count, ...]  # one for each family and level, weights above 0
    weights: tuple[int, ...]  # of the terms, times the scale
    scale: int
    error: float  # most that rounding of the weights can make of the goal, for each domain of spread

    @classmethod
    def of(cls, terms: Iterable[Count]) -> Goal:
        """Return the goal of some terms: terms of one family and level are one, those without weight are left out."""
        total: dict[tuple[Family, str], float] = {}
        for term in terms:
            total[term.family, term.level] = total.get((term.family, term.level), 0.0) + term.weight
        kept = tuple(Count(family, level, weight) for (family, level), weight in total.items() if weight > 0.0)
        scale = lcm(*(Fraction(term.weight).limit_denominator(10**6).denominator for term in kept))
        scale = min(scale, _LARGEST_SCALE)
        weights = tuple(round(term.weight * scale) for term in kept)
        error = sum(abs(term.weight - weight / scale) for term, weight in zip(kept, weights, strict=True))
        return cls(kept, weights, scale, error)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a goal was met, in its whole numbers: what the answer has, and what no answer is below."""

    value: int
    bound: int
    effort: float  # deterministic seconds spent, with those of making the model


class CellModel:
    """Where units may go, from a placement that is known."""

    def __init__(
        self, sites: Sites, site_of_unit: IntArray, *, inside: npt.NDArray[np.integer[Any]] | None = None
    ) -> None:
        """Make the model.

        :param inside: shape [sites], the domain of each that units stay in; ``None`` = they may leave any.
        """
        from scheduler.placement import cp_model

        self.answer = site_of_unit  # Shape [units]: the best so far
        self._sites = sites
        model = self._model = cp_model.CpModel()
        self._room = sites.room
        # units on sites
        domain_of = np.zeros(len(sites), dtype=np.int32) if inside is None else inside
        x = [
            {k: model.new_bool_var("") for k in np.flatnonzero(domain_of == home).tolist()}
            for home in domain_of[site_of_unit]
        ]
        for row in x:
            # every unit goes somewhere, and no site takes more than it has room for
            model.add_exactly_one(row.values())
        self._x = x
        for k in range(len(sites)):
            if self._room[k] < len(x):
                model.add(self._taken(k) <= int(self._room[k]))
        self._at: dict[str, list[dict[int, cp_model.IntVar]]] = {}
        self._spreads: dict[tuple[Family, str], cp_model.IntVar] = {}
        self._keep_ties()

    def at_most(self, goal: Goal, value: int) -> None:
        """Leave only answers with the goal at most that."""
        self._model.add(self._expression(goal) <= value)

    def at_least(self, goal: Goal, bound: int) -> None:
        """Say what is known: no answer has less."""
        self._model.add(self._expression(goal) >= bound)

    def minimise(self, goal: Goal, limit: Slice) -> Reached | None:
        """Meet a goal as well as the limit allows; ``None`` = no answer found."""
        self._model.minimize(self._expression(goal))
        return self._solve(limit, goal)

    def settle(self, limit: Slice, *, drift: bool) -> None:
        """Break ties: the smaller spreads where one has no weight, fewest slow nodes, fewest domains, best fit."""
        sites, job, model = self._sites, self._sites.job, self._model
        level = sites.cluster.level(job.level).name
        slow: list[cp_model.IntVar] = []
        for k in range(len(sites)):
            most = int(self._room[k]) * sites.blocks.size - int(sites.healthy[k])
            if most > 0 and job.avoid != "ignore":
                slow.append(model.new_int_var(0, most, ""))
                model.add(slow[-1] >= sites.blocks.size * self._taken(k) - int(sites.healthy[k]))
        domains = sites.domain_at[level]
        room = np.bincount(domains, weights=sites.room).astype(int).tolist()
        used = {k: model.new_bool_var("") for k in np.unique(domains).tolist()}
        for row in self._places(level):
            for domain, choice in row.items():
                model.add_implication(choice, used[domain])
        total = sum(room) + 1
        # each of these outweighs all after it
        cost = sum((total + room[k]) * use for k, use in used.items())
        most_cost = total * (len(room) + 1)
        goals = sum(self.spread(family, level) for family in ("dp", "pp")) if drift else 0
        model.minimize((goals * (sites.units * sites.blocks.size + 1) + sum(slow)) * most_cost + cost)
        self._solve(limit, None)

    def _taken(self, site: int) -> cp_model.LinearExprT:
        """Return the units that go to a site."""
        return sum(row[site] for row in self._x if site in row)

    def _solve(self, limit: Slice, goal: Goal | None) -> Reached | None:
        self._model.clear_hints()
        for unit, row in enumerate(self._x):
            for k, choice in row.items():
                self._model.add_hint(choice, bool(self.answer[unit] == k))
        answer, solver = solve(self._model, limit)
        if answer != "yes":
            return None
        chosen = [next(k for k, choice in row.items() if solver.boolean_value(choice)) for row in self._x]
        self.answer = np.array(chosen, dtype=np.int32)
        if goal is None:
            return None
        value = sum(
            weight * solver.value(self._spreads[term.family, term.level])
            for term, weight in zip(goal.terms, goal.weights, strict=True)
        )
        # the bound is a float just below or above a whole number
        bound = ceil(solver.best_objective_bound - 1e-6)
        return Reached(value, bound, work_of(solver, self._model))

    def _keep_ties(self) -> None:
        """Keep what holds tie together in one domain; units are kept together anyway."""
        for level, tied in self._sites.ties.items():
            if not tied:
                continue
            places = self._places(level)
            for first, *others in tied:
                for unit in others:
                    for domain, choice in places[unit].items():
                        self._model.add(choice == places[first][domain])

    def _places(self, level: str) -> list[dict[int, cp_model.IntVar]]:
        """Return for each unit whether it is in each domain of a level."""
        if level in self._at:
            return self._at[level]
        domain_of = self._sites.domain_at[level].tolist()
        places: list[dict[int, cp_model.IntVar]] = []
        for row in self._x:
            inside: dict[int, list[cp_model.IntVar]] = {}
            for k, choice in row.items():
                inside.setdefault(domain_of[k], []).append(choice)
            places.append({})
            for domain, choices in inside.items():
                there = choices[0] if len(choices) == 1 else self._model.new_bool_var("")
                if len(choices) > 1:
                    self._model.add(sum(choices) == there)
                places[-1][domain] = there
        return self._at.setdefault(level, places)

    def _expression(self, goal: Goal) -> cp_model.LinearExpr:
        from scheduler.placement import cp_model

        spreads = [self.spread(term.family, term.level) for term in goal.terms]
        return cp_model.LinearExpr.weighted_sum(spreads, goal.weights)

    def spread(self, family: Family, level: str) -> cp_model.IntVar:
        """Return the largest number of domains of a level that a group of a family touches."""
        if (family, level) in self._spreads:
            return self._spreads[family, level]
        domain_of = self._sites.domain_at[level]
        room = np.bincount(domain_of, weights=self._sites.room).astype(int)
        domains = len(np.unique(domain_of))
        groups = self._sites.groups(family)
        spread = self._model.new_int_var(1, max(1, min(domains, max(map(len, groups), default=1))), "")
        self._spreads[family, level] = spread
        places = self._places(level)
        for units in groups:
            touched: dict[int, cp_model.IntVar] = {}
            for unit in units:
                for domain, choice in places[unit].items():
                    if domain not in touched:
                        touched[domain] = self._model.new_bool_var("")
                    # a unit in the domain makes the group touch it
                    self._model.add_implication(choice, touched[domain])
            self._model.add(spread >= sum(touched.values()))
            # implied, and found sooner so: the domains touched have room for all of the group
            fits = sum(min(len(units), int(room[domain])) * touch for domain, touch in touched.items())
            self._model.add(fits >= len(units))
        return spread


@dataclass(frozen=True)
class WeighedPlacement:
    """A placement and what it is worth, goal by goal; of two the lesser is the better."""

    nodes: IntArray  # shape [rows, columns]
    worth: Evaluation
    cluster: Cluster
    job: Job

    @property
    def costs(self) -> tuple[float, ...]:
        """What its goals come to, in order."""
        return self.worth.goals

    @cached_property
    def ties(self) -> tuple[float, ...]:
        """By which equals are compared: spreads without weight, slow nodes, domains of the job's level, free nodes in
        these.
        """
        worth, job = self.worth, self.job
        # where one affinity is zero its spread would be free to drift
        drift = float(worth.dp + worth.pp) if job.alpha in (0.0, 1.0) else 0.0
        flagged = 0.0 if job.avoid == "ignore" else float(len(worth.flagged))
        level = self.cluster.level(job.level)
        room = count_nodes(level, self.cluster.idle)[np.unique(level.domain_of[self.nodes])]
        return drift, flagged, float(len(room)), float(room.sum())

    def __lt__(self, other: WeighedPlacement) -> bool:
        """Return whether it is better, goal by goal, then by the ties, which are counted where they decide."""
        own, others = ([round(cost, 9) for cost in placed.costs] for placed in (self, other))
        return self.ties < other.ties if own == others else own < others


def weighed(cluster: Cluster, job: Job, nodes: IntArray) -> WeighedPlacement | None:
    """Return a placement with its worth; ``None`` where it breaks a hold."""
    worth = worth_of(cluster, job, nodes)
    return None if worth is None else WeighedPlacement(nodes, worth, cluster, job)


class GoalBounds(Protocol):
    """What is known of the spreads of all placements without a look at any."""

    def least(self, terms: Sequence[Count], *, among: Sequence[tuple[Sequence[Count], float]] = ()) -> float:
        """Return what some terms come to at least, among placements where others come to no more than a number."""


@dataclass
class GoalSearch:
    """The goals of one job on nodes up to some slowdown; the best placement so far, and a bound for each goal."""

    reduction: GridReduction
    bounds: GoalBounds
    best: WeighedPlacement
    certified: list[float]  # for each goal looked at, what no placement is below that is as good in those before
    limits: Limits
    params: ExactParams
    effort: float  # deterministic seconds left for models
    end: float  # of the time

    @cached_property
    def goals(self) -> tuple[tuple[Count, ...], ...]:
        """Terms of each goal."""
        return goals(self.reduction.cluster, self.reduction.job)

    @cached_property
    def sites(self) -> Sites:
        """Cells and domains as the model tells them apart."""
        return Sites(self.reduction.cluster, self.reduction.job, self.reduction.admitted)

    def settled(self, goal: int) -> bool:
        """Whether the best placement reaches the bound of a goal."""
        return goal < len(self.certified) and self.best.costs[goal] <= self.certified[goal] + TOLERANCE

    def offer(self, nodes: IntArray) -> None:
        """Take a placement where it is better than the best."""
        placed = weighed(self.reduction.cluster, self.reduction.job, nodes)
        if placed is not None and placed < self.best:
            self.best = placed

    def offer_all(self, placements: Iterable[IntArray]) -> None:
        """Take the best of some placements, in turn, where it is better than the best."""
        for nodes in placements:
            self.offer(nodes)

    def offer_in_time(self, placements: Iterable[IntArray]) -> None:
        """Take the best of as many placements, in turn, as time allows."""
        self.offer_all(takewhile(lambda _: clock() < self.end, placements))

    def count(self, goal: int) -> None:
        """Raise the bound of a goal to what counting says."""
        before = list(zip(self.goals[:goal], self.best.costs[:goal], strict=True))
        bound = self.bounds.least(self.goals[goal], among=before)
        if goal == len(self.certified):
            self.certified.append(bound)
        self.raise_bound(goal, bound)

    def raise_bound(self, goal: int, bound: float) -> None:
        """Note what no placement is below that is as good in the goals before."""
        self.certified[goal] = max(self.certified[goal], min(bound, self.best.costs[goal]))

    def counted(self, goals: Sequence[int]) -> bool:
        """Return whether the best placement reaches what counting says of some goals."""
        for goal in goals:
            self.count(goal)
        return all(self.settled(goal) for goal in goals)

    def search(self, goals: Sequence[int]) -> None:
        """Meet some goals, in order, as far as time and effort allow: closer levels inside the domains of the level
        above, then all by the model of all cells, where it is not too large; one that is not met limits the later.
        """
        if self.counted(goals):
            return
        for number in goals:
            if number > int(self.reduction.job.experts_apart):
                self._search_inside(number)
        sites, begun = self.sites, self.best
        if sites.units * len(sites) > self.params.cell_choices:
            return
        model = CellModel(sites, sites.site_of_unit(self.best.nodes))
        for number in range(goals[0]):
            goal = Goal.of(self.goals[number])
            model.at_most(goal, self._whole(goal, self.best))
        for number in goals:
            goal = Goal.of(self.goals[number])
            before = self._whole(goal, self.best)
            if not self.settled(number):
                if (left := self.end - clock()) <= 0 or self.effort <= 0:
                    return
                model.at_least(goal, ceil((self.certified[number] - self._error(goal)) * goal.scale - 1e-6))
                reached = model.minimise(goal, Slice(self.effort, left, self.limits.seed))
                if reached is None:
                    return
                self.effort -= reached.effort
                if reached.value < before:
                    self.offer(self._nodes(model))
                bound = reached.bound / goal.scale - self._error(goal)
                self.raise_bound(number, bound)
            model.at_most(goal, self._whole(goal, self.best))
        if self.best is not begun:
            drift = self.reduction.job.alpha in (0.0, 1.0)
            model.settle(Slice(self.params.tie_effort, self.end - clock(), self.limits.seed), drift=drift)
            self.offer(self._nodes(model))

    def _search_inside(self, number: int) -> None:
        """Improve a closer level with the level above as it is: units are laid anew inside the domain there."""
        cluster, sites = self.reduction.cluster, self.sites
        above = cluster.levels[cluster.level_index(self.goals[number][0].level) - 1].name
        inside, site_of = sites.domain_at[above], sites.site_of_unit(self.best.nodes)
        many = np.bincount(inside)
        if self.settled(number) or int(many[inside[site_of]].sum()) > self.params.cell_choices:
            return
        if (left := self.end - clock()) <= 0:
            return
        model = CellModel(sites, site_of, inside=inside)
        for before in range(number):
            known = Goal.of(self.goals[before])
            model.at_most(known, self._whole(known, self.best))
        goal = Goal.of(self.goals[number])
        model.at_least(goal, ceil((self.certified[number] - self._error(goal)) * goal.scale - 1e-6))
        model.at_most(goal, self._whole(goal, self.best))
        if model.minimise(goal, Slice(self.params.inside_effort * self.limits.seconds, left, self.limits.seed)):
            self.offer(self._nodes(model))

    def _nodes(self, model: CellModel) -> IntArray:
        """Return the nodes of an answer of the model, shape [rows, columns]."""
        reduction = self.reduction
        return seat(
            reduction.cluster,
            reduction.job,
            level=self.sites.closest,
            domain_of_cell=self.sites.domain_of_cell(model.answer),
            admitted=reduction.admitted,
        )

    def _whole(self, goal: Goal, placed: WeighedPlacement) -> int:
        """Return the goal of a placement in whole numbers."""
        spreads = (placed.worth.by_level[term.level][term.family] for term in goal.terms)
        return sum(weight * spread for weight, spread in zip(goal.weights, spreads, strict=True))

    def _error(self, goal: Goal) -> float:
        """Return the most that rounding of the weights can make of a goal."""
        return goal.error * len(self.sites) if goal.error > TOLERANCE / 1000 else 0.0
