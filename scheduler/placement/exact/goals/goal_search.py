"""Goals in order, on the nodes themselves: the objective with its soft terms, the EP spread, Eq. 2 at closer levels.

A placement comes from the search over pairs; bounds come from counting.  Where the two do not meet, the model of all
cells (:mod:`scheduler.placement.exact.goals.cell_model`) goes on: goal after goal, each among the placements that are
as good in those before, so what it proves is proved of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from math import ceil
from typing import Protocol

import numpy as np

from scheduler.job import Count, Job
from scheduler.objective import TOLERANCE, Evaluation, goals, worth_of
from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.goals.cell_model import CellModel, Goal
from scheduler.placement.exact.goals.cell_sites import Sites
from scheduler.placement.exact.goals.worst_parts import WorstParts
from scheduler.placement.exact.grid.params import ExactParams
from scheduler.placement.exact.grid.problem import GridReduction
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from topology.cluster import Cluster, IntArray, count_nodes


@dataclass(frozen=True)
class WeighedPlacement:
    """A placement and what it is worth, goal by goal."""

    nodes: IntArray  # shape [rows, columns]
    worth: Evaluation
    costs: tuple[float, ...]  # what its goals come to, in order
    # by which equals are compared: spreads without weight, slow nodes, domains of the job's level, free nodes in these
    ties: tuple[float, ...]

    @property
    def order(self) -> tuple[tuple[float, ...], ...]:
        """By which placements are compared, the least the best."""
        return tuple(round(cost, 9) for cost in self.costs), self.ties


def weighed(cluster: Cluster, job: Job, nodes: IntArray) -> WeighedPlacement | None:
    """Return a placement with its worth; ``None`` where it breaks a hold."""
    if (worth := worth_of(cluster, job, nodes)) is None:
        return None
    # where one affinity is zero its spread would be free to drift
    drift = float(worth.dp + worth.pp) if job.alpha in (0.0, 1.0) else 0.0
    flagged = 0.0 if job.avoid == "ignore" else float(len(worth.flagged))
    level = cluster.level(job.level)
    room = count_nodes(level, cluster.idle)[np.unique(level.domain_of[nodes])]
    ties = (drift, flagged, float(len(room)), float(room.sum()))
    return WeighedPlacement(nodes, worth, worth.goals, ties)


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
        found = weighed(self.reduction.cluster, self.reduction.job, nodes)
        if found is not None and found.order < self.best.order:
            self.best = found

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
        self.certified[goal] = max(self.certified[goal], min(bound, self.best.costs[goal]))

    def counted(self, goals: Sequence[int]) -> bool:
        """Return whether the best placement reaches what counting says of some goals."""
        for goal in goals:
            self.count(goal)
        return all(self.settled(goal) for goal in goals)

    def search(self, goals: Sequence[int]) -> None:
        """Meet some goals, in order, as far as time and effort allow.

        Where one model of all cells would be too large, goals are improved part by part; closer levels only where a
        part is a good share of the whole, for the worst of many groups hardly ever gives way to less.
        """
        if self.counted(goals):
            return
        choices = self.sites.units * len(self.sites)
        if choices <= self.params.cell_choices:
            self._search_model(goals)
            return
        for goal in goals:
            if goal == 0 or choices <= self.params.closer_choices:
                self._search_parts(goal)

    def _search_model(self, goals: Sequence[int]) -> None:
        """Solve the model of all cells for one goal after another; an earlier one that is not met limits the later."""
        sites, begun = self.sites, self.best
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
                self.certified[number] = max(self.certified[number], min(bound, self.best.costs[number]))
            model.at_most(goal, self._whole(goal, self.best))
        if self.best is not begun:
            drift = self.reduction.job.alpha in (0.0, 1.0)
            model.settle(Slice(self.params.tie_effort, self.end - clock(), self.limits.seed), drift=drift)
            self.offer(self._nodes(model))

    def _search_parts(self, number: int) -> None:
        """Improve a goal part by part: the units on some sites are laid anew among these, as large as a model may be.

        Of equals the one with fewer touches is kept: many groups have to be better before the worst is.
        """
        goal = Goal.of(self.goals[number])
        parts = WorstParts(self.sites, goal, self.params.cell_choices, self.limits.seed)
        site_of, fruitless = self.sites.site_of_unit(self.best.nodes), 0
        while not self.settled(number) and fruitless < self.params.fruitless_parts:
            left = self.end - clock()
            if left <= 0 or self.effort <= 0:
                return
            model = CellModel(self.sites, site_of, among=parts.draw(site_of))
            for before in range(number + 1):
                known = Goal.of(self.goals[before])
                model.at_most(known, self._whole(known, self.best))
            limit = Slice(self.params.part_effort, left, self.limits.seed, light=True)
            reached = model.minimise(goal, limit, touches=True)
            self.effort -= self.params.part_cost + (reached.effort if reached else self.params.part_effort)
            fruitless += 1
            if not np.array_equal(site_of, model.answer):
                site_of = model.answer
                fruitless = 0
            if reached is not None and reached.value < self._whole(goal, self.best):
                self.offer(self._nodes(model))

    def _nodes(self, model: CellModel) -> IntArray:
        """Return the nodes of an answer of the model, shape [rows, columns]."""
        one = self.reduction
        return seat(
            one.cluster,
            one.job,
            level=self.sites.closest,
            domain_of_cell=self.sites.domain_of_cell(model.answer),
            admitted=one.admitted,
        )

    def _whole(self, goal: Goal, placed: WeighedPlacement) -> int:
        """Return the goal of a placement in whole numbers."""
        spreads = (placed.worth.by_level[term.level][term.family] for term in goal.terms)
        return sum(weight * spread for weight, spread in zip(goal.weights, spreads, strict=True))

    def _error(self, goal: Goal) -> float:
        """Return the most that rounding of the weights can make of a goal."""
        return goal.error * len(self.sites) if goal.error > TOLERANCE / 1000 else 0.0
