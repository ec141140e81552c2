"""The search of :mod:`scheduler.several.defragmentation`: two programs that share nodes out to new and running jobs.

One has shapes of the new job that are known, so what it finds can be done; the other has what every placement
satisfies, so what it needs is a bound.  Both make the objective of the new job least, down to its target, then the
cost of the moves.  Where the second finds a share in which the new job has a placement as good, both agree: proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from scheduler.objective import TOLERANCE, objective_of, slowest_in_use, worth_of
from scheduler.outcome import run, trivial_bound
from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.sharing.job_shapes import PlacementShape, even_rectangles, pairs_up_to, shape_placed
from scheduler.placement.sharing.node_classes import NodeClasses
from scheduler.placement.sharing.running_part import LeavingPart, RunningShare, exact_units
from scheduler.placement.sharing.share_model import ShareModel, taken, total
from scheduler.placement.sharing.share_part import top
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.several.joint_question import JointQuestion, only
from scheduler.several.joint_search import WHOLE
from scheduler.several.lay_out import last_of_each, orderly, seat_on
from scheduler.several.move_plan import MoveLimits, MovePlan, MoveProgram
from scheduler.several.place_again import placed_again
from scheduler.several.running_jobs import RunningJob
from scheduler.trunks import LEAST_SECONDS
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from scheduler.placement.sharing.share_model import Solution, Variable

MOST_SHAPES = 24  # Of the new job in one program, the cheapest
EFFORT = 6.0  # Of one search, in CP-SAT's deterministic time, about seconds
RUN_SECONDS = 2.0  # Of searching one share of the new job


class MoveSearch:
    """What is known so far of one question; only gets better."""

    def __init__(
        self,
        question: JointQuestion,
        running: Sequence[RunningJob],
        *,
        classes: NodeClasses,
        shares: Sequence[RunningShare],
        asked: MoveLimits,
        solver: PlacementAlgorithm,
    ) -> None:
        self.question, self.running, self.classes, self.shares = question, running, classes, shares
        self.asked, self._solver = asked, solver
        self.plan: MovePlan | None = None
        self.impossible = False  # whether it is proved that there is no plan at all
        self.bound: tuple[int, int] = (asked.target, 0)  # no plan has a smaller rank
        self._most = sum(share.price if asked.by_jobs else len(share.homes) for share in shares) + 1
        self._shapes: dict[tuple[object, ...], PlacementShape] = {}
        self._units = exact_units(shares)

    @property
    def proved(self) -> bool:
        """Whether no plan has a smaller rank, or there is none."""
        return self.impossible or (self.plan is not None and self.bound >= self.plan.rank)

    def learn(self, nodes: IntArray) -> None:
        """Keep the shape of a placement of the new job, on any nodes of the cluster."""
        cluster, job = self.question.cluster, self.question.jobs[0]
        if (worth := worth_of(cluster.emptied(), job, nodes)) is not None:
            shape = shape_placed(cluster, job, worth, nodes, movable=self.classes.demands[0].movable)
            self._shapes.setdefault(shape.key, shape)

    def found(self, nodes: IntArray, running: Sequence[IntArray]) -> None:
        """Take in a plan if it keeps all rules, and no running job gets worse; the evaluator weighs each."""
        every = np.concatenate([nodes.ravel(), *(one.ravel() for one in running)])
        cost = self.question.cost(0, nodes)
        if not np.isfinite(cost) or len(np.unique(every)) < len(every):
            return
        if any(not self._as_good(one, after) for one, after in zip(self.running, running, strict=True)):
            return
        self.learn(nodes)
        moved = [int((one.nodes != after).sum()) for one, after in zip(self.running, running, strict=True)]
        price = sum(
            one.lost_seconds if self.asked.by_jobs and n else n for one, n in zip(self.running, moved, strict=True)
        )
        if self.asked.most is not None and price > self.asked.most:
            return
        rank = max(self.asked.target, self.question.whole(cost)), price
        if self.plan is None or rank < self.plan.rank:
            self.plan = MovePlan(nodes, tuple(running), rank)

    def run(self, limits: Limits, end: float) -> None:
        """Search until all is proved, nothing is left to try, or the clock reads ``end``."""
        bounding, known = None, -1
        limits.say("what would have to leave")
        self._start(limits, end)
        while not self.proved and perf_counter() < end:
            if len(self._shapes) > known:
                known = len(self._shapes)
                limits.say("laying shapes out")
                self._pack(end)
            if self.proved or perf_counter() > end:
                return
            limits.say("raising the bound")
            bounding = bounding or self._program(bound=True, most=None if self.plan is None else self.plan.rank[0])
            if not self._round(bounding, limits, end):
                return

    def _start(self, limits: Limits, end: float) -> None:
        """Find a bound from what leaves, wherever it goes; and a plan in which all that leaves is placed again."""
        program = self._program(bound=True, leaving=True)
        # a plan that misses the target ranks behind all that reach it, so these alone are looked at
        program.model.cp.add(program.objective <= self.asked.target)
        found, solver = program.model.least(program.rank, Slice(EFFORT, (end - perf_counter()) / 2))
        least = (self.asked.target + 1, 0) if found == "no" else self._ranked(solver)
        self.bound = max(self.bound, least)
        if found != "yes" or self.proved:
            return
        leaving = {i for i, one in enumerate(program.model.running) if solver.value(one.moved)}
        wanted = np.isin(self.classes.class_of, list(taken(program.new, solver)))
        plan = placed_again(self.question, self.running, leaving, wanted=wanted, solver=self._solver, limits=limits)
        if plan is not None:
            self.found(*plan)

    def _as_good(self, one: RunningJob, after: IntArray) -> bool:
        """Return whether a running job is as well off after the moves as now."""
        if (one.nodes == after).all():
            return True
        cluster, now = self.question.cluster, one.worth(self.question.cluster, one.nodes)
        then = one.worth(cluster, after)
        if now is None or then is None or then.objective > now.objective + TOLERANCE:
            return False
        if one.job.avoid != "ignore" and slowest_in_use(cluster, then) > slowest_in_use(cluster, now):
            return False
        return one.job.speed_on(then.gpu_types) >= one.job.speed_on(now.gpu_types)

    def _program(
        self, *, bound: bool, shapes: Sequence[PlacementShape] = (), leaving: bool = False, most: int | None = None
    ) -> MoveProgram:
        question, demand = self.question, self.classes.demands[0]
        costs = question.option_costs(0, demand.options)
        model = ShareModel(self.classes.sizes)
        new = model.add_job(demand)
        if bound:
            least = question.whole(trivial_bound(question.jobs[0]) / max(one.speed for one in demand.options))
            cost: Variable = new.add_rectangles(costs, least=least, most=most)
        else:
            cost = new.add_shapes(shapes, question.shape_costs(0, shapes, demand.options), costs, most=most)
        if most is not None:
            model.cp.add(cost <= most)
        for share, units in zip(self.shares, self._units, strict=True):
            if leaving:
                model.add_leaving(share)
            elif units is not None:
                model.add_running(share, units)
            elif bound or share.moves_by:
                model.add_counted(share)
            else:
                model.add_running(share, share.pieces)
        model.share()
        objective = model.cp.new_int_var(self.asked.target, max(self.asked.target, top(cost)), "")
        model.cp.add(objective >= cost)
        if self.asked.by_jobs:
            price = total([one.share.price for one in model.running], [one.any_moved for one in model.running])
        else:
            price = total([1] * len(model.running), [one.moved for one in model.running])
        if self.asked.most is not None:
            model.cp.add(price <= self.asked.most)
        # the objective comes first: one unit of it outweighs all moves together
        return MoveProgram(model, new, cost, total([self._most, 1], [objective, price]))

    def _pack(self, end: float) -> None:
        """Lay known shapes out beside the running jobs, the best rank first."""
        shapes, found = self._offered(), "unknown"
        # a plan that misses the target ranks behind all that reach it: these first, as far fewer placements do
        most_useful = None if self.plan is None else self.plan.rank[0]
        for most in dict.fromkeys((self.asked.target, most_useful)):
            program = self._program(bound=False, shapes=shapes, most=most)
            if self.plan is not None:
                program.model.cp.add(program.rank < self._most * self.plan.rank[0] + self.plan.rank[1])
            found, solver = program.model.least(program.rank, Slice(EFFORT, (end - perf_counter()) / 2))
            if found == "yes":
                break
        if found != "yes":
            return
        domain_of_block = program.new.laid_out(solver, shapes)
        assert domain_of_block is not None
        targets = [part.targets(solver) for part in program.model.running if not isinstance(part, LeavingPart)]
        granted = self._granted(targets)
        chosen = taken(program.new, solver)
        classes = np.isin(self.classes.class_of, list(chosen))
        nodes = seat_on(self.question.cluster, self.question.jobs[0], domain_of_block, granted & classes)
        self.found(nodes, self._settled(nodes, targets))

    def _round(self, program: MoveProgram, limits: Limits, end: float) -> bool:
        """Raise the bound, and search the share of the new job it is reached with; return whether there is more."""
        solver = self._raise(program, end)
        if solver is None or self.proved:
            return False
        targets = (
            [part.targets(solver) for part in program.model.running if not isinstance(part, LeavingPart)]
            if all(share.moves_by or units is not None for share, units in zip(self.shares, self._units, strict=True))
            else []
        )
        granted = self._granted(targets) if targets or not self.shares else self._left(program, solver)
        cluster, job, known = self.question.cluster, self.question.jobs[0], len(self._shapes)
        seconds = max(LEAST_SECONDS, min(RUN_SECONDS, end - perf_counter()))
        one = run(self._solver, only(cluster, granted), job, replace(limits, seconds=seconds))
        if one.proposal.nodes is None or one.evaluation is None or one.bound is None:
            return False
        self.learn(one.proposal.nodes)
        if targets or not self.shares:
            self.found(one.proposal.nodes, self._settled(one.proposal.nodes, targets))
        bound = self.question.whole(self.question.priced(0, one.bound, job.speed_on(one.evaluation.gpu_types)))
        if bound > max(self.asked.target, int(solver.value(program.objective))):
            program.new.exclude(self.classes.count(granted), cost=program.objective, least=bound)
            return True
        return len(self._shapes) > known

    def _raise(self, program: MoveProgram, end: float) -> Solution | None:
        """Raise the bound by a program that knows no shapes; return its solution if it found one."""
        if self.plan is not None:
            # what is no better than the best plan is of no use: the fewer spreads are left, the sharper the bound
            program.model.cp.add(program.objective <= max(self.asked.target, self.plan.rank[0]))
        found, solver = program.model.least(program.rank, Slice(EFFORT, (end - perf_counter()) / 2))
        if found == "no":
            self.impossible = self.plan is None
            return None
        self.bound = max(self.bound, self._ranked(solver))
        return solver if found == "yes" else None

    def _ranked(self, solver: Solution) -> tuple[int, int]:
        """Return the bound of a program as a rank."""
        return divmod(ceil(solver.best_objective_bound - WHOLE), self._most)

    def _offered(self) -> list[PlacementShape]:
        """Return shapes of the new job that are no worse than the best plan, the cheapest ones."""
        question, demand, job = self.question, self.classes.demands[0], self.question.jobs[0]
        shapes = list(self._shapes.values())
        if demand.movable:
            domains = len(np.unique(demand.blocks.domain_of[demand.admits]))
            pairs = pairs_up_to(demand.rows, demand.columns, (domains, domains))
            cheap = sorted(pairs, key=lambda pair: (objective_of(job, *pair), max(pair)))
            reached = sum(question.whole(objective_of(job, *pair)) <= self.asked.target for pair in cheap)
            shapes += [
                even_rectangles(demand.rows, demand.columns, pair) for pair in cheap[: reached + MOST_SHAPES // 2]
            ]
        distinct = {shape.key: shape for shape in shapes}
        ordered = sorted(distinct.values(), key=lambda shape: (question.shape_cost(0, shape, 1.0), len(shape.sizes)))
        # all that reach the target are alike in rank: those with most to choose from, the finest, come last
        return ordered[:MOST_SHAPES]

    def _granted(self, targets: Sequence[IntArray]) -> BoolArray:
        """Return nodes for the new job, without those that are kept for cells that move, shape [nodes]."""
        coming: Counter[int] = Counter()
        for share, target in zip(self.shares, targets, strict=True):
            coming.update(target[target != share.homes].tolist())
        return self._split(self._vacant(targets), coming)

    def _left(self, program: MoveProgram, solver: Solution) -> BoolArray:
        """Return the same where only the number of nodes of each running job is known."""
        used = sum((taken(part, solver) for part in program.model.running), Counter[int]())
        return self._split(self.classes.class_of >= 0, used)

    def _split(self, free: BoolArray, later: Mapping[int, int]) -> BoolArray:
        """Return nodes for the new job, without as many of each class as others need, the last in order."""
        kept = last_of_each(self.question.cluster, self.classes, free, later)
        return free & ~kept & self.classes.admitted(0)

    def _settled(self, nodes: IntArray, targets: Sequence[IntArray]) -> list[IntArray]:
        """Return the nodes of the running jobs: cells that move take what the new job left, in order of ranks."""
        left = self._vacant(targets)
        left[nodes.ravel()] = False
        ordered = orderly(self.question.cluster, left).tolist()
        places: dict[int, list[int]] = {}
        for node in reversed(ordered):
            places.setdefault(int(self.classes.class_of[node]), []).append(node)
        after = []
        for one, share, target in zip(self.running, self.shares, targets, strict=True):
            settled = one.nodes.ravel().copy()
            moving = np.flatnonzero(target != share.homes)
            for cell in moving[np.argsort(one.job.grid.node_rank.ravel()[moving])].tolist():
                settled[cell] = places[int(target[cell])].pop()
            after.append(settled.reshape(one.nodes.shape))
        return after

    def _vacant(self, targets: Sequence[IntArray]) -> BoolArray:
        """Return shape [nodes], whether a node is in some class and no cell stays on it."""
        vacant: BoolArray = self.classes.class_of >= 0
        for one, share, target in zip(self.running, self.shares, targets, strict=True):
            vacant[one.nodes.ravel()[target == share.homes]] = False
        return vacant
