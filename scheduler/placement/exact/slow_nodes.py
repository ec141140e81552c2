"""Slow nodes weighed against spread: up to which slowdown they are used.

Only the slowest node sets the pace, so the options are the thresholds between the slowdowns of the free nodes.  Each is
searched, and the least predicted step time (:func:`scheduler.objective.step_time`) wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.job import Job
from scheduler.objective import TOLERANCE, objective_terms, step_time
from scheduler.placement.admission import admissible
from scheduler.placement.exact.goals.goal_search import GoalSearch
from scheduler.placement.exact.goals.level_bounds import LevelBounds
from scheduler.placement.exact.goals.soft_terms import goals_of, has_more_terms
from scheduler.placement.exact.grid.params import ExactParams
from scheduler.placement.exact.grid.problem import GridReduction, counted_where_held
from scheduler.placement.exact.pairs.lattice import Lattice
from scheduler.placement.exact.pairs.pair_search import PairSearch
from scheduler.placement.exact.schedule.pair_seats import search_reduction
from scheduler.placement.exact.shared_stages import search_shared_stages
from scheduler.placement.types import GridProof, Limits, PriceOption
from scheduler.work_clock import clock
from topology.cluster import Cluster
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class ThresholdSearch:
    """One threshold of slowdown, searched."""

    reduction: GridReduction
    search: PairSearch
    goals: GoalSearch | None = None  # of a job whose pair does not decide, with its objective searched
    stopped: bool = False  # whether time ran out on these goals, where stages share nodes

    @property
    def objective(self) -> float:
        """That of the best placement."""
        return self.lattice.cost(self.lattice.best) if self.goals is None else self.goals.best.worth.objective

    @property
    def bound(self) -> float:
        """No placement on its nodes has a smaller objective."""
        return self.lattice.bound() if self.goals is None else self.goals.certified[0]

    @property
    def time(self) -> float:
        """Predicted step time of the best placement, relative to the ideal."""
        return step_time(self.reduction.job, objective=self.objective, slowest=self.reduction.slowest)

    @property
    def complete(self) -> bool:
        """Whether the search ended by itself."""
        return self.search.complete and not self.stopped

    @property
    def lattice(self) -> Lattice:
        """Its pairs, built and refuted."""
        return self.search.lattice

    @property
    def proofs(self) -> tuple[GridProof, ...]:
        """What was refuted at the job's level, and at others that its objective has terms at."""
        one = self.reduction
        known = {one.level.name: self.lattice}
        if self.goals is not None and isinstance(self.goals.bounds, LevelBounds):
            counted = {term.level for term in objective_terms(one.cluster, one.job)}
            known |= {name: lattice for name, lattice in self.goals.bounds.lattices.items() if name in counted}
        return tuple(
            GridProof(name, one.slowest, grid.rows, grid.columns, grid.capacities, tuple(lattice.refutations))
            for name, lattice in known.items()
            for grid in [lattice.problem]
        )

    def option(self, objective: float, *, chosen: bool) -> PriceOption:
        """Return the threshold as one way to treat slow nodes.

        :param objective: of the best placement known on its nodes.
        """
        time = step_time(self.reduction.job, objective=objective, slowest=self.reduction.slowest)
        bound = min(self.bound, objective)
        return PriceOption.of(self.reduction.slowest, objective=objective, bound=bound, step_time=time, chosen=chosen)


def thresholds(cluster: Cluster, job: Job) -> tuple[float, ...]:
    """Return the slowdowns up to which nodes may be admitted, ascending, 1.0 (no flagged node) first.

    ``strict`` leaves 1.0 alone; ``ignore`` puts no price on slow nodes, so only all or none of them make sense.
    """
    if job.avoid == "strict":
        return (HEALTHY,)
    slow = cluster.slowdown[admissible(cluster, job)]
    found = [float(f) for f in np.unique(slow[slow > HEALTHY])]
    return (HEALTHY, *(found if job.avoid == "price" else found[-1:]))


@dataclass(frozen=True, slots=True)
class SearchedThresholds:
    """The thresholds that could win, ascending; the last admits all nodes that the job may use."""

    searches: tuple[ThresholdSearch, ...]
    shortest: float  # certified: no placement has a shorter predicted step

    @property
    def chosen(self) -> ThresholdSearch:
        """The one with the shortest step; of equal ones that with the healthier nodes."""
        return min(self.searches, key=lambda one: (round(one.time, 9), one.reduction.slowest))

    @property
    def widest(self) -> ThresholdSearch:
        """The one whose bound is a bound for all."""
        return self.searches[-1]


def search_thresholds(
    every: GridReduction, options: tuple[float, ...], limits: Limits, params: ExactParams
) -> SearchedThresholds:
    """Search the thresholds that can win; the widest first of all, for its bound serves the others.

    :param every: the job on all nodes that it may use, which are those of the last option.
    """
    cluster, job, end = every.cluster, every.job, clock() + limits.seconds
    searched: list[ThresholdSearch] = []
    fitting = [every.slowest]  # thresholds at which counting does not rule the job out
    # half the time for the widest, the rest shared out among the others as they come
    widest = search_threshold(every, limits, end, shares=min(2, len(options)), params=params)
    least = widest.bound
    for i, slowest in enumerate(options[:-1]):
        # fewer nodes have no better objective, so no step time of this threshold is below this one
        fastest = step_time(job, objective=least, slowest=slowest)
        if GridReduction(cluster, counted_where_held(cluster, job), slowest).refusal:
            continue
        fitting.append(slowest)
        if any(one.time <= fastest + TOLERANCE for one in searched):
            continue
        shares = len(options) - 1 - i
        reduction = GridReduction(cluster, job, slowest)
        searched.append(search_threshold(reduction, limits, end, shares=shares, params=params))
    searched.append(widest)
    return SearchedThresholds(tuple(searched), min(_shortest(job, slowest, searched) for slowest in fitting))


def _shortest(job: Job, slowest: float, searched: Sequence[ThresholdSearch]) -> float:
    """Return what no step is below with a node of some slowdown in use, and none slower."""
    # what no placement on more nodes is below none on these is
    bound = max(one.bound for one in searched if one.reduction.slowest >= slowest)
    return step_time(job, objective=bound, slowest=slowest)


def search_threshold(
    reduction: GridReduction, limits: Limits, end: float, *, shares: int, params: ExactParams
) -> ThresholdSearch:
    """Search one threshold, in one of so many shares of the time that is left."""
    seconds = max(params.least_seconds, (end - clock()) / shares)
    if not reduction.job.grid.aligned:
        until = clock() + seconds
        search, goals = search_shared_stages(reduction, limits, until, params)
        return ThresholdSearch(reduction, search, goals, stopped=not goals.settled(0) and clock() >= until)
    if not has_more_terms(reduction.cluster, reduction.job):
        return ThresholdSearch(reduction, search_reduction(reduction, limits, seconds, params))
    until = clock() + seconds
    search = search_reduction(reduction, limits, params.pair_share * seconds, params)
    goals = goals_of(reduction, search, limits, until, params)
    goals.search([0])
    return ThresholdSearch(reduction, search, goals)
