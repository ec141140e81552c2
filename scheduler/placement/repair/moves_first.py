"""Fewest moves first, then the best objective among those; and what both orders share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

from scheduler.objective import Evaluation, evaluate
from scheduler.outcome import trivial_bound
from scheduler.placement.repair.choices import choices, trimmed
from scheduler.placement.repair.greedy import greedy_targets
from scheduler.placement.repair.model import Goal, RepairModel, Step
from scheduler.placement.repair.nearest import nearest_nodes
from scheduler.placement.repair.situation import Situation
from scheduler.placement.types import Limits
from topology.cluster import IntArray
from topology.errors import InvalidPlacement, SolverTimeout
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class Plan:
    """A repaired placement with what is certified about it.

    :param nodes: shape [rows, columns].
    :param fewest_moves: see :class:`~scheduler.placement.repair.result.Repair`.
    :param objective_bound: see :class:`~scheduler.placement.repair.result.Repair`.
    """

    nodes: IntArray
    evaluation: Evaluation
    fewest_moves: int
    objective_bound: float
    notes: tuple[str, ...] = ()


def fewest_moves(found: Situation, limits: Limits) -> Plan:
    """Take as few slow nodes as possible, then move as few cells as possible, then reach the best objective.

    :raises SolverTimeout: time ran out before a repair was found.
    """
    deadline = monotonic() + limits.seconds
    offered = choices(found)
    if not (whole := offered.few):
        offered = trimmed(offered)
    model = RepairModel(offered, replace(limits, workers=1))
    quick = greedy_targets(offered)
    model.suggest(quick)
    steps = climb(model, ("slow", "moves", "objective", "touches"), deadline)
    answer = quick if model.answer is None else model.answer
    try:
        plan = plan_of(found, offered.depth, offered.domain_of_cell(answer), fewest=int((~found.stays).sum()))
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


def climb(model: RepairModel, goals: tuple[Goal, ...], deadline: float) -> dict[Goal, Step]:
    """Meet one goal after another until time runs out; the last breaks ties only, and gets a tenth of the time left."""
    steps: dict[Goal, Step] = {}
    for goal in goals:
        now = monotonic()
        until = now + (deadline - now) / 10 if goal == "touches" else deadline
        if (step := model.minimise(goal, until)) is None:
            break
        steps[goal] = step
    return steps


def plan_of(found: Situation, depth: int, domain_of_cell: IntArray, *, fewest: int) -> Plan:
    """A plan from the domain of each cell, nothing certified but the number of moves given.

    :raises InvalidPlacement: the domains break a rule of the job.
    """
    nodes = nearest_nodes(found, depth, domain_of_cell)
    return Plan(nodes, evaluate(found.cluster, found.job, nodes), fewest, trivial_bound(found.job))


def cost_of(found: Situation, plan: Plan) -> tuple[int, int]:
    """Slow nodes newly taken, and moved cells."""
    slow = found.spare[plan.nodes] & (found.slowdown[plan.nodes] > HEALTHY)
    return int(slow.sum()), int((plan.nodes != found.old).sum())
