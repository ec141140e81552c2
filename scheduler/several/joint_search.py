"""The search of :mod:`scheduler.several.together`: shapes laid out side by side, and rounds that raise the bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, inf
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from scheduler.objective import TOLERANCE, trivial_bound
from scheduler.outcome import Outcome
from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.sharing.cell_choice import ways_by_cell
from scheduler.placement.sharing.node_classes import NodeClasses
from scheduler.placement.sharing.share_model import ShareModel, taken
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.several.joint_question import JointQuestion, least_alone, only, run_on_its_levels
from scheduler.several.lay_out import disjoint_grants, last_of_each, placed_as_in
from scheduler.several.seen_placements import SeenPlacements, bounded_cost
from scheduler.several.turns import OrderDraw, in_turn
from scheduler.work_clock import LEAST_SECONDS, clock
from topology.cluster import BoolArray, Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement.sharing.job_ways import JobWays
    from scheduler.placement.sharing.share_model import Solution, Variable

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
        flat = np.concatenate([one.ravel() for one in nodes])
        cost = sum(self.question.cost(j, one) for j, one in enumerate(nodes))
        if cost == inf or len(np.unique(flat)) < len(flat):
            return
        for seen, one in zip(self._seen, nodes, strict=True):
            seen.learn(one)
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
