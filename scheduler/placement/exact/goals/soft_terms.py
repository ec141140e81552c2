"""Terms of the objective beyond the pair (S, R): what is tried for them, and where the search for them begins.

A soft term is least where its groups touch one domain each, which is a hard constraint: so every choice of a few terms
is tried as holds, on the lattice of the pairs that are left.  Terms of DP and PP groups at another level are also put
first: a search at that level, seated from there on down.  What comes of it are placements to begin with; how far they
are from the least is for :mod:`scheduler.placement.exact.goals.goal_search` to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from scheduler.job import Hold, Job
from scheduler.objective import TOLERANCE, objective_terms
from scheduler.placement.exact.goals.goal_search import GoalSearch, WeighedPlacement, weighed
from scheduler.placement.exact.goals.level_bounds import LevelBounds
from scheduler.placement.exact.goals.quick_starts import quick_starts
from scheduler.placement.exact.goals.tight_fills import tight_fills
from scheduler.placement.exact.grid.params import ExactParams
from scheduler.placement.exact.grid.problem import GridReduction, counted_where_held
from scheduler.placement.exact.pairs.pair_search import PairSearch
from scheduler.placement.exact.schedule.pair_seats import search_reduction, seat_cells, seat_pair, seating_seconds
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from topology.cluster import Cluster, IntArray


def has_more_terms(cluster: Cluster, job: Job) -> bool:
    """Return whether the pair does not decide: soft terms count, or a hold broader than the job's level."""
    return bool(job.soft) or _held_broader(cluster, job)


def _held_broader(cluster: Cluster, job: Job) -> bool:
    """Return whether a hold is broader than the level at which spread counts."""
    return cluster.level(counted_where_held(cluster, job).level) is not cluster.level(job.level)


def goals_of(
    reduction: GridReduction, search: PairSearch, limits: Limits, end: float, params: ExactParams
) -> GoalSearch:
    """Return the goals of a job on nodes up to some slowdown, begun with the best placement that pairs lead to."""
    cluster, job = reduction.cluster, reduction.job
    bounds = LevelBounds(reduction, limits, params, {reduction.level.name: search.lattice}, end=end)
    found: list[WeighedPlacement] = []
    for nodes in _starts(reduction, search, limits, end, params):
        if one := weighed(cluster, job, nodes):
            found.append(one)
        # each may take tenths of a second: once there is one, the others wait for time
        if found and clock() > end:
            break
    best = min(found, key=lambda one: one.order)
    effort = (params.term_effort if has_more_terms(cluster, job) else params.goal_effort) * limits.seconds
    return GoalSearch(reduction, bounds, best, [], limits, params, effort, end)


def other_seats(
    reduction: GridReduction, search: PairSearch, limits: Limits, end: float, params: ExactParams
) -> Iterator[IntArray]:
    """Yield nodes, shape [rows, columns] each, of placements that may be as good and better at closer levels."""
    lattice, seconds = search.lattice, seating_seconds(limits, params)
    yield from tight_fills(reduction)
    if not reduction.job.grid.aligned:
        return
    equal = [pair for pair in lattice.built if lattice.cost(pair) <= lattice.cost(lattice.best) + TOLERANCE]
    for pair in sorted(equal):
        best_fit = reduction.domain_of_cell(lattice.built[pair])
        looked_inside = reduction.domain_of_cell(lattice.built[pair], closer_first=True)
        if pair != lattice.best:
            yield seat_cells(reduction, best_fit, seconds, params, end=end)
        if not np.array_equal(best_fit, looked_inside):
            yield seat_cells(reduction, looked_inside, seconds, params, end=end)


def _starts(
    reduction: GridReduction, search: PairSearch, limits: Limits, end: float, params: ExactParams
) -> Iterator[IntArray]:
    """Yield nodes for the cheapest pair; with more terms for every corner of the front, and for other jobs like it."""
    cluster, job, lattice = reduction.cluster, reduction.job, search.lattice
    seconds = seating_seconds(limits, params)
    if not has_more_terms(cluster, job):
        yield seat_pair(reduction, lattice, lattice.best, seconds, params, end=end)
        return
    yield from quick_starts(reduction, limits, params, end=end)
    yield from tight_fills(reduction)
    for point in lattice.pareto():
        yield seat_pair(reduction, lattice, (point.dp, point.pp), seconds, params, end=end)
    others = list(_others(cluster, job, params))
    for number, other in enumerate(others):
        asked = GridReduction(cluster, other, reduction.slowest)
        if asked.refusal:
            continue
        share = max(params.least_seconds, (end - clock()) / (len(others) - number + 1))
        found = search_reduction(asked, limits, share, params).lattice
        yield seat_pair(asked, found, found.best, seconds, params, end=end)


def _others(cluster: Cluster, job: Job, params: ExactParams) -> Iterator[Job]:
    """Yield jobs whose best pair may serve the terms better: some terms held, or the spread counted elsewhere."""
    counted = (one for one in job.soft if one.weight > 0.0 and job.grid.groups[one.family].largest > 1)
    terms = sorted({(one.family, one.level) for one in counted})
    if _held_broader(cluster, job):
        yield counted_where_held(cluster, job)
    for count in range(1, min(len(terms), params.held_terms) + 1):
        for chosen in combinations(terms, count):
            held = job.replace(holds=(*job.holds, *(Hold(family, level) for family, level in chosen)))
            yield counted_where_held(cluster, held)
            if counted_where_held(cluster, held).level != held.level:
                yield held
    for level in dict.fromkeys(one.level for one in job.soft if one.family in ("dp", "pp")):
        at_level = [one for one in objective_terms(cluster, job) if one.level == level]
        dp, pp = (sum(one.weight for one in at_level if one.family == family) for family in ("dp", "pp"))
        if dp + pp:
            # spread is not counted inside TP groups of several nodes: held there they keep what the job asks as well
            within = level if _inside_tp_groups(cluster, job, level) else job.tp_level
            yield job.replace(level=level, tp_level=within, alpha=dp / (dp + pp))


def _inside_tp_groups(cluster: Cluster, job: Job, level: str) -> bool:
    """Return whether a level is closer than the one that holds TP groups of several nodes."""
    if job.nodes_of_tp == 1:
        return False
    return cluster.level_index(level) > cluster.level_index(job.holds_on(cluster)[-1].level)
