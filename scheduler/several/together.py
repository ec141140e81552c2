"""Several jobs placed at once: the least weighted sum of their objectives, proved or with its gap.

1. Each job alone on the cluster: the sum of these bounds is a bound for all together.
2. One job after the other, in the order given, in reverse, and in some that are drawn: no answer is worse than these.
3. A program in which each job satisfies what every placement does (a bound for the sum): its shares of nodes are laid
   out or searched by ``exact``, one job after the other; what is proved not to fit into a share is excluded.
4. *Shapes* of all placements seen so far, and even rectangles, laid out anew side by side by an integer program: of all
   jobs, then of a few at a time.
5. While time is left, more of 2, 3 and 4; last the nodes within each domain, for closer levels, and each job whose
   expert groups are apart on its own nodes and free ones.

Where not all fit, the fewest jobs are left out.  Every placement is weighed by the one evaluator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, factorial, inf
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ground.quantities import plural
from ground.records import JsonRecord
from scheduler.algorithm_run import judge, run
from scheduler.job import Job
from scheduler.job_on_cluster import named_beside
from scheduler.objective import TOLERANCE, Evaluation, evaluate, slowest_in_use, trivial_bound, worth_of
from scheduler.outcome import LATE, Outcome
from scheduler.placement.admission import admissible
from scheduler.placement.cpsat import Answer, Slice, load_solver
from scheduler.placement.node_classes import NodeClasses, classify
from scheduler.placement.share_parts import ways_by_cell
from scheduler.placement.share_program import ShareModel, taken
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal, Status
from scheduler.several.joint_question import (
    JointQuestion,
    SeenPlacements,
    bound_at,
    bounded_cost,
    disjoint_grants,
    last_of_each,
    least_alone,
    only,
    placed_as_in,
    run_on_its_levels,
    seated_again,
    slowest_allowed,
)
from scheduler.subproblems import speed_of
from scheduler.work_clock import LEAST_SECONDS, clock, on_clock, stopwatch
from topology.cluster import BoolArray, Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement.share_parts import JobWays
    from scheduler.placement.share_program import Solution, Variable

# -- turns --
# One job after the other: what schedulers do that see one job at a time, and where a joint search starts.


ANY_ORDER = 0.6  # Of the drawn orders that are any; the others are close to the best one


class OrderDraw:
    """Orders of some jobs, by number, none twice and neither that given nor its reverse."""

    def __init__(self, count: int, seed: int) -> None:
        own = tuple(range(count))
        self._own, self._random, self._known = own, Random(seed), {own, own[::-1]}
        self._best: tuple[float, tuple[int, ...]] = inf, own

    @property
    def over(self) -> bool:
        """Whether all orders were drawn."""
        return len(self._known) >= factorial(len(self._own))

    def draw(self) -> tuple[int, ...]:
        """Return a new order: any, or the best one with two jobs exchanged."""
        order = self._own
        while order in self._known:
            if self._best[0] == inf or self._random.random() < ANY_ORDER:
                order = tuple(self._random.sample(self._own, len(self._own)))
            else:
                exchanged = list(self._best[1])
                a, b = self._random.sample(self._own, 2)
                exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
                order = tuple(exchanged)
        self._known.add(order)
        return order

    def weigh(self, order: tuple[int, ...], objective: float) -> None:
        """Take in the sum that an order came to."""
        self._best = min(self._best, (objective, order))


@dataclass(frozen=True, slots=True)
class TurnResult(JsonRecord):
    """What the jobs get when each is placed on what those before it left."""

    order: tuple[str, ...]
    """Names of the jobs, first to last."""
    objective: float | None
    """The weighted sum; null = some job finds no place."""
    stuck: str | None
    """The first job that finds no place; null = all do."""


def in_turn(
    question: JointQuestion,
    order: Sequence[int],
    solver: PlacementAlgorithm,
    *,
    alone: Mapping[int, Outcome],
    limits: Limits,
) -> tuple[TurnResult, list[IntArray]]:
    """Place the jobs of an order one after the other; of several jobs it may have a part.

    :param alone: what each job gets when it has the cluster for itself, for the first of the order.
    :returns: the result, and the nodes of each job in order of numbers, shape [rows, columns]; none when one is stuck.
    """
    names = tuple(question.jobs[j].name for j in order)
    cluster, placed, end = question.cluster, {}, clock() + limits.seconds
    for at, j in enumerate(order):
        seconds = max(LEAST_SECONDS, (end - clock()) / (len(order) - at))
        one = run_on_its_levels(solver, cluster, question.jobs[j], replace(limits, seconds=seconds)) if at else alone[j]
        if one.evaluation is None or one.proposal.nodes is None:
            return TurnResult(names, None, question.jobs[j].name), []
        placed[j] = one.proposal.nodes
        cluster = cluster.with_busy(placed[j].ravel().tolist())
    nodes = dict(sorted(placed.items()))
    return TurnResult(names, sum(question.cost(j, node) for j, node in nodes.items()), None), list(nodes.values())


# -- leave_out --
# Which jobs have to be left out where not all fit: the fewest.


EFFORT = 5.0  # Of the search, in CP-SAT's deterministic time; whole numbers of nodes are shared out, which is quick


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Which jobs have to be left out."""

    jobs: tuple[int, ...]  # numbers; empty = all fit, as far as is counted
    counted: bool  # whether the others fit then; else there may be more of them


def fewest_left_out(
    classes: NodeClasses, weights: Sequence[float], *, misfits: Collection[int] = (), seconds: float
) -> LeftOut | None:
    """Return the smallest set of jobs without which the others fit, of equal ones that of least weight.

    Whether jobs fit is a matter of counting: whole blocks in every domain, each node once.  With hard constraints at
    second hierarchies each cell is decided; where these are too many, counting alone shows what does not fit.

    :param misfits: numbers of jobs that do not fit even alone.
    :returns: ``None`` = not settled in time.
    """
    model = ShareModel(classes.sizes)
    parts = [model.add_job(demands, optional=True) for demands in classes.demands]
    model.share()
    for j in misfits:
        model.cp.add(parts[j].present == 0)
    by_cell, counted = ways_by_cell(classes.demands), True
    for j, part in enumerate(parts):
        for w, way in enumerate(part.ways):
            if way.demand.beside and (j, w) in by_cell:
                way.add_cells()
            elif way.demand.beside:
                counted = False
    # one job fewer outweighs any sum of ranks
    ranks = {weight: rank for rank, weight in enumerate(sorted(set(weights)))}
    many = len(weights) * len(weights) + 1
    out = sum((many + ranks[weight]) * (1 - part.present) for part, weight in zip(parts, weights, strict=True))
    found, solver = model.least(out, Slice(EFFORT, seconds))
    if found != "yes" or solver.best_objective_bound < solver.objective_value - 0.5:
        return None
    return LeftOut(tuple(j for j, part in enumerate(parts) if not solver.boolean_value(part.present)), counted)


# -- joint_search --
# The search of :mod:`scheduler.several.together`: shapes laid out side by side, and rounds that raise the bound.


MOST_SHAPES = 12  # Of one job in one program, the cheapest: dearer ones hardly ever win and cost time
MOST_ORDERS = 12  # Drawn in a row, one after the other: a tenth of a second each
ORDERS_SHARE = 0.2  # Most of the time that is left, for orders in a row
MOST_TOGETHER = 3  # Jobs that are laid out again at a time: as few are decided in tenths of a second
MOST_PACKS = 16  # Such choices of jobs in a row, of each number
SOME_EFFORT = 0.3  # Of each
SOME_SHARE = 0.3  # Most of the time that is left, for all in a row
PACK_EFFORT = 1.5  # Of laying shapes out, in CP-SAT's deterministic time, about seconds
BOUND_EFFORT = 3.0  # Of one round of the bound
BOUND_SHARE = 0.45  # Most of the time that is left, for each search of it
WHOLE = 1e-6  # A bound in floating point that is this close above a whole number is that number
RUN_SECONDS = 1.0  # Of searching the share of one job in a round


@dataclass
class _Rounds:
    """The program of the bound, and the cost of each job in it."""

    model: ShareModel
    costs: list[Variable]
    excluded: int = 0  # shares that were proved to be dearer than the program thought


class JointSearch:
    """What is known so far of one question; only gets better."""

    def __init__(
        self, question: JointQuestion, classes: NodeClasses, alone: Sequence[Outcome], solver: PlacementAlgorithm
    ) -> None:
        self.question, self.classes, self._solver = question, classes, solver
        self.nodes: list[IntArray] = []  # of each job in the best placement known; empty = none is known
        self.cost = inf  # of that placement
        # of each job alone, in the sum: no placement of all has a smaller one
        self.least = [self._bound_alone(j, one) for j, one in enumerate(alone)]
        self.bound = sum(self.least)
        self.out_of_time = False  # whether it ended without a proof, and more time could have found more
        self._limits, self._end, self._random = Limits(), inf, Random()
        self._alone, self._orders = alone, OrderDraw(len(alone), 0)
        self._order_seconds = 0.0  # that the last one took
        self._by_cell = ways_by_cell(classes.demands)
        self._seen = [SeenPlacements(question, j, classes, self._by_cell) for j in range(len(alone))]
        for seen, one in zip(self._seen, alone, strict=True):
            if one.proposal.nodes is not None:
                seen.learn(one.proposal.nodes)

    @property
    def proved(self) -> bool:
        """Whether no placement has a smaller sum."""
        return self.bound >= self.cost - TOLERANCE

    def found(self, nodes: Sequence[IntArray]) -> None:
        """Take in a placement of all jobs, no node twice, each weighed by the evaluator."""
        flat = np.concatenate([node.ravel() for node in nodes])
        cost = sum(self.question.cost(j, node) for j, node in enumerate(nodes))
        if cost == inf or len(np.unique(flat)) < len(flat):
            return
        for seen, node in zip(self._seen, nodes, strict=True):
            seen.learn(node)
        if cost < self.cost - TOLERANCE:
            self.nodes, self.cost = list(nodes), cost

    def run(self, limits: Limits, end: float) -> None:
        """Search until the sum is proved, nothing is left to try, or the clock reads ``end``."""
        self._limits, self._end, self._random = limits, end, Random(limits.seed)
        self._search()
        self.out_of_time = not self.proved and (self.out_of_time or clock() >= end)

    def _search(self) -> None:
        self._orders = OrderDraw(len(self._alone), self._limits.seed)
        known, rounds, more, everyone, bounded = -1, None, True, range(len(self.question.jobs)), inf
        self._prove_alone()
        if not self.nodes:
            self._pack(everyone, PACK_EFFORT)
        self._more_orders()
        while not self.proved and clock() < self._end:
            rounds = rounds or self._open_rounds()
            # the less the best sum, the sooner nothing is left below it
            if more or self.cost < bounded:
                bounded, more = self.cost, self._round(rounds)
            if self.proved or clock() > self._end:
                return
            orders = self._more_orders()
            if (count := sum(map(len, self._seen))) > known and not self.proved:
                known = count
                self._limits.say("laying shapes out")
                self._pack(everyone, PACK_EFFORT)
                self._pack_some()
            if not orders and not more and self.cost >= bounded:
                return

    def _more_orders(self) -> bool:
        """Place the jobs one after the other in some new orders; return whether there was any."""
        until = clock() + ORDERS_SHARE * (self._end - clock())
        for number in range(MOST_ORDERS):
            if self.proved or (number and clock() > until) or not self._another_order():
                return number > 0
        return True

    def _pack_some(self) -> None:
        """Lay shapes of a few jobs out again, the others left where they are: all pairs, then more at a time."""
        count, until = len(self.question.jobs), clock() + SOME_SHARE * (self._end - clock())
        for few in range(2, min(MOST_TOGETHER, count - 1) + 1):
            several = list(combinations(range(count), few))
            for some in self._random.sample(several, min(MOST_PACKS, len(several))):
                if self.proved or clock() > until or not self.nodes:
                    return
                self._pack(some, SOME_EFFORT)

    def _prove_alone(self) -> None:
        """Search the jobs again whose bound alone is not proved: what is open there is open in the sum."""
        unproved = [j for j, one in enumerate(self._alone) if one.status != "optimal"]
        for number, j in enumerate(unproved):
            seconds = (self._end - clock()) / (2 * (len(unproved) - number))
            if self.proved or seconds < LEAST_SECONDS:
                self.out_of_time = True
                return
            # each on the nodes that it may have, as before
            cluster = only(self.question.cluster, self.classes.admitted(j))
            one = self._run(j, cluster, seconds)
            self.out_of_time |= one.stopped_at is not None
            if one.proposal.nodes is not None:
                self.least[j] = max(self.least[j], self._bound_alone(j, one))
                self._seen[j].learn(one.proposal.nodes)
        self.bound = max(self.bound, sum(self.least))

    def _run(self, j: int, cluster: Cluster, seconds: float) -> Outcome:
        return run_on_its_levels(self._solver, cluster, self.question.jobs[j], replace(self._limits, seconds=seconds))

    def _another_order(self) -> bool:
        """Place the jobs one after the other in a new order; return whether there was one, and time for it."""
        started = clock()
        late = self._end - started < self._order_seconds
        self.out_of_time |= late and not self._orders.over
        if late or self._orders.over:
            return False
        self._limits.say("another order")
        order = self._orders.draw()
        limits = replace(self._limits, seconds=max(LEAST_SECONDS, self._end - started))
        result, nodes = in_turn(self.question, order, self._solver, alone=dict(enumerate(self._alone)), limits=limits)
        self._order_seconds = clock() - started
        if result.objective is not None:
            self._orders.weigh(order, result.objective)
            self.found(nodes)
        return True

    def _bound_alone(self, j: int, alone: Outcome) -> float:
        if (least := least_alone(self.question, j, alone)) is not None:
            return least
        fastest = max(demand.fastest for demand in self.classes.demands[j])
        return self.question.priced(j, trivial_bound(self.question.jobs[j]), fastest)

    def _pack(self, moving: Sequence[int], effort: float) -> None:
        """Lay shapes of some jobs out, the least sum, and seat what is better than the best placement known.

        :param moving: numbers of the jobs; all others stay where they are. Of all, where no placement is known.
        """
        question, free = self.question, self.classes.class_of >= 0
        for nodes in (nodes for j, nodes in enumerate(self.nodes) if j not in moving):
            free[nodes.ravel()] = False
        model, costs = ShareModel(self.classes.count(free)), []
        for j in moving:
            part = model.add_job(self.classes.demands[j])
            costs.append(self._seen[j].offer(part, most=self._most(j), count=MOST_SHAPES))
        model.share()
        if self.nodes:
            model.cp.add(sum(costs) < question.whole(sum(question.cost(j, self.nodes[j]) for j in moving)))
        found, solver = model.least(sum(costs), Slice(effort, self._end - clock(), light=True))
        if found != "yes":
            return
        shares = [taken(part, solver) for part in model.parts]
        grants = disjoint_grants(question.cluster, self.classes, shares, free=free)
        after = list(self.nodes) or [np.empty(0, dtype=np.int32)] * len(moving)
        for j, part, granted in zip(moving, model.parts, grants, strict=True):
            placed = placed_as_in(question.cluster, part.chosen(solver), solver, classes=self.classes, granted=granted)
            assert placed is not None
            after[j] = placed
        self.found(after)

    def _most(self, j: int) -> int | None:
        """Return what a job costs at most where the sum is less than that of the best placement known."""
        return None if self.cost == inf else self.question.whole(self.cost - sum(self.least) + self.least[j])

    def _open_rounds(self) -> _Rounds:
        """Return the program of the bound."""
        question, model, costs = self.question, ShareModel(self.classes.sizes), []
        for j, demands in enumerate(self.classes.demands):
            part, least = model.add_job(demands), question.whole(self.least[j])
            costs.append(bounded_cost(question, j, part, least=least, most=self._most(j), by_cell=self._by_cell))
        model.share()
        return _Rounds(model, costs)

    def _round(self, rounds: _Rounds) -> bool:
        """Raise the bound and search the shares that it is reached with; return whether there is more to try."""
        self._limits.say("raising the bound")
        if self.cost < inf:
            # no other placement is of use
            rounds.model.cp.add(sum(rounds.costs) < self.question.whole(self.cost))
        found, solver = self._bounded(rounds)
        if found != "yes" or self.proved or clock() > self._end:
            return False
        before, known, cost = rounds.excluded, sum(map(len, self._seen)), self.cost
        self._search_shares(rounds, solver)
        return rounds.excluded > before or sum(map(len, self._seen)) > known or self.cost < cost

    def _bounded(self, rounds: _Rounds) -> tuple[Answer, Solution]:
        """Raise the bound by the program; return what it found.

        With little presolve most is decided in tenths of a second.  That there is nothing better a second search has to
        say too, as false answers of one alone have been reported.
        """
        cost, wall = sum(rounds.costs), BOUND_SHARE * (self._end - clock())
        found, solver = rounds.model.least(cost, Slice(BOUND_EFFORT, wall, light=True, bounding=True))
        if found != "yes":
            doubted = found == "no"
            if not doubted:
                self._raise(solver.best_objective_bound)
            wall, linear = BOUND_SHARE * (self._end - clock()), 2 if doubted else 1
            again = Slice(BOUND_EFFORT, wall, seed=1, linearization=linear, light=doubted, bounding=True)
            found, solver = rounds.model.least(cost, again)
        self.out_of_time |= rounds.model.out_of_time
        if found != "no":
            self._raise(solver.best_objective_bound)
        elif self.cost < inf:
            self._raise(self.question.whole(self.cost))
        return found, solver

    def _raise(self, least: float) -> None:
        """Take in a bound of the program; costs are whole numbers, so is their sum."""
        self.bound = max(self.bound, min(self.cost, ceil(least - WHOLE) / self.question.scale))

    def _search_shares(self, rounds: _Rounds, solver: Solution) -> None:
        """Search the share of each job, with all that is left besides; exclude what is proved not to be there."""
        question, cluster, parts = self.question, self.question.cluster, rounds.model.parts
        shares = [taken(part, solver) for part in parts]
        free: BoolArray = self.classes.class_of >= 0
        nodes: list[IntArray] = []
        for j, job in enumerate(question.jobs):
            if clock() > self._end:
                return
            later = last_of_each(cluster, self.classes, free, sum(shares[j + 1 :], Counter()))
            granted = free & self.classes.admitted(j) & ~later
            cost = int(solver.value(rounds.costs[j]))
            placed = self._as_in(solver, parts[j], j, granted, cost)
            if placed is None:
                seconds = max(LEAST_SECONDS, min(RUN_SECONDS, (self._end - clock()) / (len(shares) - j)))
                one = self._run(j, only(cluster, granted), seconds)
                if one.evaluation is None or one.proposal.nodes is None or one.bound is None:
                    return
                placed = one.proposal.nodes
                least = question.whole(question.priced(j, one.bound, job.speed_on(one.evaluation.gpu_types)))
                if least > cost:
                    parts[j].exclude(self.classes.count(granted), cost=rounds.costs[j], least=least)
                    rounds.excluded += 1
            self._seen[j].learn(placed)
            nodes.append(placed)
            free = free.copy()
            free[placed.ravel()] = False
        self.found(nodes)

    def _as_in(self, solver: Solution, part: JobWays, j: int, granted: BoolArray, cost: int) -> IntArray | None:
        """Return a placement of a job as it is in a solution, with that cost; ``None`` = it has to be searched."""
        way, question = part.chosen(solver), self.question
        nodes = placed_as_in(question.cluster, way, solver, classes=self.classes, granted=granted)
        if nodes is None or (reached := question.cost(j, nodes)) == inf:
            return None
        return nodes if question.whole(reached) <= cost else None


# -- together --
# Several jobs placed at once: the least weighted sum of their objectives, proved or with its gap.
#
# 1. Each job alone on the cluster: the sum of these bounds is a bound for all together.
# 2. One job after the other, in the order given, in reverse, and in some that are drawn: no answer is worse than these.
# 3. A program in which each job satisfies what every placement does (a bound for the sum): its shares of nodes are laid
#    out or searched by ``exact``, one job after the other; what is proved not to fit into a share is excluded.
# 4. *Shapes* of all placements seen so far, and even rectangles, laid out anew side by side by an integer program: of
# all
#    jobs, then of a few at a time.
# 5. While time is left, more of 2, 3 and 4; last the nodes within each domain, for closer levels, and each job whose
#    expert groups are apart on its own nodes and free ones.
#
# Every placement is weighed by the one evaluator.


ALONE_SHARE = 0.3  # Of the time, for the jobs each alone: their bounds and first shapes are what all else stands on
TURNS_SHARE = 0.3  # Of the time, for both orders together
LAST_SHARE = 0.1  # For nodes within domains, when all else is done
COUNT_SECONDS = 2.0  # To find out which jobs fit together, where the time limit is longer


@dataclass(frozen=True, slots=True)
class JointOutcome:
    """Where several jobs go."""

    status: Status
    outcomes: tuple[Outcome, ...] = ()  # of each job, its bound that of the job alone; empty without a placement
    objective: float | None = None  # sum of weight * objective / speed
    bound: float | None = None  # no placement of all jobs has a smaller sum, slow nodes and all
    left_out: tuple[int, ...] = ()  # where not all fit: the fewest jobs without which the others do, by number
    turns: tuple[TurnResult, ...] = ()  # one after the other: in the order given, and in reverse
    reason: str = ""  # why there is no placement
    notes: tuple[str, ...] = ()
    solve_seconds: float = 0.0
    stopped_at: float | None = None  # seconds of the time limit that ended the search; None = it ended by itself

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective, 0 when it is the least of all; ``None`` without a placement."""
        if self.objective is None or self.bound is None:
            return None
        return max(0.0, (self.objective - self.bound) / self.objective)


def place_together(
    cluster: Cluster, jobs: Sequence[Job], weights: Sequence[float], *, solver: PlacementAlgorithm, limits: Limits
) -> JointOutcome:
    """Place several jobs at once, at least one.

    :param weights: of the jobs' objectives, above 0.
    :param solver: places one job; its bounds are believed only as far as the evaluator goes.
    :raises InvalidJob: a job cannot be cut into nodes; UnknownName: one names a level that the cluster does not have.
    """
    load_solver()
    started = stopwatch()
    question = JointQuestion(cluster, tuple(jobs), tuple(weights))
    with on_clock(limits.clock, limits.seconds) as timer:
        found = _as_priced(question, solver, limits)
    if timer.late and found.status != "infeasible":
        found = replace(found, stopped_at=limits.seconds, notes=(*found.notes, LATE))
    return replace(found, solve_seconds=stopwatch() - started)


def _as_priced(question: JointQuestion, solver: PlacementAlgorithm, limits: Limits) -> JointOutcome:
    """Answer with the slow nodes that each job would use alone; with any, where the jobs fit in no other way."""
    found = _answer(question, solver, limits, notes=())
    if found.status == "infeasible" and any(job.avoid == "price" for job in question.jobs):
        # alone each job may do without slow nodes; together they may need them
        any_node = tuple(job.replace(avoid="ignore") if job.avoid == "price" else job for job in question.jobs)
        again = _answer(replace(question, jobs=any_node), solver, limits, notes=(SLOW_NEEDED,))
        return again if again.status == "infeasible" else _as_asked(question, again)
    return found


SLOW_LEFT_OUT = (
    "Slow nodes have a price: the status is about nodes no slower than each job takes alone, and the bound is of all "
    "nodes."
)
SLOW_NEEDED = "Not all jobs fit on the nodes that each would use alone, so slow nodes are used whatever their price."


def _answer(
    question: JointQuestion, solver: PlacementAlgorithm, limits: Limits, *, notes: tuple[str, ...]
) -> JointOutcome:
    end = clock() + (1.0 - LAST_SHARE) * limits.seconds
    alone = _each_alone(question, solver, replace(limits, seconds=ALONE_SHARE * limits.seconds))
    slowest = [slowest_allowed(question.cluster, job, [one]) for job, one in zip(question.jobs, alone, strict=True)]
    classes = classify(question.cluster, question.jobs, slowest)
    misfits = [j for j, one in enumerate(alone) if one.status == "infeasible"]
    seconds = min(COUNT_SECONDS, limits.seconds)
    left_out = fewest_left_out(classes, question.weights, misfits=misfits, seconds=seconds)
    if left_out is not None and left_out.jobs:
        return _infeasible(question, classes, left_out, alone, solver=solver, limits=limits)
    unplaced = [job for job, one in zip(question.jobs, alone, strict=True) if one.evaluation is None]
    # what is not found alone may be found where each cell is decided
    if any(named_beside(question.cluster, job) is None for job in unplaced):
        reason = f"time ran out before {unplaced[0].name!r} was placed"
        return JointOutcome("timeout", reason=reason, notes=notes, stopped_at=limits.seconds)
    turns, start = _both_orders(question, solver, alone, replace(limits, seconds=TURNS_SHARE * limits.seconds))
    search = JointSearch(question, classes, alone, solver)
    if start:
        search.found(start)
    search.run(limits, end)
    stopped_at = limits.seconds if search.out_of_time else None
    if not search.nodes:
        reason = "time ran out before all jobs were placed"
        if any(named_beside(question.cluster, job) is not None for job in question.jobs):
            reason = (
                "no placement of all jobs was found that keeps their constraints beside the tree, and none is ruled out"
            )
        return JointOutcome("timeout", turns=turns, reason=reason, notes=notes, stopped_at=stopped_at)
    limits.say("closer levels")
    jobs = [question.sized(j, nodes) for j, nodes in enumerate(search.nodes)]
    seated = seated_again(question.cluster, jobs, nodes=search.nodes, classes=classes)
    seated = _experts_together(question, jobs, seated, classes=classes, solver=solver, limits=limits)
    judged = (_judged(question, j, nodes, alone[j]) for j, nodes in enumerate(seated))
    outcomes = tuple(one.after(stopped_at) for one in judged)
    bound = search.bound if search.bound < search.cost - TOLERANCE else search.cost
    status: Status = "optimal" if bound == search.cost else "feasible"
    if any(_hides_slow(question, j, most) for j, most in enumerate(slowest)):
        # what was searched are nodes as slow as each job has alone; on others no job does better than its own bound
        bound = min(bound, sum(_least_anywhere(question, j, one) for j, one in enumerate(alone)))
        if bound < search.cost - TOLERANCE:
            notes = (*notes, SLOW_LEFT_OUT)
    return JointOutcome(status, outcomes, search.cost, bound, turns=turns, notes=notes, stopped_at=stopped_at)


def _hides_slow(question: JointQuestion, j: int, slowest: float) -> bool:
    """Return whether nodes that a job may have are slower than those that it was searched on."""
    usable = admissible(question.cluster, question.jobs[j])
    return bool((question.cluster.slowdown[usable] > slowest).any())


def _least_anywhere(question: JointQuestion, j: int, alone: Outcome) -> float:
    """Return what no placement of one job adds less than to the sum, on whatever nodes it may have."""
    job = question.jobs[j]
    if alone.bound is None or alone.evaluation is None:
        return question.priced(j, trivial_bound(job), max([1.0, *(one.factor for one in job.speed)]))
    return question.priced(j, alone.bound, job.speed_on(alone.evaluation.gpu_types))


def _each_alone(question: JointQuestion, solver: PlacementAlgorithm, limits: Limits) -> list[Outcome]:
    end, outcomes = clock() + limits.seconds, []
    for number, job in enumerate(question.jobs):
        limits.say(f"{job.name} alone")
        # one that takes long must not leave the others without time: a job without a proof leaves the sum without one
        seconds = max(limits.seconds / (2 * len(question.jobs)), (end - clock()) / (len(question.jobs) - number))
        outcomes.append(run_on_its_levels(solver, question.cluster, job, replace(limits, seconds=seconds)))
    return outcomes


def _infeasible(
    question: JointQuestion,
    classes: NodeClasses,
    left_out: LeftOut,
    alone: Sequence[Outcome],
    *,
    solver: PlacementAlgorithm,
    limits: Limits,
) -> JointOutcome:
    """Return that not all jobs fit; and which to leave out, where it is sure that the others fit then."""
    known = left_out.counted or _rest_fits(question, left_out, alone, solver, limits)
    reason = _does_not_fit(question, classes, left_out.jobs, alone, known=known)
    return JointOutcome("infeasible", left_out=left_out.jobs if known else (), reason=reason)


def _rest_fits(
    question: JointQuestion,
    left_out: LeftOut,
    alone: Sequence[Outcome],
    solver: PlacementAlgorithm,
    limits: Limits,
) -> bool:
    """Return whether the other jobs find a place one after the other, in the order given or in reverse."""
    rest = [j for j in range(len(question.jobs)) if j not in left_out.jobs]
    known, limits = dict(enumerate(alone)), replace(limits, seconds=TURNS_SHARE * limits.seconds)
    orders = (rest, rest[::-1]) if rest else ()
    return not rest or any(in_turn(question, order, solver, alone=known, limits=limits)[1] for order in orders)


def _does_not_fit(
    question: JointQuestion, classes: NodeClasses, left_out: Sequence[int], alone: Sequence[Outcome], *, known: bool
) -> str:
    needed, usable = sum(job.grid.cells for job in question.jobs), int(classes.sizes.sum())
    said = next((alone[j].reason for j in left_out if alone[j].status == "infeasible"), "")
    if not said and needed > usable and not any(job.node_sizes for job in question.jobs):
        said = f"they need {needed} nodes together, and may use {usable}"
    elif not said:
        said = "there is no way to share the nodes out so that all keep their hard constraints, each on one type of GPU"
    names = ", ".join(question.jobs[j].name for j in left_out)
    others = f"without {names} the others do" if known else f"at least {plural(len(left_out), 'job')} must be left out"
    return f"not all jobs fit at once; {others}: {said}"


def _both_orders(
    question: JointQuestion, solver: PlacementAlgorithm, alone: Sequence[Outcome], limits: Limits
) -> tuple[tuple[TurnResult, ...], list[IntArray]]:
    """Return the results of both orders, and the nodes of each job in the better one; none if both get stuck."""
    order = range(len(question.jobs))
    limits = replace(limits, seconds=limits.seconds / 2)
    first: Mapping[int, Outcome] = dict(enumerate(alone))
    limits.say("one after the other")
    results = [in_turn(question, one, solver, alone=first, limits=limits) for one in (order, order[::-1])[: len(order)]]
    best, nodes = min(results, key=lambda one: inf if one[0].objective is None else one[0].objective)
    return tuple(result for result, _ in results), nodes if best.objective is not None else []


def _experts_together(
    question: JointQuestion,
    jobs: Sequence[Job],
    nodes: Sequence[IntArray],
    *,
    classes: NodeClasses,
    solver: PlacementAlgorithm,
    limits: Limits,
) -> list[IntArray]:
    """Return placements in which expert groups touch fewer domains, each job placed again on its nodes and free ones.

    Nothing else gets worse: it is the first thing that decides between equal objectives.
    """
    cluster, after = question.cluster, list(nodes)
    spread = [j for j, job in enumerate(jobs) if (evaluate(cluster, job, nodes[j]).experts or 1) > 1]
    for j in spread:
        now = evaluate(cluster, jobs[j], after[j])
        granted = classes.admitted(j) & (cluster.slowdown <= slowest_in_use(cluster, now))
        granted[after[j].ravel()] = True
        for other, placed in enumerate(after):
            if other != j:
                granted[placed.ravel()] = False
        part = replace(limits, seconds=max(LEAST_SECONDS, LAST_SHARE * limits.seconds / len(spread)), told="placement")
        found = run(solver, only(cluster, granted), jobs[j], part).proposal.nodes
        then = None if found is None else worth_of(cluster, jobs[j], found)
        if found is not None and then is not None and _as_good(jobs[j], then, now):
            after[j] = found
    return after


def _as_good(job: Job, then: Evaluation, now: Evaluation) -> bool:
    """Return whether a placement is better by its expert groups, and as good by what comes before these."""
    fewer = (then.experts or 1) < (now.experts or 1)
    same_speed = job.speed_on(then.gpu_types) >= job.speed_on(now.gpu_types)
    return fewer and same_speed and then.objective <= now.objective + TOLERANCE


def _judged(question: JointQuestion, j: int, nodes: IntArray, alone: Outcome) -> Outcome:
    """Return the outcome of one job: its placement beside the others, its bound that of the job alone."""
    cluster, job = question.cluster, question.sized(j, nodes)
    bound = bound_at(speed_of(cluster, job, nodes), job, alone)
    kept = alone.proposal
    proposal = Proposal(
        nodes,
        bound,
        # of types of GPU that were not chosen the step is not known
        None if alone.by_type else alone.step_time_bound,
        complete=kept.complete,
        pareto=kept.pareto,
        solve_seconds=kept.solve_seconds,
    )
    judged = judge(alone.algorithm, cluster, job, proposal)
    return replace(judged, gpus_per_node=job.gpus_per_node) if question.jobs[j].node_sizes else judged


def _as_asked(question: JointQuestion, found: JointOutcome) -> JointOutcome:
    """Return the outcome with the jobs as they were asked for; what is claimed of all nodes stays true."""
    outcomes = []
    for j, outcome in enumerate(found.outcomes):
        assert outcome.proposal.nodes is not None
        judged = judge(outcome.algorithm, question.cluster, question.sized(j, outcome.proposal.nodes), outcome.proposal)
        outcomes.append(replace(judged, gpus_per_node=outcome.gpus_per_node).after(found.stopped_at))
    return replace(found, outcomes=tuple(outcomes))
