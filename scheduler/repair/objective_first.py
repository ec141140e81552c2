"""Best objective first, then the fewest moves for it.

Fewer moves are sought in four ways, each starting from the best before: rename the new placement, move whole segments
of the old one, let the surroundings of the lost nodes change, let everything change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scheduler.algorithm_run import run
from scheduler.objective import TOLERANCE, evaluate, trivial_bound
from scheduler.placement.moves.move_choices import closest_depth
from scheduler.placement.moves.move_model import MoveModel
from scheduler.placement.moves.renamed_bands import bands_of, move_segments, relabel
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.repair.moves_first import RepairPlan, climb, cost_of, fewest_moves, nearest_nodes, plan_of
from scheduler.repair.repair_problem import RepairProblem, choices
from scheduler.work_clock import clock
from topology.cluster import BoolArray, IntArray, count_nodes

_WIDENINGS = 3  # How often the neighbourhood of the lost nodes is widened from the start, with other lines each time
_SLICES = 12  # Slices into which the time left is cut, one for each neighbourhood
_NEARBY = 0.6
"""Part of that time that neighbourhoods may take; the rest is for all cells at once, which alone proves anything."""

_FIRST, _ALGORITHM, _SEGMENTS = 4, 2, 8
"""Time for the repair with the fewest moves (a quarter of all), for the best placement (half of what is left then) and
for moving segments (an eighth of what is left after that, on either view)."""


def best_objective(problem: RepairProblem, limits: Limits, algorithm: PlacementAlgorithm) -> RepairPlan:
    """Reach the best objective that ``algorithm`` finds when all may move, then move as few cells as possible.

    What the algorithm finds is put aside where it takes more slow nodes than the repair with the fewest moves.
    """
    deadline = clock() + limits.seconds
    near = fewest_moves(problem, replace(limits, seconds=limits.seconds / _FIRST))
    limits.say("searching the best placement with all nodes of the job free to move")
    others = np.flatnonzero(~problem.admitted)
    cluster, job = problem.cluster.with_busy(others), problem.job.replace(avoid="ignore")
    best = run(algorithm, cluster, job, _part(limits, deadline, _ALGORITHM))
    bound = best.bound if best.bound is not None else trivial_bound(job)
    near = replace(near, objective_bound=min(bound, near.after.objective))
    if best.evaluation is None or best.proposal.nodes is None:
        return replace(near, notes=(*near.notes, f"{algorithm.name} found no placement: {best.reason}"))
    nodes = _renamed(problem, best.proposal.nodes)
    start = replace(near, nodes=nodes, after=evaluate(problem.cluster, problem.job, nodes))
    better = start.after.objective < near.after.objective - TOLERANCE
    if not better or cost_of(problem, start)[0] > cost_of(problem, near)[0]:
        return near
    limits.say("searching the fewest moves for it")
    for nodes in _banded(problem, start.after.objective, _part(limits, deadline, _SEGMENTS)):
        banded = replace(start, nodes=nodes, after=evaluate(problem.cluster, problem.job, nodes))
        start = min(start, banded, key=lambda one: cost_of(problem, one))
    plan = _fewest_moves_for(problem, start, near, limits, deadline)
    return replace(plan, objective_bound=min(bound, plan.after.objective))


def _part(limits: Limits, deadline: float, parts: int) -> Limits:
    """Return a part of the time that is left; a moment where none is."""
    return replace(limits, seconds=max(0.05, (deadline - clock()) / parts))


def _renamed(problem: RepairProblem, nodes: IntArray) -> IntArray:
    """Rename a new placement so that cells stay where they are, shape [rows, columns]."""
    depth = closest_depth(problem.cluster, problem.job)
    level = problem.cluster.levels[depth]
    domain_of_cell = level.domain_of[nodes]
    if _bare(problem):
        old = np.where(problem.stays, level.domain_of[problem.old], -1)
        domain_of_cell = relabel(domain_of_cell, old, room=count_nodes(level, problem.admitted))
    return nearest_nodes(problem, depth, domain_of_cell)


def _banded(problem: RepairProblem, objective: float, limits: Limits) -> Iterator[IntArray]:
    """Yield placements of that objective that keep the bands of columns, or of rows, shape [rows, columns]."""
    if not _bare(problem):
        return
    depth, job = closest_depth(problem.cluster, problem.job), problem.job
    level = problem.cluster.levels[depth]
    room = count_nodes(level, problem.admitted)
    for transposed, domains_cost, bands_cost in ((False, job.alpha, job.beta), (True, job.beta, job.alpha)):
        old, stays = level.domain_of[problem.old], problem.stays
        if transposed:
            old, stays = old.T, stays.T
        band_of = bands_of(old)
        left = objective + TOLERANCE - bands_cost * (int(band_of.max()) + 1)
        if left < domains_cost:
            continue
        most = int(min(left / domains_cost, len(room))) if domains_cost else len(room)
        answer = move_segments(old, stays, band_of=band_of, room=room, most=most, limits=limits)
        if answer is not None:
            yield nearest_nodes(problem, depth, answer.T if transposed else answer)


def _bare(problem: RepairProblem) -> bool:
    """Return whether rows and columns are all that counts: holds and soft terms look at more."""
    job = problem.job
    return job.grid.aligned and not job.holds_groups and not job.soft


def _fewest_moves_for(
    problem: RepairProblem, start: RepairPlan, near: RepairPlan, limits: Limits, deadline: float
) -> RepairPlan:
    """Move as few cells as possible for the objective of ``start``, which the repair with the fewest moves misses.

    Few moves lie near the lost nodes: first the lines that lost one may change and a few others, then ever more, until
    the objective can be had.  Then all cells may: that finds the rest, or proves that there is none.
    """
    plan, begun = start, clock()
    for movable in _widening(problem, limits.seed):
        until = min(clock() + (deadline - begun) / _SLICES, deadline)
        searched = _search(problem, movable, start, hint=near, limits=limits, until=until)
        if searched is not None and cost_of(problem, searched) < cost_of(problem, plan):
            plan = replace(searched, fewest_moves=start.fewest_moves)
            break
        if clock() > begun + _NEARBY * (deadline - begun):
            break
    everything = np.ones_like(problem.stays)
    if (searched := _search(problem, everything, start, hint=plan, limits=limits, until=deadline)) is None:
        return plan
    fewest = max(start.fewest_moves, searched.fewest_moves)
    return replace(min(plan, searched, key=lambda one: cost_of(problem, one)), fewest_moves=fewest)


def _widening(problem: RepairProblem, seed: int) -> Iterator[BoolArray]:
    """Yield cells that may move, shape [rows, columns]: whole lines along the shorter side, those with lost cells
    and 4, 8, 16, ... others by chance; and again, as the choice of others matters.
    """
    rows, columns = problem.old.shape
    cell = np.arange(rows * columns).reshape(rows, columns)
    line = cell // columns if rows >= columns else cell % columns
    lost = np.unique(line[~problem.stays])
    others = np.setdiff1d(line, lost)
    chance = np.random.default_rng(seed)
    for _ in range(_WIDENINGS):
        count = 4
        while count < len(others):
            yield np.isin(line, lost) | np.isin(line, chance.choice(others, count, replace=False))
            count *= 2


def _search(
    problem: RepairProblem, movable: BoolArray, target: RepairPlan, *, hint: RepairPlan, limits: Limits, until: float
) -> RepairPlan | None:
    """Search the fewest moves among some cells for the objective of a plan; the bound is one for those cells."""
    offered = choices(problem, movable)
    if not offered.few or clock() > until:
        return None
    model = MoveModel(offered, limits)
    model.suggest(offered.target_of_mover(problem.cluster.levels[offered.depth].domain_of[hint.nodes]))
    model.at_most("objective", model.value_of(target.after))
    steps = climb(model, ("slow", "moves", "touches"), until)
    if model.answer is None or "moves" not in steps:
        return None
    domain_of_cell = offered.domain_of_cell(model.answer)
    return plan_of(problem, offered.depth, domain_of_cell, fewest=steps["moves"].bound)
