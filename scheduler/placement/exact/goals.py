"""Goals in order, on the nodes themselves: the objective with its soft terms, the EP spread, Eq. 2 at closer levels.

A placement comes from the search over pairs; bounds come from counting.  Where the two do not meet, one model of all
units of cells and all sites goes on, goal after goal, each among the placements that are as good in those before, so
what it proves is proved of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from math import ceil
from typing import Protocol

import numpy as np

from scheduler.job import Count, Job
from scheduler.objective import TOLERANCE, Evaluation, goals, worth_of
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.moves import GoalValue, MoveChoices, MoveModel, rounding_error
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from topology.cluster import Cluster, IntArray, count_nodes


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
    def choices(self) -> MoveChoices:
        """Blocks of cells, and the domains of the closest level where they may go."""
        cluster, job = self.reduction.cluster, self.reduction.job
        return MoveChoices.anywhere(cluster, job, self.reduction.admitted, depth=len(cluster.levels) - 1)

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
        if len(self.choices) > self.params.cell_choices:
            return
        begun, model = self.best, self._model(self.choices, goals[0])
        for number in goals:
            if not self.settled(number):
                if (left := self.end - clock()) <= 0 or self.effort <= 0:
                    return
                reached = self._minimise(model, number, left, self.effort)
                if reached is None:
                    return
                self.effort -= reached.effort
                self.offer(self._nodes(model))
                self.raise_bound(number, reached.bound / model.scale_of[_name(number)] - self._error(number))
            self._keep(model, number)
        if self.best is not begun:
            model.settle(self.end, effort=self.params.tie_effort)
            self.offer(self._nodes(model))

    def _search_inside(self, number: int) -> None:
        """Improve a closer level with the level above as it is: units are laid anew inside the domain there."""
        cluster, choices = self.reduction.cluster, self.choices
        above = cluster.levels[cluster.level_index(self.goals[number][0].level) - 1]
        inside = above.domain_of[choices.kinds.example[choices.targets]]
        homes = inside[choices.target_of_mover(self.best.nodes)]
        if self.settled(number) or int(np.bincount(inside)[homes].sum()) > self.params.cell_choices:
            return
        if (left := self.end - clock()) <= 0:
            return
        model = self._model(replace(choices, reach=homes[:, None] == inside), number)
        if self._minimise(model, number, left, self.params.inside_effort * self.limits.seconds):
            self.offer(self._nodes(model))

    def _model(self, choices: MoveChoices, before: int) -> MoveModel:
        """Return a model of placements that are as good as the best in so many goals."""
        model = MoveModel(choices, replace(self.limits, workers=1))
        model.suggest(choices.target_of_mover(self.best.nodes))
        for number in range(before):
            self._keep(model, number)
        return model

    def _keep(self, model: MoveModel, number: int) -> None:
        """Leave only placements as good as the best in a goal."""
        if (name := _name(number)) not in model.scale_of:
            model.count(name, self.goals[number])
        model.at_most(name, model.value_of(self.best.worth, self.goals[number]))

    def _minimise(self, model: MoveModel, number: int, seconds: float, effort: float) -> GoalValue | None:
        """Meet a goal between what is known of it and what the best placement has."""
        name = _name(number)
        self._keep(model, number)
        model.at_least(name, ceil((self.certified[number] - self._error(number)) * model.scale_of[name] - 1e-6))
        return model.minimise(name, clock() + seconds, effort=effort)

    def _nodes(self, model: MoveModel) -> IntArray:
        """Return the nodes of the last answer of a model, shape [rows, columns]."""
        reduction = self.reduction
        assert model.answer is not None, "it was minimised"
        return seat(
            reduction.cluster,
            reduction.job,
            level=reduction.cluster.levels[-1],
            domain_of_cell=self.choices.class_of_cell(model.answer),
            admitted=reduction.admitted,
        )

    def _error(self, number: int) -> float:
        """Return the most that rounding of the weights can make of a goal."""
        return rounding_error(self.goals[number], len(self.choices.targets))


def _name(number: int) -> str:
    """Return what the model calls a goal."""
    return f"goal {number}" if number else "objective"
