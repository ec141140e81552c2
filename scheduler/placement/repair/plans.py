"""The two orders: fewest moves first, or best objective first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np

from scheduler.job import Job
from scheduler.outcome import TOLERANCE, run, trivial_bound
from scheduler.placement.admission import BoolArray
from scheduler.placement.repair.bands import bands_of, move_segments
from scheduler.placement.repair.choices import choices, trimmed
from scheduler.placement.repair.greedy import greedy_targets
from scheduler.placement.repair.model import Goal, RepairModel, Step
from scheduler.placement.repair.nearest import nearest_nodes
from scheduler.placement.repair.relabel import relabel
from scheduler.placement.repair.situation import Situation
from scheduler.placement.repair.terms import closest_depth
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.spread import Evaluation, evaluate
from topology.capacity import count_nodes
from topology.cluster import IntArray
from topology.errors import InvalidPlacement, SolverTimeout
from topology.flags import HEALTHY

LARGEST = 60_000
"""Choices (block x domain) of the largest model: a larger one is not solved while anyone waits."""

_WIDENINGS = 3
_SLICES = 12
_NEARBY = 0.6
"""How often the neighbourhood of the lost nodes is widened, into how many slices the time is cut for it, and which part
of the time it may take."""


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
    whole = len(offered) <= LARGEST
    offered = offered if whole else trimmed(offered, LARGEST)
    model = RepairModel(offered, replace(limits, workers=1))
    quick = greedy_targets(offered)
    model.suggest(quick)
    steps = _climb(model, ("slow", "moves", "objective", "touches"), deadline)
    answer = quick if model.answer is None else model.answer
    try:
        plan = _plan(found, offered.depth, offered.domain_of_cell(answer), fewest=int((~found.stays).sum()))
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


def best_objective(found: Situation, limits: Limits, algorithm: PlacementAlgorithm) -> Plan:
    """Reach the best objective that ``algorithm`` finds when all may move, then move as few cells as possible.

    What the algorithm finds is put aside where it takes more slow nodes than the repair with the fewest moves.

    :raises SolverTimeout: time ran out before a repair was found.
    """
    deadline = monotonic() + limits.seconds
    near = fewest_moves(found, replace(limits, seconds=limits.seconds / 4))
    limits.say("searching the best placement with all nodes of the job free to move")
    others = np.flatnonzero(~found.admitted)
    cluster, job = found.cluster.with_busy(others), found.job.replace(avoid="ignore")
    best = run(algorithm, cluster, job, replace(limits, seconds=(deadline - monotonic()) / 2))
    bound = best.bound if best.bound is not None else trivial_bound(job)
    near = replace(near, objective_bound=min(bound, near.evaluation.objective))
    if best.evaluation is None or best.proposal.nodes is None:
        return replace(near, notes=(*near.notes, f"{algorithm.name} found no placement: {best.reason}"))
    nodes = _renamed(found, best.proposal.nodes)
    start = replace(near, nodes=nodes, evaluation=evaluate(found.cluster, found.job, nodes))
    better = start.evaluation.objective < near.evaluation.objective - TOLERANCE
    if not better or _cost(found, start)[0] > _cost(found, near)[0]:
        return near
    limits.say("searching the fewest moves for it")
    for nodes in _banded(found, start.evaluation.objective, replace(limits, seconds=(deadline - monotonic()) / 8)):
        banded = replace(start, nodes=nodes, evaluation=evaluate(found.cluster, found.job, nodes))
        start = min(start, banded, key=lambda one: _cost(found, one))
    plan = _fewest_moves_for(found, start, near, limits, deadline)
    return replace(plan, objective_bound=min(bound, plan.evaluation.objective))


def _fewest_moves_for(found: Situation, start: Plan, near: Plan, limits: Limits, deadline: float) -> Plan:
    """Move as few cells as possible for the objective of a placement.

    Few moves lie near the lost nodes: first the lines that lost one may change and a few others, then ever more, until
    the objective can be had.  Then all cells may: that finds the rest, or proves that there is none.

    :param start: the placement.
    :param near: the repair with the fewest moves, which misses the objective.
    """
    plan, begun = start, monotonic()
    for movable in _widening(found, limits.seed):
        until = min(monotonic() + (deadline - begun) / _SLICES, deadline)
        searched = _search(found, movable, start, hint=near, limits=limits, until=until)
        if searched is not None and _cost(found, searched) < _cost(found, plan):
            plan = replace(searched, fewest_moves=start.fewest_moves)
            break
        if monotonic() > begun + _NEARBY * (deadline - begun):
            break
    everything = np.ones_like(found.stays)
    if (searched := _search(found, everything, start, hint=plan, limits=limits, until=deadline)) is None:
        return plan
    fewest = max(start.fewest_moves, searched.fewest_moves)
    return replace(min(plan, searched, key=lambda one: _cost(found, one)), fewest_moves=fewest)


def _widening(found: Situation, seed: int) -> Iterator[BoolArray]:
    """Cells that may move, shape [rows, columns]: whole lines along the shorter side, those with lost cells and 4, 8,
    16, ... others by chance; and again, as the choice of others matters.
    """
    rows, columns = found.old.shape
    cell = np.arange(rows * columns).reshape(rows, columns)
    line = cell // columns if rows >= columns else cell % columns
    lost = np.unique(line[~found.stays])
    others = np.setdiff1d(line, lost)
    chance = np.random.default_rng(seed)
    for _ in range(_WIDENINGS):
        count = 4
        while count < len(others):
            yield np.isin(line, lost) | np.isin(line, chance.choice(others, count, replace=False))
            count *= 2


def _search(
    found: Situation, movable: BoolArray, target: Plan, *, hint: Plan, limits: Limits, until: float
) -> Plan | None:
    """The fewest moves among some cells for the objective of a plan; the bound is one for those cells alone."""
    offered = choices(found, movable)
    if len(offered) > LARGEST or monotonic() > until:
        return None
    model = RepairModel(offered, limits)
    model.suggest(offered.target_of_mover(found.cluster.levels[offered.depth].domain_of[hint.nodes]))
    model.at_most("objective", model.value_of(target.evaluation))
    steps = _climb(model, ("slow", "moves", "touches"), until)
    if model.answer is None or "moves" not in steps:
        return None
    domain_of_cell = offered.domain_of_cell(model.answer)
    return _plan(found, offered.depth, domain_of_cell, fewest=steps["moves"].bound)


def _climb(model: RepairModel, goals: tuple[Goal, ...], deadline: float) -> dict[Goal, Step]:
    """Meet one goal after another until time runs out; the last breaks ties only, and gets a tenth of the time left."""
    steps: dict[Goal, Step] = {}
    for goal in goals:
        now = monotonic()
        until = now + (deadline - now) / 10 if goal == "touches" else deadline
        if (step := model.minimise(goal, until)) is None:
            break
        steps[goal] = step
    return steps


def _plan(found: Situation, depth: int, domain_of_cell: IntArray, *, fewest: int) -> Plan:
    nodes = nearest_nodes(found, depth, domain_of_cell)
    return Plan(nodes, evaluate(found.cluster, found.job, nodes), fewest, trivial_bound(found.job))


def _cost(found: Situation, plan: Plan) -> tuple[int, int]:
    """Slow nodes newly taken, and moved cells."""
    slow = found.spare[plan.nodes] & (found.slowdown[plan.nodes] > HEALTHY)
    return int(slow.sum()), int((plan.nodes != found.old).sum())


def _renamed(found: Situation, nodes: IntArray) -> IntArray:
    """A new placement renamed to keep cells where they are, shape [rows, columns]."""
    depth = closest_depth(found.cluster, found.job)
    level = found.cluster.levels[depth]
    domain_of_cell = level.domain_of[nodes]
    if _bare(found.job):
        old = np.where(found.stays, level.domain_of[found.old], -1)
        domain_of_cell = relabel(domain_of_cell, old, room=count_nodes(level, found.admitted))
    return nearest_nodes(found, depth, domain_of_cell)


def _banded(found: Situation, objective: float, limits: Limits) -> Iterator[IntArray]:
    """Placements of that objective that keep the bands of columns, or of rows, shape [rows, columns]."""
    if not _bare(found.job):
        return
    depth, job = closest_depth(found.cluster, found.job), found.job
    level = found.cluster.levels[depth]
    room = count_nodes(level, found.admitted)
    for transposed, domains_cost, bands_cost in ((False, job.alpha, job.beta), (True, job.beta, job.alpha)):
        old, stays = level.domain_of[found.old], found.stays
        if transposed:
            old, stays = old.T, stays.T
        band_of = bands_of(old)
        left = objective + TOLERANCE - bands_cost * (int(band_of.max()) + 1)
        if left < domains_cost:
            continue
        most = int(min(left / domains_cost, len(room))) if domains_cost else len(room)
        answer = move_segments(old, stays, band_of=band_of, room=room, most=most, limits=limits)
        if answer is not None:
            yield nearest_nodes(found, depth, answer.T if transposed else answer)


def _bare(job: Job) -> bool:
    """Whether rows and columns are all that counts: holds and soft terms look at more."""
    return not job.holds and not job.counts
