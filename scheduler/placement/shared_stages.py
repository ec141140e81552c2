"""Placing a job whose stages share nodes: there is no grid of rows and columns to search, so each node is a choice.

Groups are counted as they are, in the integer model of repairs (:mod:`scheduler.placement.moves`) with every block of
cells free to go anywhere.  It proves what it finds on small jobs; on large ones its bound says how far it may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from time import monotonic, perf_counter

import numpy as np

from scheduler.job import Family, Job
from scheduler.objective import evaluate, objective_of, slowest_in_use, step_time
from scheduler.placement.admission import admissible, blocks_at, capacity_by_level
from scheduler.placement.moves.move_choices import MoveChoices, closest_depth, greedy_targets, trimmed
from scheduler.placement.moves.move_model import MoveModel
from scheduler.placement.seating import seat
from scheduler.placement.types import Limits, Proposal
from topology.capacity import count_nodes
from topology.cluster import BoolArray, Cluster, IntArray
from topology.errors import SolverTimeout

_SEARCH = 0.9  # Part of the time for the objective; the rest is for groups that need fewer domains than the worst one


@dataclass(frozen=True, slots=True)
class _Found:
    """The best placement on nodes up to some slowdown."""

    nodes: IntArray  # shape [cells, 1]
    bound: float
    time: float  # predicted step time


def place_shared_stages(cluster: Cluster, job: Job, thresholds: Sequence[float], limits: Limits) -> Proposal:
    """Propose the best placement that the time allows, of all thresholds of slowdown that have room.

    :param thresholds: slowdowns up to which nodes may be admitted, ascending; the last has room for the job.
    :raises SolverTimeout: time ran out before a placement was found.
    """
    start = perf_counter()
    found: list[_Found] = []
    for number, slowest in enumerate(thresholds):
        admitted = admissible(cluster, job, slowest=slowest)
        if int(capacity_by_level(cluster, job, admitted)[0].sum()) < job.grid.cells:
            continue
        seconds = (limits.seconds - (perf_counter() - start)) / (len(thresholds) - number)
        one = _search(cluster, job, admitted, replace(limits, seconds=max(seconds, 0.0), workers=1))
        found += [] if one is None else [one]
    if not found:
        raise SolverTimeout("time ran out before a placement was found", where="--time-limit", fix="give more seconds")
    best = min(found, key=lambda one: round(one.time, 9))
    # what is claimed is claimed of all nodes that the job may use: under `ignore` these are the slow ones too
    bound = found[-1].bound if job.avoid == "ignore" else best.bound
    seconds = perf_counter() - start
    return Proposal(best.nodes, lower_bound=bound, complete=seconds < limits.seconds, solve_seconds=seconds)


def _search(cluster: Cluster, job: Job, admitted: BoolArray, limits: Limits) -> _Found | None:
    """Return the best placement on some nodes; ``None`` = none was found in time."""
    deadline = monotonic() + _SEARCH * limits.seconds
    offered = _anywhere(cluster, job, admitted)
    if not (whole := offered.few):
        offered = trimmed(offered)
    model = MoveModel(offered, limits)
    quick = greedy_targets(offered)
    model.suggest(quick)
    step = model.minimise("objective", deadline)
    if step is not None:
        model.minimise("touches", deadline + (1 - _SEARCH) * limits.seconds)
    elif job.holds_groups:
        return None
    level = cluster.levels[offered.depth]
    domain_of_cell = offered.domain_of_cell(quick if model.answer is None else model.answer)
    nodes = seat(cluster, job, level=level, domain_of_cell=domain_of_cell, admitted=admitted)
    worth = evaluate(cluster, job, nodes)
    bound = _least(cluster, job, admitted)
    if step is not None and whole:
        bound = min(max(bound, step.bound / model.scale), worth.objective)
    return _Found(nodes, bound, step_time(job, objective=worth.objective, slowest=slowest_in_use(cluster, worth)))


def _anywhere(cluster: Cluster, job: Job, admitted: BoolArray) -> MoveChoices:
    """Return the choice of a domain for every block, as if all blocks had lost their nodes."""
    depth = closest_depth(cluster, job)
    blocks, room = blocks_at(cluster, job, depth), capacity_by_level(cluster, job, admitted)[depth]
    targets = np.flatnonzero(room > 0).astype(np.int32)
    count, cells = blocks.rows * blocks.columns, (job.grid.rows, job.grid.columns)
    return MoveChoices(
        cluster=cluster,
        job=job,
        old=np.zeros(cells, dtype=np.int32),
        depth=depth,
        block_of=blocks.of_cell,
        size=blocks.size,
        movers=np.arange(count, dtype=np.int32),
        home=np.zeros(count, dtype=np.int32),
        lost=np.full(count, blocks.size, dtype=np.int32),
        targets=targets,
        room=(room[targets] // blocks.size).astype(np.int32),
        healthy=room[targets].astype(np.int32),
    )


def _least(cluster: Cluster, job: Job, admitted: BoolArray) -> float:
    """Return a bound that needs no search: a group touches as many domains as it fills of the largest."""
    groups = job.grid.groups

    def fewest(family: Family, level: str | None) -> int:
        return ceil(groups[family].largest / int(count_nodes(cluster.level(level), admitted).max()))

    soft = sum(count.weight * fewest(count.family, count.level) for count in job.soft)
    return objective_of(job, fewest("dp", job.level), fewest("pp", job.level), soft)
