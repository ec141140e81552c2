"""Repair: replace lost nodes of a placed job, moving as little as possible.

A job that runs on thousands of nodes loses some of them; the others hold its state.  Two orders, the user's choice:

- ``moves``: the fewest moved cells first, then the best objective among those.
- ``objective``: the best objective that any placement reaches first, then the fewest moved cells for it.

In both, healthy spares go first: a slow node is newly taken only where the job does not fit without (unless it says
``avoid: ignore``).  Cells that do not move keep their node, and every cell keeps its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, evaluate
from scheduler.outcome import LATE
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm
from scheduler.repair.beside_the_tree import RepairQuestion, plan_with_constraints
from scheduler.repair.moves_first import RepairPlan, fewest_moves
from scheduler.repair.objective_first import best_objective
from scheduler.repair.repair_problem import Prefer, RepairProblem, of_its_type
from scheduler.work_clock import on_clock, stopwatch
from topology.cluster import Cluster, IntArray

_DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Move:
    """A cell that goes from one node to another, both by index; row = PP group, column = stage; its rank stays."""

    row: int
    column: int
    node_rank: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(RepairPlan):
    """A placement after a repair, beside the one before."""

    moves: tuple[Move, ...]  # the cells that change their node, by rank
    before: Evaluation  # worth of the placement before nodes were lost
    prefer: Prefer  # the order that was asked for
    solve_seconds: float  # wall time

    @property
    def moves_proved(self) -> bool:
        """Whether fewer moved cells are impossible."""
        return self.fewest_moves >= len(self.moves)

    @property
    def bound(self) -> float:
        """The objective bound, or the objective now where rounding made that the smaller."""
        return min(self.objective_bound, self.after.objective)

    @property
    def gap(self) -> float:
        """(objective - bound) / objective of the placement now; 0 when proved."""
        return (self.after.objective - self.bound) / self.after.objective

    @property
    def objective_proved(self) -> bool:
        """Whether a better objective is impossible."""
        return self.objective_bound >= self.after.objective - TOLERANCE


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
    one, with a note.  The types of GPU stay those of the placement before, unless the job may mix them.

    :param cluster: the cluster now; whether it shows the job's own nodes as in use makes no difference.
    :param nodes: shape [rows, columns], the placement before.
    :param algorithm: for ``objective``, finds the best placement when all may move; default ``exact``.
    :raises UnknownName: a lost node is not in the cluster.
    :raises InvalidPlacement: the placement before was not valid, lost nodes apart.
    :raises Infeasible: fewer nodes are left than the job needs, or no placement keeps its constraints.
    :raises SolverTimeout: time ran out before a repair was found, or none was found that keeps a hard constraint at a
        second hierarchy, and none is ruled out.
    """
    started = stopwatch()
    job = of_its_type(cluster, job, nodes)
    before = _worth_before(cluster, job, nodes)
    algorithm = algorithm or ALGORITHMS.load("exact")
    asked = RepairQuestion(job, nodes, lost, prefer, partial(_plan, prefer=prefer, algorithm=algorithm), algorithm)
    with on_clock(limits.clock, limits.seconds) as timer:
        problem, plan = plan_with_constraints(cluster, asked, limits)
    return Repair(
        plan.nodes,
        plan.after,
        plan.fewest_moves,
        plan.objective_bound,
        (*problem.notes, *plan.notes, *([LATE] if timer.late else ())),
        moves=_moves(problem, plan.nodes),
        before=before,
        prefer=prefer,
        solve_seconds=stopwatch() - started,
    )


def _worth_before(cluster: Cluster, job: Job, nodes: IntArray) -> Evaluation:
    """Return the worth of the placement when its nodes were its own, with nothing held against them."""
    free = cluster.free_gpus.copy()
    free[nodes] = cluster.gpus[nodes]
    own = set(nodes.ravel().tolist())
    return evaluate(cluster.replace(free_gpus=free).excused(own), job, nodes)


def _plan(problem: RepairProblem, limits: Limits, *, prefer: Prefer, algorithm: PlacementAlgorithm) -> RepairPlan:
    if problem.stays.all():
        now = evaluate(problem.cluster, problem.job, problem.old)
        return RepairPlan(problem.old, now, 0, now.objective, ("no node of the job is lost: nothing moves",))
    if prefer == "moves":
        return fewest_moves(problem, limits)
    return best_objective(problem, limits, algorithm)


def _moves(problem: RepairProblem, nodes: IntArray) -> tuple[Move, ...]:
    cells = np.nonzero(nodes != problem.old)
    facts = (*cells, problem.job.grid.node_rank[cells], problem.old[cells], nodes[cells])
    moves = (Move(*map(int, of_cell)) for of_cell in zip(*facts, strict=True))
    return tuple(sorted(moves, key=lambda move: move.node_rank))
