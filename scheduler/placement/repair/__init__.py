"""Repair: replace lost nodes of a placed job, moving as little as possible.

A job that runs on thousands of nodes loses some of them; the others hold its state.  Two orders, the user's choice:

- ``moves``: the fewest moved cells first, then the best objective among those.
- ``objective``: the best objective that any placement reaches first, then the fewest moved cells for it.

In both, healthy spares go first: a slow node is newly taken only where the job does not fit without (unless it says
``avoid: ignore``).  Cells that do not move keep their node, and every cell keeps its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from scheduler.job import Job
from scheduler.objective import Evaluation, evaluate
from scheduler.placement.registry import load_algorithm
from scheduler.placement.repair.moves_first import Plan, fewest_moves
from scheduler.placement.repair.objective_first import best_objective
from scheduler.placement.repair.result import Move, Prefer, Repair
from scheduler.placement.repair.situation import Situation, situation
from scheduler.placement.types import Limits, PlacementAlgorithm
from topology.cluster import Cluster, IntArray

__all__ = ["Move", "Prefer", "Repair", "repair"]

_DEFAULT_LIMITS = Limits()


def repair(
    cluster: Cluster,
    job: Job,
    nodes: IntArray,
    lost: Sequence[str],
    *,
    prefer: Prefer = "moves",
    limits: Limits = _DEFAULT_LIMITS,
    algorithm: PlacementAlgorithm | None = None,
) -> Repair:
    """Give the cells on lost nodes other nodes.

    A node of the job that may not be used any more (faulty, or slow under ``avoid: strict``) is replaced like a lost
    one, with a note.

    :param cluster: the cluster now; whether it shows the job's own nodes as in use makes no difference.
    :param nodes: shape [rows, columns], the placement before.
    :param lost: names of the lost nodes.
    :param prefer: what comes first, ``moves`` or ``objective``.
    :param algorithm: for ``objective``, finds the best placement when all may move; default ``exact``.
    :raises UnknownName: a lost node is not in the cluster.
    :raises InvalidPlacement: the placement before was not valid, lost nodes apart.
    :raises Infeasible: fewer nodes are left than the job needs.
    :raises SolverTimeout: time ran out before a repair was found.
    """
    started = perf_counter()
    before = _worth_before(cluster, job, nodes)
    found = situation(cluster, job, nodes, lost)
    plan = _plan(found, prefer, limits, algorithm)
    return Repair(
        nodes=plan.nodes,
        moves=_moves(found, plan.nodes),
        before=before,
        after=plan.evaluation,
        prefer=prefer,
        fewest_moves=plan.fewest_moves,
        objective_bound=plan.objective_bound,
        notes=(*found.notes, *plan.notes),
        solve_seconds=perf_counter() - started,
    )


def _worth_before(cluster: Cluster, job: Job, nodes: IntArray) -> Evaluation:
    """Worth of the placement when its nodes were its own and nobody had found fault with them."""
    free = cluster.free_gpus.copy()
    free[nodes] = cluster.gpus[nodes]
    own = set(nodes.ravel().tolist())
    flags = {node: flag for node, flag in cluster.flags.items() if node not in own}
    return evaluate(cluster.replace(free_gpus=free, flags=flags), job, nodes)


def _plan(found: Situation, prefer: Prefer, limits: Limits, algorithm: PlacementAlgorithm | None) -> Plan:
    if found.stays.all():
        now = evaluate(found.cluster, found.job, found.old)
        return Plan(found.old, now, 0, now.objective, ("no node of the job is lost: nothing moves",))
    if prefer == "moves":
        return fewest_moves(found, limits)
    return best_objective(found, limits, algorithm or load_algorithm("exact"))


def _moves(found: Situation, nodes: IntArray) -> tuple[Move, ...]:
    rank = found.job.grid.node_rank
    rows, columns = np.nonzero(nodes != found.old)
    moves = (
        Move(int(r), int(c), int(rank[r, c]), int(found.old[r, c]), int(nodes[r, c]))
        for r, c in zip(rows, columns, strict=True)
    )
    return tuple(sorted(moves, key=lambda move: move.node_rank))
