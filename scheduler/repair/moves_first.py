"""Fewest moves first, then the best objective among those; and what both orders share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

from scheduler.objective import Evaluation, evaluate
from scheduler.outcome import trivial_bound
from scheduler.placement.moves.move_choices import greedy_targets, trimmed
from scheduler.placement.moves.move_model import Goal, GoalValue, MoveModel
from scheduler.placement.types import Limits
from scheduler.repair.nearest import nearest_nodes
from scheduler.repair.repair_problem import RepairProblem, choices
from topology.cluster import IntArray
from topology.errors import InvalidPlacement, SolverTimeout
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """A repaired placement with what is certified about it.

    :param nodes: shape [rows, columns].
    :param fewest_moves: see :class:`~scheduler.repair.Repair`.
    :param objective_bound: see :class:`~scheduler.repair.Repair`.
    """

    nodes: IntArray
    evaluation: Evaluation
    fewest_moves: int
    objective_bound: float
    notes: tuple[str, ...] = ()


def fewest_moves(problem: RepairProblem, limits: Limits) -> RepairPlan:
    """Take as few slow nodes as possible, then move as few cells as possible, then reach the best objective.

    :raises SolverTimeout: time ran out before a repair was found.
    """
    deadline = monotonic() + limits.seconds
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
        objective_bound=min(max(bound, plan.objective_bound), plan.evaluation.objective),
    )


def climb(model: MoveModel, goals: tuple[Goal, ...], deadline: float) -> dict[Goal, GoalValue]:
    """Meet one goal after another until time runs out; the last breaks ties only, and gets a tenth of the time left."""
    steps: dict[Goal, GoalValue] = {}
    for goal in goals:
        now = monotonic()
        until = now + (deadline - now) / 10 if goal == "touches" else deadline
        if (step := model.minimise(goal, until)) is None:
            break
        steps[goal] = step
    return steps


def plan_of(problem: RepairProblem, depth: int, domain_of_cell: IntArray, *, fewest: int) -> RepairPlan:
    """Make a plan from the domain of each cell, nothing certified but the number of moves given.

    :raises InvalidPlacement: the domains break a rule of the job.
    """
    nodes = nearest_nodes(problem, depth, domain_of_cell)
    return RepairPlan(nodes, evaluate(problem.cluster, problem.job, nodes), fewest, trivial_bound(problem.job))


def cost_of(problem: RepairProblem, plan: RepairPlan) -> tuple[int, int]:
    """Return slow nodes newly taken, and moved cells."""
    slow = problem.spare[plan.nodes] & (problem.slowdown[plan.nodes] > HEALTHY)
    return int(slow.sum()), int((plan.nodes != problem.old).sum())
