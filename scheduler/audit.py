"""How good a placement is that is there already: what it has, and the best that could be had in its stead.

*Its own nodes in another order*, *the nodes that are free now*, these *and its own* (as if it were started anew), *the
empty cluster*: four questions to the solver, each with its bound.  And which *swap* of two of its nodes helps most: the
placement after it has the less at the first of the goals of placements (:func:`scheduler.objective.goals`) at which the
two differ.

A swap lowers a spread only if it takes from one of the groups with the largest spread a domain in which that group has
a single cell.  So one of the two cells stands alone so in a largest group of some term of the goals, and all pairs with
such a cell are all that need be tried.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ground.errors import InvalidPlacement
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.job_on_cluster import on_nodes
from scheduler.objective import TOLERANCE, Evaluation, evaluate, goals, trivial_bound, worth_of
from scheduler.outcome import Outcome
from scheduler.placement.admission import prices_slow_nodes
from scheduler.placement.types import Limits, PlacementAlgorithm
from topology.cluster import Cluster, IntArray

MOST_SWAPS = 20_000  # Tried at the most, each by the evaluator: a few seconds
SWAP_SECONDS = 7e-8  # Of work to weigh one, for each cell and level: 1.4 ms of 4,000 cells at five levels
ASKED = ("same_nodes", "free_nodes", "restart", "empty_cluster")  # What is compared with, in order


@dataclass(frozen=True, slots=True)
class Swap:
    """Two cells that change their nodes."""

    cells: tuple[tuple[int, int], tuple[int, int]]  # rows and columns
    evaluation: Evaluation  # of the placement after it


@dataclass(frozen=True, slots=True)
class Audit:
    """What a placement is worth beside the best that could be had."""

    evaluation: Evaluation
    broken: str  # the rule of its job or of the cluster that it breaks; empty = none
    possible: Mapping[str, Outcome]  # each of ASKED
    swap: Swap | None  # the best of those tried; None = none of them helps
    swaps_complete: bool  # whether all swaps that could help were tried


def audit(
    cluster: Cluster,
    job: Job,
    nodes: IntArray,
    *,
    solver: PlacementAlgorithm,
    limits: Limits,
    empty_cluster: Outcome | None = None,
) -> Audit:
    """Weigh a placement, and ask what could be had in its stead.

    :param cluster: as it is now; whether it shows the job's own nodes as in use makes a difference to what is free
        alone.
    :param nodes: shape [rows, columns], index of the node of each cell.
    :param limits: of each of the four questions, and of the swaps.
    :param empty_cluster: the answer to the last of the questions, where it is known already.
    :raises InvalidPlacement: the job could not be there under any rules, as nodes have the wrong number of GPUs.
    """
    own = nodes.ravel()
    free = cluster.free_gpus.copy()
    free[own] = cluster.gpus[own]
    # what was found about its own nodes since it started does not make the placement invalid
    opened = cluster.replace(free_gpus=free, kept_out={}).excused({*own.tolist()})
    broken, judged = "", on_nodes(cluster, job, own.tolist())
    try:
        evaluation = evaluate(opened, judged, nodes)
    except InvalidPlacement as error:
        # it runs all the same, by whatever rules it was started
        judged = judged.replace(holds=(), gpu_types=None, mix_types=True, level=cluster.level(job.level).name)
        opened = opened.replace(joined=True)
        broken, evaluation = error.message, evaluate(opened, judged, nodes)
    alone = np.zeros_like(free)
    alone[own] = cluster.gpus[own]
    clusters = (cluster.replace(free_gpus=alone), cluster, cluster.replace(free_gpus=free), cluster.emptied())
    answers = {} if empty_cluster is None else {ASKED[-1]: empty_cluster}
    possible = {
        name: answers.get(name) or _as_it_runs_or_better(run(solver, there, job, limits), there, job, nodes)
        for name, there in zip(ASKED, clusters, strict=True)
    }
    swap, complete = best_swap(opened, judged, nodes, evaluation, seconds=limits.seconds)
    return Audit(evaluation, broken, possible, swap, complete)


def _as_it_runs_or_better(outcome: Outcome, cluster: Cluster, job: Job, nodes: IntArray) -> Outcome:
    """Return an outcome, or the placement as it runs with its bound, where that is valid there too and is better: where
    its GPUs are the faster for its objective, or as fast and its goals are met better.
    """
    worth = worth_of(cluster, on_nodes(cluster, job, nodes.ravel().tolist()), nodes)
    if worth is None or prices_slow_nodes(cluster, job):
        return outcome
    if (known := outcome.evaluation) is not None:
        costs = [of.objective / job.speed_on(of.gpu_types) for of in (known, worth)]
        if costs[0] < costs[1] - TOLERANCE or (costs[0] <= costs[1] + TOLERANCE and known.goals <= worth.goals):
            return outcome
    bound = trivial_bound(job) if outcome.bound is None else outcome.bound
    return replace(outcome, reason="").weighed(replace(outcome.proposal, nodes=nodes), worth, bound)


def best_swap(
    cluster: Cluster, job: Job, nodes: IntArray, now: Evaluation, *, seconds: float
) -> tuple[Swap | None, bool]:
    """Return the swap of two nodes that helps most, and whether all that could help were tried.

    :param cluster: on which the placement is valid.
    :param seconds: of counted work, so that the same swaps are tried on every machine.
    """
    levels = len(cluster.levels) + len(cluster.second_levels)
    most = min(MOST_SWAPS, int(seconds / (SWAP_SECONDS * nodes.size * levels)))
    best, complete, tried = None, True, 0
    least, closest = now.goals, cluster.levels[-1].domain_of[nodes]
    for first, second in _candidates(cluster, job, nodes):
        if closest[first] == closest[second] and not cluster.second_levels:
            continue
        if tried == most:
            complete = False
            break
        tried += 1
        swapped = nodes.copy()
        swapped[first], swapped[second] = nodes[second], nodes[first]
        worth = worth_of(cluster, job, swapped)
        if worth is not None and worth.goals < least:
            best, least = Swap((first, second), worth), worth.goals
    return best, complete


def _candidates(cluster: Cluster, job: Job, nodes: IntArray) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield pairs of cells of which one stands alone in its domain in a largest group; those of earlier goals first."""
    seen = np.zeros(nodes.shape, dtype=np.bool_)
    cells = [(row, column) for row in range(nodes.shape[0]) for column in range(nodes.shape[1])]
    number = np.arange(nodes.size, dtype=np.int32).reshape(nodes.shape)
    for terms in goals(cluster, job):
        for term in terms:
            groups, of_pair = job.grid.groups[term.family].paired(cluster.level(term.level).domain_of[nodes])
            _, cell_of_pair = job.grid.groups[term.family].paired(number)
            width = int(of_pair.max()) + 1
            keys, index, counts = np.unique(
                groups.ravel() * np.int64(width) + of_pair.ravel(), return_inverse=True, return_counts=True
            )
            spreads = np.bincount(keys // width)
            if spreads.max() == 1:
                continue
            alone = (counts[index] == 1) & (spreads[groups.ravel()] == spreads.max())
            for flat in np.unique(cell_of_pair.ravel()[alone]).tolist():
                first = cells[flat]
                if seen[first]:
                    continue
                seen[first] = True
                yield from ((first, second) for second in cells if not seen[second])
