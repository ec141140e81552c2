"""Repairs that keep constraints at second hierarchies, which the search for a repair knows nothing of.

First a repair without these constraints: often it keeps them, and what is proved without them holds with them.  Where
it breaks a hard one, repairs are searched on trees that the hierarchy is laid into, on which the constraint is like any
other; and the job is placed anew, with as many cells as can be where they were.  The best of these counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ground.errors import Infeasible, SolverTimeout
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, evaluate, spread_by_level, trivial_bound, worth_of
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.repair.moves_first import RepairPlan, cost_of
from scheduler.repair.repair_problem import Prefer, RepairProblem, problem_of
from scheduler.second_levels import named_beside, within_the_tree
from scheduler.subproblems.second_constraints import (
    laid_into_tree,
    nested_depth,
    whole_first,
    with_levels_named,
)
from scheduler.work_clock import LEAST_SECONDS, clock, share_until
from topology.cluster import Cluster, IntArray

Search = Callable[[RepairProblem, Limits], RepairPlan]


@dataclass(frozen=True, slots=True)
class RepairQuestion:
    """A repair that is wanted, and how it is searched where all constraints are in the tree."""

    job: Job
    nodes: IntArray  # shape [rows, columns], the placement before
    lost: Sequence[str]  # names of nodes
    prefer: Prefer
    search: Search
    algorithm: PlacementAlgorithm  # for a placement anew


def plan_with_constraints(cluster: Cluster, asked: RepairQuestion, limits: Limits) -> tuple[RepairProblem, RepairPlan]:
    """Return a repair that keeps all constraints of the job, and the problem as it is without those beside the tree.

    :raises Infeasible: fewer nodes are left than the job has cells, or no placement keeps a constraint.
    :raises SolverTimeout: no repair was found in time, or in all that was searched.
    """
    end = clock() + limits.seconds
    problem = problem_of(cluster, within_the_tree(cluster, asked.job), asked.nodes, asked.lost)
    if (name := named_beside(cluster, asked.job)) is None:
        return problem, asked.search(problem, limits)
    hard = len(problem.job.holds) < len(asked.job.holds)
    if hard and (plan := _where_it_nests(problem, cluster, asked, name, limits)) is not None:
        return problem, plan
    free = asked.search(problem, replace(limits, seconds=limits.seconds / 2) if hard else limits)
    if (after := worth_of(problem.cluster, asked.job, free.nodes)) is not None:
        return problem, _with_claims(problem, asked, free, after)
    plans = list(_on_trees(problem, cluster, asked, name, replace(limits, seconds=end - clock())))
    plans = plans or list(_placed_anew(problem, asked, replace(limits, seconds=end - clock())))
    if not plans:
        raise SolverTimeout(
            "no repair that keeps the hard constraints beside the tree was found, and none is ruled out",
            where="--time-limit",
            fix="give more seconds, or leave those constraints out of the job",
        )
    best = min(plans, key=lambda plan: _order(problem, asked, plan))
    return problem, _with_bounds_of(problem, asked, best, free)


def _with_claims(problem: RepairProblem, asked: RepairQuestion, plan: RepairPlan, after: Evaluation) -> RepairPlan:
    """Return a plan that was found without a job's constraints at second hierarchies as one with them.

    What was proved without them holds with them: no fewer moves, and no less than each soft term counted once.
    """
    if problem.stays.all():
        return replace(plan, after=after, objective_bound=after.objective)
    dropped = _least_beside(problem, asked)
    # where the objective comes first, another placement may be as good with soft terms and move less
    fewest = _lost(problem) if dropped and asked.prefer == "objective" else plan.fewest_moves
    return replace(plan, after=after, objective_bound=plan.objective_bound + dropped, fewest_moves=fewest)


def _with_bounds_of(problem: RepairProblem, asked: RepairQuestion, best: RepairPlan, free: RepairPlan) -> RepairPlan:
    """Return a plan with what the repair without constraints proves of it.

    The bounds of that repair are those of placements with no more slow nodes than it takes: of the objective with no
    more moves, or of moves with as good an objective.  Where the plan has more of these, others may be better.
    """
    (slow, moved), (least_slow, least_moved) = cost_of(problem, best), cost_of(problem, free)
    within = slow <= least_slow and bool(problem.admitted[best.nodes].all())
    dropped, objective_first = _least_beside(problem, asked), asked.prefer == "objective"
    as_good = best.after.objective - dropped <= free.after.objective + TOLERANCE
    moves_hold = within and (as_good or not objective_first)
    bound_holds = within and (objective_first or moved <= least_moved)
    return replace(
        best,
        fewest_moves=free.fewest_moves if moves_hold else _lost(problem),
        objective_bound=free.objective_bound + dropped if bound_holds else trivial_bound(asked.job),
    )


def _least_beside(problem: RepairProblem, asked: RepairQuestion) -> float:
    """Return what the soft terms at second hierarchies come to at least: each group touches one domain."""
    return sum(count.weight for count in asked.job.counts if count not in problem.job.counts)


def _where_it_nests(
    problem: RepairProblem, cluster: Cluster, asked: RepairQuestion, name: str, limits: Limits
) -> RepairPlan | None:
    """Return the repair on the tree that a hierarchy is a level of by itself, with its proof; ``None`` = it is none."""
    job = with_levels_named(cluster, asked.job)
    if (depth := nested_depth(problem.cluster, job, name)) is None:
        return None
    tree = laid_into_tree(cluster, name, depth)
    if not _lies_on(tree, job, asked.nodes):
        return None
    plan = plan_with_constraints(tree, replace(asked, job=job), limits)[1]
    return replace(plan, after=evaluate(problem.cluster, asked.job, plan.nodes))


def _on_trees(
    problem: RepairProblem, cluster: Cluster, asked: RepairQuestion, name: str, limits: Limits
) -> Iterator[RepairPlan]:
    """Yield the repair on each tree that the hierarchy can be laid into, where the placement before is one on it."""
    end, job = clock() + limits.seconds, with_levels_named(cluster, asked.job)
    depths = whole_first(problem.cluster, job, name)
    for number, depth in enumerate(depths):
        tree = laid_into_tree(cluster, name, depth)
        if not _lies_on(tree, job, asked.nodes):
            continue
        # one share is left for a placement anew
        seconds = share_until(end, len(depths) - number + 1)
        try:
            plan = plan_with_constraints(tree, replace(asked, job=job), replace(limits, seconds=seconds))[1]
        except (Infeasible, SolverTimeout):
            continue
        if (after := worth_of(problem.cluster, asked.job, plan.nodes)) is not None:
            yield replace(plan, after=after)


def _lies_on(tree: Cluster, job: Job, nodes: IntArray) -> bool:
    """Return whether a placement keeps all holds on a tree, whatever its nodes are now."""
    spread = spread_by_level(tree, job.grid, nodes)
    return all(spread[tree.level(hold.level).name][hold.family] == 1 for hold in job.holds_on(tree))


def _placed_anew(problem: RepairProblem, asked: RepairQuestion, limits: Limits) -> Iterator[RepairPlan]:
    """Yield a placement of the whole job, with cells where they were wherever that is as good.

    :raises Infeasible: there is none.
    """
    limits = replace(limits, seconds=max(LEAST_SECONDS, limits.seconds))
    found = run(asked.algorithm, problem.cluster, asked.job, limits)
    if found.status == "infeasible":
        raise Infeasible(
            found.reason, where="--lost", fix="free more nodes, or leave the hard constraint out of the job"
        )
    if found.proposal.nodes is not None and found.evaluation is not None:
        nodes = _where_they_were(problem, found.proposal.nodes)
        note = "no repair of the placement before was found that keeps all constraints: the job is placed anew"
        after = evaluate(problem.cluster, asked.job, nodes)
        yield RepairPlan(nodes, after, _lost(problem), trivial_bound(asked.job), (note,))


def _where_they_were(problem: RepairProblem, nodes: IntArray) -> IntArray:
    """Return a placement with cells on their old nodes where these lie in the same domains of all hierarchies."""
    cluster = problem.cluster
    levels = (*cluster.levels, *cluster.second_levels)
    alike = np.unique(np.stack([level.domain_of for level in levels]), axis=1, return_inverse=True)[1].ravel()
    stays = problem.stays & (alike[nodes] == alike[problem.old])
    found = np.where(stays, problem.old, -1).astype(np.int32)
    for kind in np.unique(alike[nodes[~stays]]):
        cells = ~stays & (alike[nodes] == kind)
        # nodes of the new placement there that no cell has stayed on
        left = np.setdiff1d(nodes[alike[nodes] == kind], found[stays])
        found[cells] = left[: int(cells.sum())]
    return found


def _order(problem: RepairProblem, asked: RepairQuestion, plan: RepairPlan) -> tuple[float, ...]:
    """Return by what plans are compared, the least the best: slow nodes newly taken, then what comes first."""
    slow, moved = cost_of(problem, plan)
    objective = round(plan.after.objective, 9)
    return (slow, objective, moved) if asked.prefer == "objective" else (slow, moved, objective)


def _lost(problem: RepairProblem) -> int:
    """Return how many cells have to move whatever is done."""
    return int((~problem.stays).sum())
