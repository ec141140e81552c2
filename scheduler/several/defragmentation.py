"""Defragmentation: which running jobs to move, and where, so that a new job is placed well, at the least cost.

The new job is to reach a target, by default what it would have on the empty cluster.  No running job may get a larger
objective than it has, a slower node, or a slower type of GPU.  The cost is the number of nodes that move, or the
GPU-hours that jobs lose which go back to their last checkpoint.  Where the target cannot be reached at the cost that is
allowed, the best objective that can be is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from ground.quantities import HOUR
from scheduler.algorithm_run import judge, run
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation
from scheduler.outcome import LATE, Outcome
from scheduler.placement.admission import for_each_size, shortage
from scheduler.placement.solver_clock import load_solver
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal, Status
from scheduler.several.joint_question import JointQuestion, bound_at, run_on_its_levels, slowest_allowed
from scheduler.several.move_plan import MoveLimits
from scheduler.several.move_search import MoveSearch
from scheduler.several.running_jobs import RunningJob, check_running, classes_with_running, opened
from scheduler.subproblems.gpu_types import speed_of
from scheduler.work_clock import clock, on_clock, stopwatch
from topology.cluster import Cluster, IntArray

FIRST_SHARE = 0.1  # Of the time, for placing the job as things are, and again on the empty cluster


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """What the moves may cost: at most one of the two is given."""

    moves: int | None = None  # nodes
    gpu_hours: float | None = None  # lost since the last checkpoints; then that is what is least, too


NO_LIMIT = MoveBudget()


@dataclass(frozen=True, slots=True)
class RunningResult:
    """A running job before and after."""

    running: RunningJob
    nodes: IntArray  # shape [rows, columns], where it is then
    before: Evaluation
    after: Evaluation

    @property
    def moved(self) -> int:
        """Nodes that it leaves."""
        return int((self.nodes != self.running.nodes).sum())

    @property
    def lost_hours(self) -> float | None:
        """GPU-hours that it loses; ``None`` = nothing says how old its checkpoint is."""
        if not self.moved:
            return 0.0
        return None if self.running.checkpoint_age is None else self.running.lost_seconds / HOUR


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """Where a new job goes, and what moves for it."""

    # optimal: no smaller objective down to the target is possible at that cost, and no smaller cost for it
    status: Status
    outcome: Outcome  # of the new job, as things are then; its bound is that without regard to what moves
    now: Outcome  # of the new job if nothing moves
    target: float  # objective / speed
    reached: float  # objective / speed of the new job as things are then; infinite without a placement
    running: tuple[RunningResult, ...] = ()  # empty without a placement
    cost: float = 0.0  # of the moves: nodes, or GPU-hours
    least_cost: float = 0.0  # no plan with an objective as good costs less
    solve_seconds: float = 0.0
    stopped_at: float | None = None  # seconds of the time limit that ended the search; None = it ended by itself
    notes: tuple[str, ...] = ()


def defragment(
    cluster: Cluster,
    job: Job,
    running: Sequence[RunningJob],
    *,
    solver: PlacementAlgorithm,
    limits: Limits,
    budget: MoveBudget = NO_LIMIT,
    target: float | None = None,
) -> Defragmentation:
    """Find the cheapest moves of running jobs that let a new job reach its target.

    :param cluster: the cluster now; whether it shows the nodes of running jobs as in use makes no difference.
    :param target: objective (divided by the speed) of the new job; ``None`` = what it has on the empty cluster.
    :raises InvalidInput: running jobs share a node; InvalidPlacement: one of them breaks a rule.
    :raises InvalidJob: the job cannot be cut into nodes; UnknownName: it names a level that the cluster does not have.
    """
    load_solver()
    started = stopwatch()
    with on_clock(limits.clock, limits.seconds) as timer:
        found = _cheapest(cluster, job, running, solver=solver, limits=limits, budget=budget, target=target)
    if timer.late:
        found = replace(found, stopped_at=limits.seconds, notes=(*found.notes, LATE))
    return replace(found, solve_seconds=stopwatch() - started)


def _cheapest(
    cluster: Cluster,
    job: Job,
    running: Sequence[RunningJob],
    *,
    solver: PlacementAlgorithm,
    limits: Limits,
    budget: MoveBudget,
    target: float | None,
) -> Defragmentation:
    end = clock() + limits.seconds
    first = replace(limits, seconds=FIRST_SHARE * limits.seconds)
    room = opened(cluster, running)
    worths = check_running(room, running)
    question = JointQuestion(room, (job,), (1.0,))
    taken = [int(node) for one in running for node in one.nodes.ravel()]
    busy = room.with_busy(taken) if taken else room
    limits.say("if nothing moves")
    # without moves nearly all time is for that
    rest = replace(limits, seconds=(1.0 - FIRST_SHARE) * limits.seconds)
    now = run(solver, busy, job, rest if budget.moves == 0 else first)
    now = now.after(now.stopped_at and limits.seconds)  # a share of the limit is not the limit that was asked for
    empty: Outcome | None = None
    if target is None:
        limits.say("on the empty cluster")
        empty = run_on_its_levels(solver, room.emptied(), job, first)
        target = 0.0 if empty.evaluation is None else question.cost_of(0, empty.evaluation)
    stays = [RunningResult(one, one.nodes, worth, worth) for one, worth in zip(running, worths, strict=True)]
    cost = inf if now.evaluation is None else question.cost_of(0, now.evaluation)
    reached = cost <= target + TOLERANCE
    if reached or budget.moves == 0 or short(busy, job):
        placed = tuple(stays) if now.evaluation is not None else ()
        found = Defragmentation("optimal" if reached else now.status, now, now, target, cost, placed)
        return replace(found, stopped_at=None if reached else now.stopped_at)
    asked = MoveLimits(question.whole(target), _most(budget, running), budget.gpu_hours is not None)
    search = _search(question, stays, now, empty, asked=asked, solver=solver)
    search.run(limits, end)
    found = _answer(search, stays, now, empty, target=target)
    stopped_at = limits.seconds if search.out_of_time else None
    return replace(found, outcome=found.outcome.after(stopped_at), stopped_at=stopped_at)


def _most(budget: MoveBudget, running: Sequence[RunningJob]) -> int | None:
    """Return the most that the moves may cost, in whole numbers, no more than all of them do; ``None`` = no limit."""
    if budget.gpu_hours is not None:
        every = sum(one.lost_seconds for one in running)
        return int(min(budget.gpu_hours * HOUR, every))
    return None if budget.moves is None else min(budget.moves, sum(one.nodes.size for one in running))


def short(cluster: Cluster, job: Job) -> bool:
    """Return whether nodes are too few wherever they lie: then moving helps nothing."""
    fewest = min(way.grid.cells for way in for_each_size(cluster, job))
    return int(cluster.idle.sum()) < fewest and bool(shortage(cluster, job))


def _search(
    question: JointQuestion,
    stays: Sequence[RunningResult],
    now: Outcome,
    empty: Outcome | None,
    *,
    asked: MoveLimits,
    solver: PlacementAlgorithm,
) -> MoveSearch:
    """Return the search, which knows what is placed if nothing moves, and on the empty cluster."""
    room, job, running = question.cluster, question.jobs[0], [one.running for one in stays]
    slowest = slowest_allowed(room, job, (now, empty))
    classes, shares = classes_with_running(room, job, slowest, running, [one.before for one in stays])
    search = MoveSearch(question, running, classes=classes, shares=shares, asked=asked, solver=solver)
    if now.proposal.nodes is not None:
        search.found(now.proposal.nodes, [one.nodes for one in running])
    if empty is not None and empty.proposal.nodes is not None:
        search.learn(empty.proposal.nodes)
    return search


def _answer(
    search: MoveSearch, stays: Sequence[RunningResult], now: Outcome, empty: Outcome | None, *, target: float
) -> Defragmentation:
    plan, question, job = search.plan, search.question, search.question.jobs[0]
    if plan is None:
        if search.impossible:
            limited = "" if search.asked.most is None else " at the cost that is allowed"
            reason = f"the job does not fit, wherever running jobs move{limited}: {now.reason}"
            return Defragmentation("infeasible", replace(now, status="infeasible", reason=reason), now, target, inf)
        reason = "time ran out before moves were found that make room"
        return Defragmentation("timeout", replace(now, status="timeout", reason=reason), now, target, inf)
    results = []
    for one, nodes in zip(stays, plan.running, strict=True):
        after = one.running.worth(question.cluster, nodes)
        results.append(one if after is None else replace(one, nodes=nodes, after=after))
    free = question.cluster.with_busy([int(node) for nodes in plan.running for node in nodes.ravel()])
    # the bound of the job as things are now says nothing once others have moved; that of the empty cluster holds
    bound = None if empty is None else bound_at(speed_of(free, job, plan.nodes), job, empty)
    shortest = None if empty is None or empty.by_type else empty.step_time_bound
    outcome = judge(now.algorithm, free, question.sized(0, plan.nodes), Proposal(plan.nodes, bound, shortest))
    if job.node_sizes:
        outcome = replace(outcome, gpus_per_node=question.sized(0, plan.nodes).gpus_per_node)
    as_good = search.bound[0] >= plan.rank[0]
    unit = HOUR if search.asked.by_jobs else 1
    return Defragmentation(
        "optimal" if search.proved else "feasible",
        outcome,
        now,
        target,
        question.cost(0, plan.nodes),
        tuple(results),
        plan.rank[1] / unit,
        min(search.bound[1], plan.rank[1]) / unit if as_good else 0.0,
    )
