"""Best objective first, then the fewest moves for it.

Fewer moves are sought in four ways, each starting from the best before: rename the new placement, move whole segments
of the old one, let the surroundings of the lost nodes change, let everything change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import numpy as np

from scheduler.job import Job
from scheduler.objective import evaluate
from scheduler.outcome import TOLERANCE, run, trivial_bound
from scheduler.placement.admission import BoolArray
from scheduler.placement.repair.bands import bands_of, move_segments
from scheduler.placement.repair.choices import choices
from scheduler.placement.repair.model import RepairModel
from scheduler.placement.repair.moves_first import Plan, climb, cost_of, fewest_moves, plan_of
from scheduler.placement.repair.nearest import nearest_nodes
from scheduler.placement.repair.relabel import relabel
from scheduler.placement.repair.situation import Situation
from scheduler.placement.repair.terms import closest_depth
from scheduler.placement.types import Limits, PlacementAlgorithm
from topology.capacity import count_nodes
from topology.cluster import IntArray

_WIDENINGS = 3
_SLICES = 12
_NEARBY = 0.6
"""How often the neighbourhood of the lost nodes is widened, into how many slices the time is cut for it, and which part
of the time it may take."""


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
    best = run(algorithm, cluster, job, _part(limits, deadline, 2))
    bound = best.bound if best.bound is not None else trivial_bound(job)
    near = replace(near, objective_bound=min(bound, near.evaluation.objective))
    if best.evaluation is None or best.proposal.nodes is None:
        return replace(near, notes=(*near.notes, f"{algorithm.name} found no placement: {best.reason}"))
    nodes = _renamed(found, best.proposal.nodes)
    start = replace(near, nodes=nodes, evaluation=evaluate(found.cluster, found.job, nodes))
    better = start.evaluation.objective < near.evaluation.objective - TOLERANCE
    if not better or cost_of(found, start)[0] > cost_of(found, near)[0]:
        return near
    limits.say("searching the fewest moves for it")
    for nodes in _banded(found, start.evaluation.objective, _part(limits, deadline, 8)):
        banded = replace(start, nodes=nodes, evaluation=evaluate(found.cluster, found.job, nodes))
        start = min(start, banded, key=lambda one: cost_of(found, one))
    plan = _fewest_moves_for(found, start, near, limits, deadline)
    return replace(plan, objective_bound=min(bound, plan.evaluation.objective))


def _part(limits: Limits, deadline: float, parts: int) -> Limits:
    """A part of the time that is left; a moment where none is."""
    return replace(limits, seconds=max(0.05, (deadline - monotonic()) / parts))


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
        if searched is not None and cost_of(found, searched) < cost_of(found, plan):
            plan = replace(searched, fewest_moves=start.fewest_moves)
            break
        if monotonic() > begun + _NEARBY * (deadline - begun):
            break
    everything = np.ones_like(found.stays)
    if (searched := _search(found, everything, start, hint=plan, limits=limits, until=deadline)) is None:
        return plan
    fewest = max(start.fewest_moves, searched.fewest_moves)
    return replace(min(plan, searched, key=lambda one: cost_of(found, one)), fewest_moves=fewest)


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
    if not offered.few or monotonic() > until:
        return None
    model = RepairModel(offered, limits)
    model.suggest(offered.target_of_mover(found.cluster.levels[offered.depth].domain_of[hint.nodes]))
    model.at_most("objective", model.value_of(target.evaluation))
    steps = climb(model, ("slow", "moves", "touches"), until)
    if model.answer is None or "moves" not in steps:
        return None
    domain_of_cell = offered.domain_of_cell(model.answer)
    return plan_of(found, offered.depth, domain_of_cell, fewest=steps["moves"].bound)
