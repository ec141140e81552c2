"""The algorithm ``exact``: the best (S, R), proved or with a certified gap, then the nodes.

Which slow nodes are used is decided in :mod:`scheduler.placement.exact.slow_nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

from scheduler.job import Job
from scheduler.objective import closer_levels
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridReduction, counted_where_held
from scheduler.placement.exact.search import fill_front
from scheduler.placement.exact.slow_nodes import search_thresholds, thresholds
from scheduler.placement.exact.soft_terms import goals_of, other_seats
from scheduler.placement.types import Limits, Proposal
from topology.cluster import Cluster


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
        searched = search_thresholds(cluster, job, options, limits, self.params)
        chosen = min(searched, key=lambda one: (round(one.time, 9), one.reduction.slowest))
        # what is claimed is claimed of all nodes that the job may use: under `ignore` these are the slow ones too
        claims = searched[-1] if job.avoid == "ignore" else chosen
        solved = perf_counter()
        end = max(start + limits.seconds, solved + self.params.least_seconds)
        goals = chosen.goals or goals_of(chosen.reduction, chosen.search, limits, end, self.params)
        if chosen.goals is None:
            goals.certified.append(chosen.bound)
        goals.effort = self.params.goal_effort * limits.seconds
        closer = range(1, len(goals.goals))
        if not goals.counted(closer):
            for nodes in other_seats(chosen.reduction, chosen.search, limits, self.params):
                goals.offer(nodes)
            goals.search(closer)
        fill_front(claims.search, seconds=self.params.front_share * limits.seconds)
        return Proposal(
            goals.best.nodes,
            lower_bound=claims.bound,
            closer_bounds=dict(zip(closer_levels(cluster, job), goals.certified[1:], strict=False)),
            complete=claims.search.complete,
            pareto=claims.lattice.pareto(),
            refutations=tuple(claims.lattice.refutations),
            prices=tuple(one.option(chosen=one is chosen) for one in searched) if len(options) > 1 else (),
            solve_seconds=solved - start,
            statistics={"afterwards_seconds": perf_counter() - solved, "domains": float(len(chosen.reduction.domains))},
        )
