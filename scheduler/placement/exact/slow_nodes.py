"""Slow nodes weighed against spread: up to which slowdown they are used.

Only the slowest node sets the pace, so the options are the thresholds between the slowdowns of the free nodes.  Each is
searched, and the least predicted step time (:func:`scheduler.objective.step_time`) wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from scheduler.job import Job
from scheduler.objective import step_time
from scheduler.placement.admission import admissible
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridReduction, counted_where_held
from scheduler.placement.exact.search import search_pairs
from scheduler.placement.types import Limits, PriceOption
from topology.cluster import Cluster
from topology.flags import HEALTHY

_SAME = 1e-9  # Step times closer than this are equal


@dataclass(frozen=True, slots=True)
class ThresholdSearch:
    """One threshold of slowdown, searched, with the predicted step time of its best pair."""

    reduction: GridReduction
    search: PairSearch
    time: float  # predicted, relative to the ideal

    @property
    def lattice(self) -> Lattice:
        """Its pairs, built and refuted."""
        return self.search.lattice

    def option(self, *, chosen: bool) -> PriceOption:
        """Return the threshold as one way to treat slow nodes, in words; the ideal has no spread and no slow node."""
        slowest, objective = self.reduction.slowest, self.lattice.cost(self.lattice.best)
        what = "without slow nodes" if slowest == HEALTHY else f"with nodes up to {slowest:g} times slower"
        sentence = f"{what}: objective {objective:g}, predicted step time {self.time:.3f} x ideal"
        return PriceOption(slowest, objective, self.time, chosen, sentence + (", chosen" if chosen else ""))


def thresholds(cluster: Cluster, job: Job) -> tuple[float, ...]:
    """Return the slowdowns up to which nodes may be admitted, ascending, 1.0 (no flagged node) first.

    ``strict`` leaves 1.0 alone; ``ignore`` puts no price on slow nodes, so only all or none of them make sense.
    """
    if job.avoid == "strict":
        return (HEALTHY,)
    slow = cluster.slowdown[admissible(cluster, job)]
    found = [float(f) for f in np.unique(slow[slow > HEALTHY])]
    return (HEALTHY, *(found if job.avoid == "price" else found[-1:]))


def search_thresholds(
    cluster: Cluster, job: Job, options: tuple[float, ...], limits: Limits, params: ExactParams
) -> list[ThresholdSearch]:
    """Search the thresholds that can win, ascending; the widest first of all, for its bound serves the others."""
    end = perf_counter() + limits.seconds
    searched: list[ThresholdSearch] = []
    # half the time for the widest, the rest shared out among the others as they come
    widest = search_threshold(
        GridReduction(cluster, job, options[-1]), limits, end, shares=min(2, len(options)), params=params
    )
    least = widest.lattice.bound()
    for i, slowest in enumerate(options[:-1]):
        # fewer nodes have no better objective, so no step time of this threshold is below this one
        fastest = step_time(job, objective=least, slowest=slowest)
        refusal = GridReduction(cluster, counted_where_held(cluster, job), slowest).refusal
        if refusal or any(one.time <= fastest + _SAME for one in searched):
            continue
        shares = len(options) - 1 - i
        reduction = GridReduction(cluster, job, slowest)
        searched.append(search_threshold(reduction, limits, end, shares=shares, params=params))
    return [*searched, widest]


def search_threshold(
    reduction: GridReduction, limits: Limits, end: float, *, shares: int, params: ExactParams
) -> ThresholdSearch:
    """Search one threshold, in one of so many shares of the time that is left."""
    job = reduction.job
    seconds = max(params.least_seconds, (end - perf_counter()) / shares)
    lattice = Lattice(reduction.problem, job.alpha, job.beta)
    search = PairSearch(lattice, replace(limits, seconds=seconds), params)
    search_pairs(search)
    time = step_time(job, objective=lattice.cost(lattice.best), slowest=reduction.slowest)
    return ThresholdSearch(reduction, search, time)
