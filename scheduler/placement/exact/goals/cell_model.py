"""All units and all sites in one model: every term of the objective at every level, for what is small enough.

``x[unit, site]`` says where each unit goes.  A group touches a domain where one of its units does; its spread is the
number of domains touched.  Units that may not move take part in what groups touch, and in nothing else: so the same
model improves a part of a large placement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm
from typing import TYPE_CHECKING

import numpy as np

from scheduler.job import Count, Family
from scheduler.placement.cpsat import Slice, solve
from scheduler.placement.exact.goals.cell_sites import Sites
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

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
    effort: float  # deterministic seconds spent


class CellModel:
    """Where units may go, from a placement that is known."""

    def __init__(self, sites: Sites, site_of_unit: IntArray, *, among: BoolArray | None = None) -> None:
        """Make the model.

        :param among: shape [sites]: units on these may move, among these; all others stay.  ``None`` = all.
        """
        from ortools.sat.python import cp_model

        self.answer = site_of_unit  # Shape [units]: the best so far
        self._sites = sites
        self._model = cp_model.CpModel()
        among = np.ones(len(sites), dtype=np.bool_) if among is None else among
        self._fixed = ~among[site_of_unit]
        self._room = sites.room
        self._open = [int(k) for k in np.flatnonzero(among)]
        self._x: dict[int, dict[int, cp_model.IntVar]] = self._assignment()
        self._at: dict[str, dict[int, dict[int, cp_model.IntVar]]] = {}
        self._spreads: dict[tuple[Family, str], cp_model.IntVar] = {}
        self._touches: list[cp_model.IntVar] = []
        self._keep_ties()

    def at_most(self, goal: Goal, value: int) -> None:
        """Leave only answers with the goal at most that."""
        self._model.add(self._expression(goal) <= value)

    def at_least(self, goal: Goal, bound: int) -> None:
        """Say what is known: no answer has less."""
        self._model.add(self._expression(goal) >= bound)

    def minimise(self, goal: Goal, limit: Slice, *, touches: bool = False) -> Reached | None:
        """Meet a goal as well as the limit allows; ``None`` = no answer found.

        :param touches: of equal answers that with fewest touches is the better one; then there is no bound.
        """
        expression = self._expression(goal)
        if touches:
            expression = (len(self._touches) + 1) * expression + sum(self._touches)
        self._model.minimize(expression)
        return self._solve(limit, goal)

    def settle(self, limit: Slice, *, drift: bool) -> None:
        """Break ties: the smaller spreads where one has no weight, fewest slow nodes, fewest domains, best fit."""
        sites, job, model = self._sites, self._sites.job, self._model
        level = sites.cluster.level(job.level).name
        slow: list[cp_model.IntVar] = []
        for k in self._open:
            most = int(self._room[k]) * sites.blocks.size - int(sites.healthy[k])
            if most > 0 and job.avoid != "ignore":
                slow.append(model.new_int_var(0, most, ""))
                taken = sum(row[k] for row in self._x.values())
                model.add(slow[-1] >= sites.blocks.size * taken - int(sites.healthy[k]))
        domains = sites.domain_at[level]
        room = np.bincount(domains, weights=sites.room).astype(int).tolist()
        used = {k: model.new_bool_var("") for k in np.unique(domains[self._open]).tolist()}
        for row in self._places(level).values():
            for domain, choice in row.items():
                model.add_implication(choice, used[domain])
        total = sum(room) + 1
        # each of these outweighs all after it
        cost = sum((total + room[k]) * use for k, use in used.items())
        most_cost = total * (len(room) + 1)
        goals = sum(self.spread(family, level) for family in ("dp", "pp")) if drift else 0
        model.minimize((goals * (sites.units * sites.blocks.size + 1) + sum(slow)) * most_cost + cost)
        self._solve(limit, None)

    def _solve(self, limit: Slice, goal: Goal | None) -> Reached | None:
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for unit, row in self._x.items():
            for k, choice in row.items():
                self._model.add_hint(choice, bool(self.answer[unit] == k))
        answer, solver = solve(self._model, limit)
        if answer != "yes":
            return None
        found = self.answer.copy()
        for unit, row in self._x.items():
            found[unit] = next(k for k, choice in row.items() if solver.boolean_value(choice))
        self.answer = found
        if goal is None:
            return None
        value = sum(
            weight * solver.value(self._spreads[term.family, term.level])
            for term, weight in zip(goal.terms, goal.weights, strict=True)
        )
        # the bound is a float just below or above a whole number
        bound = ceil(solver.best_objective_bound - 1e-6)
        return Reached(value, bound, solver.response_proto.deterministic_time)

    def _assignment(self) -> dict[int, dict[int, cp_model.IntVar]]:
        model = self._model
        x = {int(u): {k: model.new_bool_var("") for k in self._open} for u in np.flatnonzero(~self._fixed)}
        for row in x.values():
            # every unit goes somewhere, and no site takes more than it has room for
            model.add_exactly_one(row.values())
        for k in self._open:
            if self._room[k] < len(x):
                model.add(sum(row[k] for row in x.values()) <= int(self._room[k]))
        return x

    def _keep_ties(self) -> None:
        """Keep what holds tie together in one domain; units are kept together anyway."""
        for level, tied in self._sites.ties.items():
            if not tied:
                continue
            places, domain_of = self._places(level), self._sites.domain_at[level]
            for units in tied:
                moving = [unit for unit in units if not self._fixed[unit]]
                still = [unit for unit in units if self._fixed[unit]]
                for unit in moving:
                    if still:
                        # the others stay, so the unit stays with them
                        self._model.add_bool_or(places[unit].get(int(domain_of[self.answer[still[0]]]), 0))
                    else:
                        for domain, choice in places[unit].items():
                            self._model.add(choice == places[moving[0]][domain])

    def _places(self, level: str) -> dict[int, dict[int, cp_model.IntVar]]:
        """Return for each unit that may move whether it is in each domain of a level."""
        if level in self._at:
            return self._at[level]
        domain_of = self._sites.domain_at[level].tolist()
        inside: dict[int, list[int]] = {}
        for k in self._open:
            inside.setdefault(domain_of[k], []).append(k)
        places: dict[int, dict[int, cp_model.IntVar]] = {}
        for unit, row in self._x.items():
            places[unit] = {}
            for domain, ks in inside.items():
                if len(ks) == 1:
                    places[unit][domain] = row[ks[0]]
                    continue
                there = places[unit][domain] = self._model.new_bool_var("")
                self._model.add(sum(row[k] for k in ks) == there)
        self._at[level] = places
        return places

    def _expression(self, goal: Goal) -> cp_model.LinearExpr:
        from ortools.sat.python import cp_model

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
            still = {int(domain_of[self.answer[unit]]) for unit in units if self._fixed[unit]}
            moving = [unit for unit in units if not self._fixed[unit]]
            if not moving:
                self._model.add(spread >= len(still))
                continue
            touched: dict[int, cp_model.IntVar] = {}
            for unit in moving:
                for domain, choice in places[unit].items():
                    if domain not in still:
                        if domain not in touched:
                            touched[domain] = self._model.new_bool_var("")
                        # a unit in the domain makes the group touch it
                        self._model.add_implication(choice, touched[domain])
            self._model.add(spread >= len(still) + sum(touched.values()))
            if not still and len(units) > 1:
                # implied, and found sooner so: the domains touched have room for all of the group
                fits = sum(min(len(units), int(room[domain])) * touch for domain, touch in touched.items())
                self._model.add(fits >= len(units))
            self._touches += touched.values()
        return spread
