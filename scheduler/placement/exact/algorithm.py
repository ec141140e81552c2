"""The algorithm ``exact``: the best (S, R), proved or with a certified gap, then the nodes.

Slow nodes are admitted up to a threshold of slowdown: only the slowest node sets the pace, so the options are the
thresholds between the slowdowns of the free nodes, compared by predicted step time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from time import perf_counter
from typing import ClassVar

import numpy as np

from scheduler.job import Job
from scheduler.objective import evaluate, step_time
from scheduler.placement.admission import admissible
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.search import fill_front, search_pairs
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits, PriceOption, Proposal
from topology.capacity import count_nodes
from topology.cluster import Cluster, IntArray
from topology.errors import InvalidPlacement
from topology.flags import HEALTHY

_SAME = 1e-9  # Step times closer than this are equal


@dataclass(frozen=True, slots=True)
class _Searched:
    """One threshold of slowdown, searched, with the predicted step time of its best pair."""

    reduction: GridReduction
    search: PairSearch
    time: float

    @property
    def lattice(self) -> Lattice:
        return self.search.lattice

    def option(self, *, chosen: bool) -> PriceOption:
        """Return the threshold as one way to treat slow nodes, in words; the ideal has no spread and no slow node."""
        slowest, objective = self.reduction.slowest, self.lattice.cost(self.lattice.best)
        what = "without slow nodes" if slowest == HEALTHY else f"with nodes up to {slowest:g} times slower"
        sentence = f"{what}: objective {objective:g}, predicted step time {self.time:.3f} x ideal"
        return PriceOption(slowest, objective, self.time, chosen, sentence + (", chosen" if chosen else ""))


@dataclass(frozen=True)
class Exact:
    """The exact search as a placement algorithm."""

    params: ExactParams = DEFAULTS
    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = (
        "the best (S, R), proved or with a certified gap; then fewest flagged nodes, best fit, one level down"
    )

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose the best placement that the time allows."""
        import ortools.sat.python.cp_model  # noqa: F401  (the import is no part of the solve time)

        start = perf_counter()
        options = thresholds(cluster, job)
        refusal = GridReduction(cluster, _counted_where_held(cluster, job), options[-1]).refusal
        if refusal:
            return Proposal(None, infeasible=refusal, solve_seconds=perf_counter() - start)
        searched = self._search_options(cluster, job, options, limits)
        chosen = min(searched, key=lambda one: (round(one.time, 9), one.reduction.slowest))
        # what is claimed is claimed of all nodes that the job may use: under `ignore` these are the slow ones too
        claims = searched[-1] if job.avoid == "ignore" else chosen
        solved = perf_counter()
        nodes = self._best_seating(chosen, limits)
        fill_front(claims.search, seconds=self.params.front_share * limits.seconds)
        return Proposal(
            nodes,
            lower_bound=claims.lattice.bound() + _least_soft(claims.reduction),
            complete=claims.search.complete,
            pareto=claims.lattice.pareto(),
            refutations=tuple(claims.lattice.refutations),
            prices=tuple(one.option(chosen=one is chosen) for one in searched) if len(options) > 1 else (),
            solve_seconds=solved - start,
            statistics={"afterwards_seconds": perf_counter() - solved, "domains": float(len(chosen.reduction.domains))},
        )

    def _search_options(
        self, cluster: Cluster, job: Job, options: tuple[float, ...], limits: Limits
    ) -> list[_Searched]:
        """Search the thresholds that can win, ascending; the widest first of all, for its bound serves the others."""
        end = perf_counter() + limits.seconds
        searched: list[_Searched] = []
        # half the time for the widest, the rest shared out among the others as they come
        widest = self._search(GridReduction(cluster, job, options[-1]), limits, end, shares=min(2, len(options)))
        least = widest.lattice.bound()
        for i, slowest in enumerate(options[:-1]):
            # fewer nodes have no better objective, so no step time of this threshold is below this one
            fastest = step_time(job, objective=least, slowest=slowest)
            refusal = GridReduction(cluster, _counted_where_held(cluster, job), slowest).refusal
            if refusal or any(one.time <= fastest + _SAME for one in searched):
                continue
            shares = len(options) - 1 - i
            searched.append(self._search(GridReduction(cluster, job, slowest), limits, end, shares=shares))
        return [*searched, widest]

    def _search(self, reduction: GridReduction, limits: Limits, end: float, *, shares: int) -> _Searched:
        """Search one threshold, in one of so many shares of the time that is left."""
        job = reduction.job
        seconds = max(self.params.least_seconds, (end - perf_counter()) / shares)
        lattice = Lattice(reduction.problem, job.alpha, job.beta)
        search = PairSearch(lattice, replace(limits, seconds=seconds), self.params)
        search_pairs(search)
        time = step_time(job, objective=lattice.cost(lattice.best), slowest=reduction.slowest)
        return _Searched(reduction, search, time)

    def _best_seating(self, searched: _Searched, limits: Limits) -> IntArray:
        """Seat the cheapest pair; with soft terms every corner of the front, and take the best by the evaluator.

        With a hold broader than the job's level these may break it; then nodes that keep it, by a search up there.
        """
        lattice, reduction = searched.lattice, searched.reduction
        job, cluster = reduction.job, reduction.cluster
        corners = [(point.dp, point.pp) for point in lattice.pareto()] if job.counts else [lattice.best]
        seconds = self.params.seating_share * limits.seconds
        seated = [self._seat(reduction, lattice.built[pair], seconds) for pair in corners]
        held = GridReduction(cluster, _counted_where_held(cluster, job), reduction.slowest)
        if held.level is not reduction.level:
            above = self._search(held, limits, perf_counter() + seconds, shares=1).lattice
            seated.append(self._seat(held, above.built[above.best], seconds))
        return min(seated, key=lambda nodes: _worth(cluster, job, nodes))

    def _seat(self, reduction: GridReduction, part_of_block: IntArray, seconds: float) -> IntArray:
        return seat(
            reduction.cluster,
            reduction.job,
            level=reduction.level,
            domain_of_cell=reduction.domain_of_cell(part_of_block),
            admitted=reduction.admitted,
            solve_grid=partial(solve_grid, params=self.params),
            seconds=seconds,
        )


def solve_grid(
    rows: int,
    columns: int,
    capacities: tuple[int, ...],
    alpha: float,
    seconds: float,
    *,
    params: ExactParams = DEFAULTS,
) -> IntArray | None:
    """Return the best assignment of a bare grid: the search alone, as seating asks for it one level down.

    :param capacities: in descending order, positive, at least ``rows * columns`` together; the answer has indices.
    """
    lattice = Lattice(GridProblem(rows, columns, capacities), alpha, 1.0 - alpha)
    search_pairs(PairSearch(lattice, Limits(seconds=seconds, workers=1), params))
    return lattice.built[lattice.best]


def thresholds(cluster: Cluster, job: Job) -> tuple[float, ...]:
    """Return the slowdowns up to which nodes may be admitted, ascending, 1.0 (no flagged node) first.

    ``strict`` leaves 1.0 alone; ``ignore`` puts no price on slow nodes, so only all or none of them make sense.
    """
    if job.avoid == "strict":
        return (HEALTHY,)
    slow = cluster.slowdown[admissible(cluster, job)]
    found = [float(f) for f in np.unique(slow[slow > HEALTHY])]
    return (HEALTHY, *(found if job.avoid == "price" else found[-1:]))


def _counted_where_held(cluster: Cluster, job: Job) -> Job:
    """Return the job with its spread counted at the broadest level of all that it counts or holds at.

    Only there can it be counted out whether all holds can be kept: blocks lie in one domain at their level and broader
    ones.  At a closer level of its own the search sees no such hold.
    """
    levels = [cluster.level(job.level), *(cluster.level(hold.level) for hold in job.holds)]
    return job.replace(level=min(levels, key=lambda level: cluster.level_index(level.name)).name)


def _worth(cluster: Cluster, job: Job, nodes: IntArray) -> float:
    """Return the objective of a placement, infinite where it breaks a hold."""
    try:
        return evaluate(cluster, job, nodes).objective
    except InvalidPlacement:
        return inf


def _least_soft(reduction: GridReduction) -> float:
    """Return the least of the soft terms: a group needs as many domains as its cells fill of the largest."""
    total = 0.0
    for count in reduction.job.counts:
        largest = int(count_nodes(reduction.cluster.level(count.level), reduction.admitted).max())
        cells = int(np.bincount(reduction.job.grid.groups[count.family].ravel()).max())
        total += count.weight * ceil(cells / largest)
    return total
