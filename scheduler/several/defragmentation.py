"""Defragmentation: which running jobs to move, and where, so that a new job is placed well, at the least cost.

The new job is to reach a target, by default what it would have on the empty cluster.  No running job may get a larger
objective than it has, a slower node, or a slower type of GPU.  The cost is the number of nodes that move, or the
GPU-hours that jobs lose which go back to their last checkpoint.  Where the target cannot be reached at the cost that is
allowed, the best objective that can be is.

Two programs share nodes out to new and running jobs.  One has shapes of the new job that are known, so what it finds
can be done; the other has what every placement satisfies, so what it needs is a bound.  Both make the objective of the
new job least, down to its target, then the cost of the moves.  Where the second finds a share in which the new job has
a placement as good, both agree: proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ground.quantities import HOUR
from ground.records import Count, NotNegative, check_fields, checked
from scheduler.algorithm_run import judge, run
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, slowest_in_use, trivial_bound
from scheduler.outcome import Outcome, late_note, proved_down_to
from scheduler.placement.admission import for_each_size, shortage
from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.node_classes import NodeClasses, places_by_class
from scheduler.placement.share_parts import top, ways_by_cell
from scheduler.placement.share_program import (
    RunningShare,
    ShareModel,
    by_counts,
    by_units,
    by_what_leaves,
    exact_units,
    taken,
)
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal, Status
from scheduler.repair import of_its_type
from scheduler.several.joint_question import (
    WHOLE,
    JointQuestion,
    SeenPlacements,
    bound_at,
    bounded_cost,
    last_of_each,
    only,
    placed_as_in,
    run_on_its_levels,
    slowest_allowed,
)
from scheduler.several.running_jobs import RunningJob, check_running, classes_with_running, opened
from scheduler.subproblems import speed_of
from scheduler.work_clock import LEAST_SECONDS, End, clock, ended_at, on_clock, stopwatch
from topology.cluster import BoolArray, Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement.share_parts import JobWays
    from scheduler.placement.share_program import Expression, Solution, Variable


FIRST_SHARE = 0.1  # Of the time, for placing the job as things are, and again on the empty cluster


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """What the moves may cost: at most one of the two is given."""

    moves: Count | None = None  # nodes
    gpu_hours: NotNegative | None = None  # lost since the last checkpoints; then that is what is least, too

    def __post_init__(self) -> None:
        check_fields(self)


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
    stopped_at: End | None = None  # what ended the search; None = it ended by itself
    notes: tuple[str, ...] = ()

    @property
    def proved_to(self) -> str | None:
        """``all`` = nothing of the new job could be better at that cost; ``objective`` = that alone; else ``None``."""
        if self.status != "optimal" or self.outcome.evaluation is None:
            return None
        # on nodes from which nobody moved the search of the job alone is about all placements that cost nothing
        alone = None if any(result.moved for result in self.running) else self.outcome.proved_to
        return "all" if "all" in (alone, proved_down_to(self.outcome.evaluation)) else "objective"


@checked
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
    started = stopwatch()
    with on_clock(limits.clock, limits.seconds) as timer:
        cheapest = _cheapest(cluster, job, running, solver=solver, limits=limits, budget=budget, target=target)
    if timer.late:
        stopped_at = ended_at(limits.seconds)
        cheapest = replace(cheapest, stopped_at=stopped_at, notes=(*cheapest.notes, late_note(stopped_at)))
    return replace(cheapest, solve_seconds=stopwatch() - started)


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
    held = [int(node) for incumbent in running for node in incumbent.nodes.ravel()]
    busy = room.with_busy(held) if held else room
    limits.say("if nothing moves")
    # without moves nearly all time is for that
    rest = replace(limits, seconds=(1.0 - FIRST_SHARE) * limits.seconds)
    now = run(solver, busy, job, rest if budget.moves == 0 else first)
    # a share of the limit is not the limit that was asked for
    now = now.after(now.stopped_at and ended_at(limits.seconds))
    empty: Outcome | None = None
    if target is None:
        limits.say("on the empty cluster")
        empty = run_on_its_levels(solver, room.emptied(), job, first)
        target = 0.0 if empty.evaluation is None else question.cost_of(0, empty.evaluation)
    stays = [
        RunningResult(incumbent, incumbent.nodes, worth, worth)
        for incumbent, worth in zip(running, worths, strict=True)
    ]
    cost = inf if now.evaluation is None else question.cost_of(0, now.evaluation)
    reached = cost <= target + TOLERANCE
    if reached or budget.moves == 0 or short(busy, job):
        placed = tuple(stays) if now.evaluation is not None else ()
        unmoved = Defragmentation("optimal" if reached else now.status, now, now, target, cost, placed)
        return replace(unmoved, stopped_at=None if reached else now.stopped_at)
    # the most that the moves may cost, in whole numbers, no more than all of them do
    most: int | None
    if budget.gpu_hours is not None:
        most = int(min(budget.gpu_hours * HOUR, sum(incumbent.lost_seconds for incumbent in running)))
    else:
        most = None if budget.moves is None else min(budget.moves, len(held))
    limit = MoveLimits(question.whole(target), most, budget.gpu_hours is not None)
    # the search knows what is placed if nothing moves, and on the empty cluster
    classes, shares = classes_with_running(room, job, slowest_allowed(room, job, (now, empty)), running, worths)
    search = MoveSearch(question, running, classes=classes, shares=shares, limit=limit, solver=solver)
    if now.proposal.nodes is not None:
        search.found(now.proposal.nodes, [incumbent.nodes for incumbent in running])
    if empty is not None and empty.proposal.nodes is not None:
        search.seen.learn(empty.proposal.nodes)
    search.run(limits, end)
    answer = _answer(search, stays, now, empty, target=target)
    stopped_at = ended_at(limits.seconds) if search.out_of_time else None
    return replace(answer, outcome=answer.outcome.after(stopped_at), stopped_at=stopped_at)


def short(cluster: Cluster, job: Job) -> bool:
    """Return whether nodes are too few wherever they lie: then moving helps nothing."""
    fewest = min(way.grid.cells for way in for_each_size(cluster, job))
    return int(cluster.idle.sum()) < fewest and bool(shortage(cluster, job))


def _answer(
    search: MoveSearch, stays: Sequence[RunningResult], now: Outcome, empty: Outcome | None, *, target: float
) -> Defragmentation:
    plan, question, job = search.plan, search.question, search.question.jobs[0]
    if plan is None:
        if search.impossible:
            limited = "" if search.limit.most is None else " at the cost that is allowed"
            reason = f"the job does not fit, wherever running jobs move{limited}: {now.reason}"
            return Defragmentation("infeasible", replace(now, status="infeasible", reason=reason), now, target, inf)
        reason = "time ran out before moves were found that make room"
        return Defragmentation("timeout", replace(now, status="timeout", reason=reason), now, target, inf)
    results = []
    for stayed, nodes in zip(stays, plan.running, strict=True):
        after = stayed.running.worth(question.cluster, nodes)
        results.append(stayed if after is None else replace(stayed, nodes=nodes, after=after))
    free = question.cluster.with_busy([int(node) for nodes in plan.running for node in nodes.ravel()])
    # the bound of the job as things are now says nothing once others have moved; that of the empty cluster holds
    bound = None if empty is None else bound_at(speed_of(free, job, plan.nodes), job, empty)
    shortest = None if empty is None or empty.by_type else empty.step_time_bound
    outcome = judge(now.algorithm, free, question.sized(0, plan.nodes), Proposal(plan.nodes, bound, shortest))
    if job.node_sizes:
        outcome = replace(outcome, gpus_per_node=question.sized(0, plan.nodes).gpus_per_node)
    as_good = search.bound[0] >= plan.rank[0]
    unit = HOUR if search.limit.by_jobs else 1
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


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Where the new job goes, and where running ones are then."""

    nodes: IntArray  # shape [rows, columns], of the new job
    running: tuple[IntArray, ...]  # of each running job, shape [rows, columns]
    # objective of the new job, not below the target, in whole numbers; then the cost of the moves
    rank: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """What is asked for, in whole numbers."""

    target: int  # a smaller objective of the new job is worth nothing
    most: int | None  # the most that the moves may cost; None = as it must be
    by_jobs: bool  # cost: GPU-seconds of every job of which a cell moves; else moved nodes


MOST_SHAPES = 24  # Of the new job in one program, the cheapest

KEEP_NONE: Mapping[int, IntArray] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MoveProgram:
    """The new job and the running ones beside each other."""

    model: ShareModel
    new: JobWays
    objective: Variable  # of the new job
    rank: Expression  # that, not below the target, and the cost of the moves as one number
    kept: Mapping[int, IntArray]  # running jobs, by number, that are not in it, and the class of each of their cells

    def targets(self, solver: Solution) -> list[IntArray]:
        """Return the class of each cell of every running job in a solution, shape [cells]; where that is decided."""
        moving = (part.targets(solver) for part in self.model.running if part.targets is not None)
        count = len(self.model.running) + len(self.kept)
        return [self.kept[i] if i in self.kept else next(moving) for i in range(count)]


FEW = 6  # Running jobs that are laid out again at a time, beside the new one, at first; so many more when that is over
FEW_EFFORT = 0.5  # Of that
MOST_PACKS = 16  # Such choices in a row
SOME_SHARE = 0.5  # Most of the time that is left, for these
EFFORT = 6.0  # Of one search, in CP-SAT's deterministic time, about seconds
RUN_SECONDS = 2.0  # Of searching one share of the new job
FIRST_SECONDS = 0.5  # Of each placement again: a first plan is wanted, not the best


class MoveSearch:
    """What is known so far of one question; only gets better."""

    def __init__(
        self,
        question: JointQuestion,
        running: Sequence[RunningJob],
        *,
        classes: NodeClasses,
        shares: Sequence[RunningShare],
        limit: MoveLimits,
        solver: PlacementAlgorithm,
    ) -> None:
        self.question, self.running, self.classes, self.shares = question, running, classes, shares
        self.limit, self._solver = limit, solver
        self.plan: MovePlan | None = None
        self.impossible = False  # whether it is proved that there is no plan at all
        self.out_of_time = False  # whether it ended without a proof, and more time could have found more
        self.bound: tuple[int, int] = (limit.target, 0)  # no plan has a smaller rank
        self._units, self._by_cell = exact_units(shares), ways_by_cell(classes.demands[:1])
        self.seen = SeenPlacements(question, 0, classes, self._by_cell)  # of the new job
        # one unit of the objective outweighs all moves together
        self._scale = sum(share.price if limit.by_jobs else len(share.homes) for share in shares) + 1
        self._random = Random()

    @property
    def proved(self) -> bool:
        """Whether no plan has a smaller rank, or there is none."""
        return self.impossible or (self.plan is not None and self.bound >= self.plan.rank)

    def found(self, nodes: IntArray, running: Sequence[IntArray]) -> None:
        """Take in a plan if it keeps all rules, and no running job gets worse; the evaluator weighs each."""
        every = np.concatenate([nodes.ravel(), *(after.ravel() for after in running)])
        cost = self.question.cost(0, nodes)
        if not np.isfinite(cost) or len(np.unique(every)) < len(every):
            return
        pairs = list(zip(self.running, running, strict=True))
        if any(not self._as_good(incumbent, after) for incumbent, after in pairs):
            return
        self.seen.learn(nodes)
        price = 0
        for incumbent, after in pairs:
            moved = int((incumbent.nodes != after).sum())
            price += incumbent.lost_seconds if self.limit.by_jobs and moved else moved
        if self.limit.most is not None and price > self.limit.most:
            return
        rank = max(self.limit.target, self.question.whole(cost)), price
        if self.plan is None or rank < self.plan.rank:
            self.plan = MovePlan(nodes, tuple(running), rank)

    def run(self, limits: Limits, end: float) -> None:
        """Search until all is proved, nothing is left to try, or the clock reads ``end``."""
        bounding, seen, more, few = None, -1, True, FEW
        self._random = Random(limits.seed)
        limits.say("what would have to leave")
        self._start(limits, end)
        while not self.proved and clock() < end:
            rank = None if self.plan is None else self.plan.rank
            if len(self.seen) > seen:
                seen = len(self.seen)
                limits.say("laying shapes out")
                self._pack(end)
            if more and not self.proved and clock() < end:
                limits.say("raising the bound")
                bounding = bounding or self._of_bound(None if self.plan is None else self.plan.rank[0])
                more = self._round(bounding, limits, end)
            if not self.proved and clock() < end:
                limits.say("moving a few at a time")
                self._pack_some(end, few)
            if not more and (self.plan is None or self.plan.rank == rank):
                few += FEW
                if self.plan is None or few >= len(self.running):
                    break
        self.out_of_time = not self.proved and (self.out_of_time or clock() >= end)

    @property
    def _exact(self) -> bool:
        """Whether nothing is lost in how running jobs move: what a program of the bound finds can be done."""
        return all(share.moves_by or units is not None for share, units in zip(self.shares, self._units, strict=True))

    def _of_bound(self, most: int | None, *, leaving: bool = False) -> MoveProgram:
        """Return what every plan satisfies.

        :param most: the objective of the new job, in whole numbers, above which a plan is of no use; ``None`` = any.
        :param leaving: only what leaves is decided, not where it goes.
        """
        model, demands, question = ShareModel(self.classes.sizes), self.classes.demands[0], self.question
        new, fastest = model.add_job(demands), max(demand.fastest for demand in demands)
        least = question.whole(trivial_bound(question.jobs[0]) / fastest)
        cost = bounded_cost(question, 0, new, least=least, most=most, by_cell=self._by_cell)
        for share, units in zip(self.shares, self._units, strict=True):
            if leaving:
                part = by_what_leaves(model.cp, share, model.sizes)
            elif units is None:
                part = by_counts(model.cp, share, model.sizes)
            else:
                part = by_units(model.cp, share, model.sizes, units)
            model.running.append(part)
        return self._program(model, new, cost, most, KEEP_NONE)

    def _of_seen(self, most: int | None, kept: Mapping[int, IntArray] = KEEP_NONE) -> MoveProgram:
        """Return what can be done with seen placements of the new job; ``kept`` as of :class:`MoveProgram`."""
        every = np.concatenate([np.empty(0, dtype=np.int32), *kept.values()])
        model = ShareModel(self.classes.sizes - np.bincount(every, minlength=len(self.classes.sizes)))
        new = model.add_job(self.classes.demands[0])
        cost = self.seen.offer(new, most=most, count=MOST_SHAPES)
        for i, (share, units) in enumerate(zip(self.shares, self._units, strict=True)):
            if i not in kept and share.moves_by:
                model.running.append(by_counts(model.cp, share, model.sizes))
            elif i not in kept:
                model.running.append(by_units(model.cp, share, model.sizes, share.pieces if units is None else units))
        return self._program(model, new, cost, most, kept)

    def _program(
        self, model: ShareModel, new: JobWays, cost: Variable, most: int | None, kept: Mapping[int, IntArray]
    ) -> MoveProgram:
        from scheduler.placement.cp_model import LinearExpr

        if most is not None:
            model.cp.add(cost <= most)
        model.share()
        target, by_jobs = self.limit.target, self.limit.by_jobs
        objective = model.cp.new_int_var(target, max(target, top(cost)), "")
        model.cp.add(objective >= cost)
        if by_jobs:
            prices = [part.share.price for part in model.running]
            price = LinearExpr.weighted_sum([part.any_moved for part in model.running], prices)
        else:
            price = LinearExpr.sum([part.moved for part in model.running])
        for i, places in kept.items():
            moved = int((places != self.shares[i].homes).sum())
            price += self.shares[i].price * bool(moved) if by_jobs else moved
        if self.limit.most is not None:
            model.cp.add(price <= self.limit.most)
        return MoveProgram(model, new, cost, self._scale * objective + price, kept)

    def _pack_some(self, end: float, few: int) -> None:
        """Lay the new job and a few running ones out again, the others where they are in the best plan."""
        if self.plan is None:
            return
        until, count = clock() + SOME_SHARE * (end - clock()), len(self.running)
        for _ in range(MOST_PACKS):
            if self.proved or clock() > until:
                return
            some = self._random.sample(range(count), min(count, few))
            kept = {i: self.classes.class_of[self.plan.running[i].ravel()] for i in range(count) if i not in some}
            self._pack(until, kept, effort=FEW_EFFORT)

    def _start(self, limits: Limits, end: float) -> None:
        """Find a bound from what leaves, wherever it goes; and a plan in which all that leaves is placed again.

        A plan that misses the target ranks behind all that reach it, so these alone are looked at.
        """
        program = self._of_bound(self.limit.target, leaving=True)
        answer, solver = self._least(program, end)
        self.bound = max(self.bound, (self.limit.target + 1, 0) if answer == "no" else self._ranked(solver))
        if answer != "yes" or self.proved:
            return
        leaving = {i for i, part in enumerate(program.model.running) if solver.value(part.moved)}
        wanted = np.isin(self.classes.class_of, list(taken(program.new, solver)))
        self._place_again(leaving, wanted, replace(limits, seconds=FIRST_SECONDS))

    def _place_again(self, leaving: Collection[int], wanted: BoolArray, limits: Limits) -> None:
        """Take in the plan in which the new job is placed, then each job that leaves, the largest first, on what is
        left; none where one of them finds no place.

        :param leaving: numbers of the running jobs that may move; all others stay.
        :param wanted: shape [nodes], nodes for the new job, whether a job that leaves is on them or not.
        """
        cluster, free = self.question.cluster, np.ones(len(self.question.cluster), dtype=np.bool_)
        for i, incumbent in enumerate(self.running):
            if i not in leaving:
                free[incumbent.nodes.ravel()] = False
        job = self.question.jobs[0]
        new = run_on_its_levels(self._solver, only(cluster, free & wanted), job, limits).proposal.nodes
        if new is None:
            return
        free[new.ravel()] = False
        after = [incumbent.nodes for incumbent in self.running]
        for i in sorted(leaving, key=lambda i: -self.running[i].nodes.size):
            if not free[after[i].ravel()].all():
                job = of_its_type(cluster, self.running[i].job, self.running[i].nodes)
                again = run_on_its_levels(self._solver, only(cluster, free), job, limits).proposal.nodes
                if again is None:
                    return
                after[i] = again
            free[after[i].ravel()] = False
        self.found(new, after)

    def _as_good(self, incumbent: RunningJob, after: IntArray) -> bool:
        """Return whether a running job is as well off after the moves as now."""
        if (incumbent.nodes == after).all():
            return True
        cluster, now = self.question.cluster, incumbent.worth(self.question.cluster, incumbent.nodes)
        then = incumbent.worth(cluster, after)
        if now is None or then is None or then.objective > now.objective + TOLERANCE:
            return False
        if incumbent.job.avoid != "ignore" and slowest_in_use(cluster, then) > slowest_in_use(cluster, now):
            return False
        return incumbent.job.speed_on(then.gpu_types) >= incumbent.job.speed_on(now.gpu_types)

    def _pack(self, end: float, kept: Mapping[int, IntArray] = KEEP_NONE, effort: float = EFFORT) -> None:
        """Lay known shapes out beside the running jobs, the best rank first.

        :param kept: running jobs that stay out of it, by number, and the class of each of their cells.
        """
        answer: Answer = "unknown"
        # a plan that misses the target ranks behind all that reach it: these first, as far fewer placements do
        most_useful = None if self.plan is None else self.plan.rank[0]
        for most in dict.fromkeys((self.limit.target, most_useful)):
            program = self._of_seen(most, kept)
            if self.plan is not None:
                program.model.cp.add(program.rank < self._scale * self.plan.rank[0] + self.plan.rank[1])
            answer, solver = self._least(program, end, effort)
            if answer == "yes":
                break
        if answer != "yes":
            return
        targets = program.targets(solver)
        classes = np.isin(self.classes.class_of, list(taken(program.new, solver)))
        nodes = self._new_placed(program, solver, self._granted(targets) & classes)
        assert nodes is not None
        self.found(nodes, self._settled(nodes, targets))

    def _new_placed(self, program: MoveProgram, solver: Solution, granted: BoolArray) -> IntArray | None:
        """Return the nodes of the new job as in a solution; ``None`` = the program does not say where its cells are."""
        way = program.new.chosen(solver)
        return placed_as_in(self.question.cluster, way, solver, classes=self.classes, granted=granted)

    def _round(self, program: MoveProgram, limits: Limits, end: float) -> bool:
        """Raise the bound, and search the share of the new job it is reached with; return whether there is more."""
        if self.plan is not None:
            # what is no better than the best plan is of no use: the fewer spreads are left, the sharper the bound
            program.model.cp.add(program.objective <= max(self.limit.target, self.plan.rank[0]))
        answer, solver = self._least(program, end)
        if answer == "no":
            self.impossible = self.plan is None
            return False
        self.bound = max(self.bound, self._ranked(solver))
        if answer != "yes" or self.proved:
            return False
        targets = program.targets(solver) if self._exact else []
        decided = bool(targets) or not self.shares  # else only the number of nodes of each running job is known
        used = sum((taken(part, solver) for part in program.model.running), Counter[int]())
        granted = self._granted(targets) if decided else self._split(self.classes.class_of >= 0, used)
        cluster, job, seen = self.question.cluster, self.question.jobs[0], len(self.seen)
        if decided and program.new.chosen(solver).cells is not None:
            nodes = self._new_placed(program, solver, granted)
            assert nodes is not None
            self.found(nodes, self._settled(nodes, targets))
            return len(self.seen) > seen
        seconds = max(LEAST_SECONDS, min(RUN_SECONDS, end - clock()))
        there = run(self._solver, only(cluster, granted), job, replace(limits, seconds=seconds))
        if there.proposal.nodes is None or there.evaluation is None or there.bound is None:
            return False
        self.seen.learn(there.proposal.nodes)
        if decided:
            self.found(there.proposal.nodes, self._settled(there.proposal.nodes, targets))
        bound = self.question.whole(self.question.priced(0, there.bound, job.speed_on(there.evaluation.gpu_types)))
        if bound > max(self.limit.target, int(solver.value(program.objective))):
            program.new.exclude(self.classes.count(granted), cost=program.objective, least=bound)
            return True
        return len(self.seen) > seen

    def _least(self, program: MoveProgram, end: float, effort: float = EFFORT) -> tuple[Answer, Solution]:
        """Search for the least rank, for at most half of the time that is left."""
        answer, solver = program.model.least(program.rank, Slice(effort, (end - clock()) / 2))
        self.out_of_time |= program.model.out_of_time
        return answer, solver

    def _ranked(self, solver: Solution) -> tuple[int, int]:
        """Return the bound of a program as a rank."""
        return divmod(ceil(solver.best_objective_bound - WHOLE), self._scale)

    def _granted(self, targets: Sequence[IntArray]) -> BoolArray:
        """Return nodes for the new job, without those that are kept for cells that move, shape [nodes]."""
        coming: Counter[int] = Counter()
        for share, target in zip(self.shares, targets, strict=True):
            coming.update(target[target != share.homes].tolist())
        return self._split(self._vacant(targets), coming)

    def _split(self, free: BoolArray, later: Mapping[int, int]) -> BoolArray:
        """Return nodes for the new job, without as many of each class as others need, the last in order."""
        return free & ~last_of_each(self.question.cluster, self.classes, free, later) & self.classes.admitted(0)

    def _settled(self, nodes: IntArray, targets: Sequence[IntArray]) -> list[IntArray]:
        """Return the nodes of the running jobs: cells that move take what the new job left, in order of ranks."""
        left = self._vacant(targets)
        left[nodes.ravel()] = False
        places = places_by_class(self.question.cluster, self.classes.class_of, left)
        after = []
        for incumbent, share, target in zip(self.running, self.shares, targets, strict=True):
            settled = incumbent.nodes.ravel().copy()
            moving = np.flatnonzero(target != share.homes)
            for cell in moving[np.argsort(incumbent.job.grid.node_rank.ravel()[moving])].tolist():
                settled[cell] = places[int(target[cell])].pop()
            after.append(settled.reshape(incumbent.nodes.shape))
        return after

    def _vacant(self, targets: Sequence[IntArray]) -> BoolArray:
        """Return shape [nodes], whether a node is in some class and no cell stays on it."""
        vacant: BoolArray = self.classes.class_of >= 0
        for incumbent, share, target in zip(self.running, self.shares, targets, strict=True):
            vacant[incumbent.nodes.ravel()[target == share.homes]] = False
        return vacant
