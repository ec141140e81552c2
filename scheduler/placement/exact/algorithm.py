"""The algorithm ``exact``: the best (S, R), proved or with a certified gap, then the nodes.

Which slow nodes are used is decided in :mod:`scheduler.placement.exact.slow_nodes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ground.errors import InvalidJob, SolverTimeout
from scheduler.job import Hold, Job
from scheduler.objective import TOLERANCE, closer_levels
from scheduler.placement.exact.goals.goal_search import GoalSearch, WeighedPlacement
from scheduler.placement.exact.goals.level_bounds import LevelBounds
from scheduler.placement.exact.goals.quick_starts import quick_rules, quick_starts
from scheduler.placement.exact.goals.soft_terms import goals_of, other_seats
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridReduction, counted_where_held
from scheduler.placement.exact.plain_gang import place_plainly
from scheduler.placement.exact.schedule.pair_seats import seat_cells, seat_pair, seating_seconds
from scheduler.placement.exact.schedule.search import fill_front
from scheduler.placement.exact.slow_nodes import (
    SearchedThresholds,
    ThresholdSearch,
    search_threshold,
    search_thresholds,
    thresholds,
)
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.solver_clock import load_solver
from scheduler.placement.types import GridProof, Limits, PriceOption, Proposal
from scheduler.work_clock import clock, stopwatch
from topology.cluster import Cluster


@dataclass(frozen=True)
class Exact:
    """The exact search as a placement algorithm."""

    params: ExactParams = DEFAULTS
    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = (
        "the least objective, proved or with a certified gap; then closer levels, fewest flagged nodes, best fit"
    )

    def quick_rules(self) -> Sequence[Heuristic]:
        """Return the rules that it begins with; see :class:`scheduler.placement.heuristic.AsksRules`."""
        return quick_rules()

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose the best placement that the time allows."""
        if limits.told != "everything" and (proposal := place_plainly(cluster, job, limits, self.params)) is not None:
            return proposal
        if job.grid.cells <= self.params.many_cells:
            load_solver()  # no part of the solve time; larger jobs hardly need it
        start, begun_at = clock(), stopwatch()
        options = thresholds(cluster, job)
        every, held = GridReduction(cluster, job, options[-1]), counted_where_held(cluster, job)
        refusal = (every if held is job else GridReduction(cluster, held, options[-1])).refusal
        if refusal:
            return Proposal(None, infeasible=refusal, solve_seconds=stopwatch() - begun_at)
        searched = search_thresholds(every, options, limits, self.params)
        chosen = searched.chosen
        # pairs, fronts and closer levels are of the nodes that the job may then use: under `ignore` the slow ones too
        claims = searched.widest if job.avoid == "ignore" else chosen
        # under `ignore` nothing is weighed: the step times of its thresholds take no notice of slow nodes
        weighed = job.avoid == "price" and len(options) > 1
        solved, solved_at = clock(), stopwatch()
        end = max(start + limits.seconds, solved + self.params.least_seconds)
        begun = chosen.goals or goals_of(chosen.reduction, chosen.search, limits, end, self.params)
        if limits.told == "everything":
            goals = self._closer(begun.best, claims, limits, end)
            if job.grid.aligned:
                most, least = (share * limits.seconds for share in (self.params.front_share, self.params.front_least))
                fill_front(claims.search, seconds=min(most, max(least, end - clock())))
                self._offer_front(goals, claims, limits, end)
        else:
            # no rule but this is quick on any number of nodes, and mostly good at closer levels as well
            goals = begun
            goals.offer_all(quick_starts(chosen.reduction, limits, self.params, names=("gpu-packing",)))
            goals.certified[:] = [chosen.bound]
            self._meet_experts(goals, limits, end)
        experts = int(job.experts_apart)
        return Proposal(
            goals.best.nodes,
            lower_bound=searched.widest.bound,
            step_time_bound=searched.shortest,
            # under `ignore` that may be known of the healthy nodes alone
            expert_bound=max([1.0, *goals.certified[1 : 1 + experts]]) if goals.reduction is claims.reduction else 1.0,
            closer_bounds=dict(zip(closer_levels(cluster, job), goals.certified[1 + experts :], strict=False)),
            complete=all(one.complete for one in searched.searches),
            # pairs of the grid inside a job whose stages share nodes are not those of the job
            pareto=claims.lattice.pareto() if job.grid.aligned else (),
            refutations=tuple(claims.lattice.refutations) if job.grid.aligned else (),
            proofs=_proofs(claims, searched.searches) if job.grid.aligned else (),
            prices=_options(searched, goals.best.worth.objective) if weighed else (),
            solve_seconds=solved_at - begun_at,
            statistics={
                "afterwards_seconds": stopwatch() - solved_at,
                "domains": float(len(chosen.reduction.domains)),
            },
        )

    def _closer(self, best: WeighedPlacement, claims: ThresholdSearch, limits: Limits, end: float) -> GoalSearch:
        """Search Eq. 2 at closer levels, from a placement that is best by its objective, over all nodes claimed of.

        Of all that is seen the best, goal by goal, is kept; and the quick rules are seen wherever a goal is left open.
        """
        reduction, known = claims.reduction, {claims.reduction.level.name: claims.lattice}
        bounds = claims.goals.bounds if claims.goals else LevelBounds(reduction, limits, self.params, known, end=end)
        effort = self.params.goal_effort * limits.seconds
        goals = GoalSearch(reduction, bounds, best, [claims.bound], limits, self.params, effort, end)
        held = self._meet_experts(goals, limits, end)
        closer = range(1, len(goals.goals))
        if claims.goals is not None:
            # as good by its objective, it may be better at closer levels; and it has seen the rules
            goals.offer(claims.goals.best.nodes)
        if not goals.counted(closer):
            goals.offer_in_time(other_seats(reduction, claims.search, limits, end, self.params))
            if held is not None:
                goals.offer_in_time(other_seats(held.reduction, held.search, limits, end, self.params))
            if goals.best is not best and not goals.counted(closer):
                # on the domains of a fill that is better the cells may lie better yet
                cells, seconds = reduction.level.domain_of[goals.best.nodes], seating_seconds(limits, self.params)
                goals.offer(seat_cells(reduction, cells, seconds, self.params, end=end))
        if claims.goals is None and not (goals.settled(0) and goals.counted(closer)):
            goals.offer_all(quick_starts(reduction, limits, self.params, end=end))
            # a rule may have built a pair that the search has not
            claims.lattice.build(reduction.part_of_block(goals.best.nodes), "quick rule")
        goals.search(closer)
        return goals

    def _meet_experts(self, goals: GoalSearch, limits: Limits, end: float) -> ThresholdSearch | None:
        """Search the least EP spread of placements as good in the objective: first the job with its expert groups held
        in one domain each, for which the pairs are searched anew; if none is as good, some touch two.

        :returns: the search of the job with its expert groups held, where there was one.
        """
        reduction = goals.reduction
        cluster, job, slowest = reduction.cluster, reduction.job, reduction.slowest
        if not job.experts_apart:
            return None
        goals.count(1)
        if goals.settled(1):
            return None
        try:
            rows_tied, _ = job.grid.tied(["ep"])
            held = GridReduction(cluster, job.replace(holds=(*job.holds, Hold("ep", reduction.level.name))), slowest)
            refused = bool(GridReduction(cluster, counted_where_held(cluster, held.job), slowest).refusal)
        except InvalidJob:
            return None  # groups that share nodes unequally cannot be held
        reached, search = goals.best.worth.objective + TOLERANCE, None
        if not refused:
            until = min(end, clock() + self.params.expert_share * limits.seconds)
            with suppress(SolverTimeout):
                search = search_threshold(held, limits, until, shares=1, params=self.params)
        if search is not None and search.objective <= reached:
            found = search.goals or goals_of(held, search.search, limits, end, self.params)
            goals.offer(found.best.nodes)
        if refused or (search is not None and search.bound > reached):
            goals.certified[1] = max(goals.certified[1], min(2.0, goals.best.costs[1]))
        if not goals.settled(1) and job.grid.aligned and reduction.blocks.size == 1:
            # rows may change places: those alike go to the same expert groups
            domains = reduction.level.domain_of[goals.best.nodes]
            alike = np.empty_like(domains)
            alike[np.argsort(rows_tied, kind="stable")] = domains[np.lexsort(domains.T)]
            goals.offer(seat_cells(reduction, alike, seating_seconds(limits, self.params), self.params, end=end))
        return search

    def _offer_front(self, goals: GoalSearch, claims: ThresholdSearch, limits: Limits, end: float) -> None:
        """Offer the cheapest pair that is built by now: where time ran out the front may have a better one."""
        reduction, lattice = claims.reduction, claims.lattice
        if claims.goals is None and lattice.cost(lattice.best) < goals.best.worth.objective - TOLERANCE:
            seconds = seating_seconds(limits, self.params)
            goals.offer(seat_pair(reduction, lattice, lattice.best, seconds, self.params, end=end))


def _options(searched: SearchedThresholds, objective: float) -> tuple[PriceOption, ...]:
    """Return the ways to treat slow nodes that were compared; the objective is that of the answer."""
    chosen = searched.chosen
    return tuple(
        one.option(objective if one is chosen else one.objective, chosen=one is chosen) for one in searched.searches
    )


def _proofs(claims: ThresholdSearch, searched: Sequence[ThresholdSearch]) -> tuple[GridProof, ...]:
    """Return what all thresholds refuted, first that of the one that is claimed of."""
    others = (one for one in searched if one is not claims)
    return tuple(proof for one in (claims, *others) for proof in one.proofs)
