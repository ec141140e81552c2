"""The algorithm ``exact``: the best (S, R), proved or with a certified gap, then the nodes.

Which slow nodes are used is decided in :mod:`scheduler.placement.exact.slow_nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from time import perf_counter
from typing import ClassVar

from scheduler.job import Job
from scheduler.objective import evaluate
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridProblem, GridReduction, counted_where_held
from scheduler.placement.exact.search import fill_front, search_pairs
from scheduler.placement.exact.slow_nodes import ThresholdSearch, search_threshold, search_thresholds, thresholds
from scheduler.placement.seating import seat
from scheduler.placement.shared_stages import place_shared_stages
from scheduler.placement.types import Limits, Proposal
from topology.capacity import count_nodes
from topology.cluster import Cluster, IntArray
from topology.errors import InvalidPlacement


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
        refusal = GridReduction(cluster, counted_where_held(cluster, job), options[-1]).refusal
        if refusal:
            return Proposal(None, infeasible=refusal, solve_seconds=perf_counter() - start)
        if not job.grid.aligned:
            return place_shared_stages(cluster, job, options, limits)
        searched = search_thresholds(cluster, job, options, limits, self.params)
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

    def _best_seating(self, searched: ThresholdSearch, limits: Limits) -> IntArray:
        """Seat the cheapest pair; with soft terms every corner of the front, and take the best by the evaluator.

        With a hold broader than the job's level these may break it; then nodes that keep it, by a search up there.
        """
        lattice, reduction = searched.lattice, searched.reduction
        job, cluster = reduction.job, reduction.cluster
        corners = [(point.dp, point.pp) for point in lattice.pareto()] if job.counts else [lattice.best]
        seconds = self.params.seating_share * limits.seconds
        seated = [self._seat(reduction, lattice.built[pair], seconds) for pair in corners]
        held = GridReduction(cluster, counted_where_held(cluster, job), reduction.slowest)
        if held.level is not reduction.level:
            above = search_threshold(held, limits, perf_counter() + seconds, shares=1, params=self.params).lattice
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
        cells = reduction.job.grid.groups[count.family].largest
        total += count.weight * ceil(cells / largest)
    return total
