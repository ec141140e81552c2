"""Fewest moves first, then the best objective among those; and what both orders share: from domains to nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidPlacement, SolverTimeout
from scheduler.objective import Evaluation, evaluate, trivial_bound
from scheduler.placement.moves.move_choices import greedy_targets, trimmed
from scheduler.placement.moves.move_model import Goal, GoalValue, MoveModel
from scheduler.placement.node_order import natural
from scheduler.placement.types import Limits
from scheduler.repair.repair_problem import RepairProblem, choices
from scheduler.work_clock import clock
from topology.cluster import FloatArray, IntArray
from topology.flags import HEALTHY

Cells = npt.NDArray[np.int64]  # Flat numbers of cells


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """A repaired placement with what is certified about it."""

    nodes: IntArray  # shape [rows, columns], index of the node of each cell
    after: Evaluation  # worth of the placement now
    # certified: no valid placement moves fewer cells than this (with the best objective known, when the objective comes
    # first)
    fewest_moves: int
    # certified: no valid placement has a smaller objective (of those with as few moves, when moves come first)
    objective_bound: float
    notes: tuple[str, ...] = ()  # what a user should know, one sentence each


def fewest_moves(problem: RepairProblem, limits: Limits) -> RepairPlan:
    """Take as few slow nodes as possible, move as few cells, then reach the best objective; raises SolverTimeout."""
    deadline = clock() + limits.seconds
    offered = choices(problem)
    if not (whole := offered.few):
        offered = trimmed(offered)
    model = MoveModel(offered, replace(limits, workers=1))
    quick = greedy_targets(offered)
    model.suggest(quick)
    steps = climb(model, ("slow", "moves", "objective", "touches"), deadline)
    answer = quick if model.answer is None else model.answer
    try:
        plan = plan_of(problem, offered.depth, offered.domain_of_cell(answer), fewest=int((~problem.stays).sum()))
    except InvalidPlacement:
        raise SolverTimeout(
            "time ran out before a repair was found", where="--time-limit", fix="give it more seconds"
        ) from None
    if not whole:
        return replace(plan, notes=("too many choices to weigh all: only the domains with most room were tried",))
    bound = steps["objective"].bound / model.scale if "objective" in steps else 0.0
    return replace(
        plan,
        fewest_moves=max(plan.fewest_moves, steps["moves"].bound if "moves" in steps else 0),
        objective_bound=min(max(bound, plan.objective_bound), plan.after.objective),
    )


def climb(model: MoveModel, goals: tuple[Goal, ...], deadline: float) -> dict[Goal, GoalValue]:
    """Meet one goal after another until time runs out; the last breaks ties only, and gets a tenth of the time left."""
    steps: dict[Goal, GoalValue] = {}
    for goal in goals:
        now = clock()
        until = now + (deadline - now) / 10 if goal == "touches" else deadline
        if (step := model.minimise(goal, until)) is None:
            break
        steps[goal] = step
    return steps


def plan_of(problem: RepairProblem, depth: int, domain_of_cell: IntArray, *, fewest: int) -> RepairPlan:
    """Make a plan from the domain of each cell, which the evaluator checks; only the number of moves is certified."""
    nodes = nearest_nodes(problem, depth, domain_of_cell)
    return RepairPlan(nodes, evaluate(problem.cluster, problem.job, nodes), fewest, trivial_bound(problem.job))


def cost_of(problem: RepairProblem, plan: RepairPlan) -> tuple[int, int]:
    """Return slow nodes newly taken, and moved cells."""
    slow = ~np.isin(plan.nodes, problem.old) & (problem.slowdown[plan.nodes] > HEALTHY)
    return int(slow.sum()), int((plan.nodes != problem.old).sum())


def nearest_nodes(problem: RepairProblem, depth: int, domain_of_cell: IntArray) -> IntArray:
    """Give every cell a node of its domain.

    Of the nodes of a domain, healthy spares go first, then healthy nodes that other cells of the job left, then slow
    ones, the least slow first.  A cell takes one in the closest domain it shares with its old node; where there are
    several, one in closer domains that its groups already touch, then the nearest by name.

    :param domain_of_cell: shape [rows, columns]; no domain has more cells than nodes that may be used.
    """
    domain_of = problem.cluster.levels[depth].domain_of
    keeps = problem.stays & (domain_of[problem.old] == domain_of_cell)
    nodes = np.where(keeps, problem.old, -1).astype(np.int32)
    free = problem.admitted.copy()
    free[problem.old[keeps]] = False
    moving = np.flatnonzero(~keeps)
    moving = moving[np.argsort(problem.job.grid.node_rank.ravel()[moving], kind="stable")]
    wanted = domain_of_cell.ravel()[moving]
    for domain in np.unique(wanted):
        cells = moving[wanted == domain]
        for offered in _by_preference(problem, np.flatnonzero(free & (domain_of == domain))):
            cells = _match(problem, depth, nodes, cells=cells, offered=offered)
    return nodes


def _by_preference(problem: RepairProblem, inside: Cells) -> Iterator[Cells]:
    """Yield the nodes in classes, the best first."""
    slowdown, left = problem.slowdown[inside], ~problem.spare[inside]
    order = np.lexsort((left, slowdown))
    ends = np.flatnonzero((np.diff(slowdown[order]) != 0) | (np.diff(left[order].astype(np.int8)) != 0)) + 1
    yield from (inside[part] for part in np.split(order, ends))


def _match(problem: RepairProblem, depth: int, nodes: IntArray, *, cells: Cells, offered: Cells) -> Cells:
    """Seat as many cells as there are nodes, those first that find one close to their old node; return the others.

    :param nodes: shape [rows, columns], filled in.
    """
    levels, names = problem.cluster.levels, problem.cluster.names
    nodes_by_name = sorted({*offered.tolist(), *problem.old.ravel()[cells].tolist()}, key=lambda i: natural(names[i]))
    place = {node: position for position, node in enumerate(nodes_by_name)}
    for closeness in range(len(levels) - 1, depth - 2, -1):
        left = []
        for cell in cells:
            old = problem.old.ravel()[cell]
            near = offered
            if closeness >= depth:
                domain_of = levels[closeness].domain_of
                near = offered[domain_of[offered] == domain_of[old]]
            if not near.size:
                left.append(cell)
                continue
            distance = np.array([abs(place[int(i)] - place[int(old)]) for i in near])
            best = near[np.lexsort((near, distance, -_touched(problem, depth, nodes, cell, near)))[0]]
            nodes.ravel()[cell] = best
            offered = offered[offered != best]
        cells = np.array(left, dtype=np.int64)
    return cells


def _touched(problem: RepairProblem, depth: int, nodes: IntArray, cell: int, near: Cells) -> FloatArray:
    """Return how much of the cell's groups already touches the closer domains of each node, weighed by affinity."""
    (row, column), parts = divmod(int(cell), nodes.shape[1]), problem.job.nodes_of_tp
    score = np.zeros(len(near))
    for weight, group in ((problem.job.alpha, nodes[row % parts :: parts, column]), (problem.job.beta, nodes[row])):
        seated = group[group >= 0]
        for level in problem.cluster.levels[depth + 1 :]:
            score += weight * np.isin(level.domain_of[near], level.domain_of[seated])
    return score
