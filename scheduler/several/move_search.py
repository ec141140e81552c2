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
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from scheduler.algorithm_run import run
from scheduler.objective import TOLERANCE, slowest_in_use
from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.sharing.node_classes import NodeClasses
from scheduler.placement.sharing.running_part import RunningShare
from scheduler.placement.sharing.share_model import taken
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.several.joint_question import JointQuestion, only
from scheduler.several.joint_search import WHOLE
from scheduler.several.lay_out import last_of_each, orderly, placed_as_in
from scheduler.several.move_plan import MoveLimits, MovePlan
from scheduler.several.move_program import KEEP_NONE, MoveProgram, MovePrograms
from scheduler.several.place_again import placed_again
from scheduler.several.running_jobs import RunningJob
from scheduler.work_clock import LEAST_SECONDS, clock
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from scheduler.placement.sharing.share_model import Solution

FEW = 6  # Running jobs that are laid out again at a time, beside the new one, at first; so many more when that is over
FEW_EFFORT = 0.5  # Of that
MOST_PACKS = 16  # Such choices in a row
SOME_SHARE = 0.5  # Most of the time that is left, for these
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
        self.out_of_time = False  # whether it ended without a proof, and more time could have found more
        self.bound: tuple[int, int] = (asked.target, 0)  # no plan has a smaller rank
        self._programs = MovePrograms(question, classes, shares, asked)
        self._random = Random()

    @property
    def proved(self) -> bool:
        """Whether no plan has a smaller rank, or there is none."""
        return self.impossible or (self.plan is not None and self.bound >= self.plan.rank)

    def learn(self, nodes: IntArray) -> None:
        """Keep a placement of the new job, on any nodes of the cluster."""
        self._programs.seen.learn(nodes)

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
        self._search(limits, end)
        self.out_of_time = not self.proved and (self.out_of_time or clock() >= end)

    def _search(self, limits: Limits, end: float) -> None:
        bounding, known, more, few = None, -1, True, FEW
        self._random = Random(limits.seed)
        limits.say("what would have to leave")
        self._start(limits, end)
        while not self.proved and clock() < end:
            rank = None if self.plan is None else self.plan.rank
            if len(self._programs.seen) > known:
                known = len(self._programs.seen)
                limits.say("laying shapes out")
                self._pack(end)
            if more and not self.proved and clock() < end:
                limits.say("raising the bound")
                bounding = bounding or self._programs.of_bound(None if self.plan is None else self.plan.rank[0])
                more = self._round(bounding, limits, end)
            if not self.proved and clock() < end:
                limits.say("moving a few at a time")
                self._pack_some(end, few)
            if not more and (self.plan is None or self.plan.rank == rank):
                few += FEW
                if self.plan is None or few >= len(self.running):
                    return

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
        program = self._programs.of_bound(self.asked.target, leaving=True)
        found, solver = self._least(program, end)
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

    def _pack(self, end: float, kept: Mapping[int, IntArray] = KEEP_NONE, effort: float = EFFORT) -> None:
        """Lay known shapes out beside the running jobs, the best rank first.

        :param kept: running jobs that stay out of it, by number, and the class of each of their cells.
        """
        found = "unknown"
        # a plan that misses the target ranks behind all that reach it: these first, as far fewer placements do
        most_useful = None if self.plan is None else self.plan.rank[0]
        for most in dict.fromkeys((self.asked.target, most_useful)):
            program = self._programs.of_seen(most, kept)
            if self.plan is not None:
                program.model.cp.add(program.rank < self._programs.scale * self.plan.rank[0] + self.plan.rank[1])
            found, solver = self._least(program, end, effort)
            if found == "yes":
                break
        if found != "yes":
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
        solver = self._raise(program, end)
        if solver is None or self.proved:
            return False
        targets = program.targets(solver) if self._programs.exact else []
        granted = self._granted(targets) if targets or not self.shares else self._left(program, solver)
        cluster, job, known = self.question.cluster, self.question.jobs[0], len(self._programs.seen)
        if (targets or not self.shares) and program.new.chosen(solver).cells is not None:
            nodes = self._new_placed(program, solver, granted)
            assert nodes is not None
            self.found(nodes, self._settled(nodes, targets))
            return len(self._programs.seen) > known
        seconds = max(LEAST_SECONDS, min(RUN_SECONDS, end - clock()))
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
        return len(self._programs.seen) > known

    def _raise(self, program: MoveProgram, end: float) -> Solution | None:
        """Raise the bound by a program that knows no shapes; return its solution if it found one."""
        if self.plan is not None:
            # what is no better than the best plan is of no use: the fewer spreads are left, the sharper the bound
            program.model.cp.add(program.objective <= max(self.asked.target, self.plan.rank[0]))
        found, solver = self._least(program, end)
        if found == "no":
            self.impossible = self.plan is None
            return None
        self.bound = max(self.bound, self._ranked(solver))
        return solver if found == "yes" else None

    def _least(self, program: MoveProgram, end: float, effort: float = EFFORT) -> tuple[Answer, Solution]:
        """Search for the least rank, for at most half of the time that is left."""
        found, solver = program.model.least(program.rank, Slice(effort, (end - clock()) / 2))
        self.out_of_time |= program.model.out_of_time
        return found, solver

    def _ranked(self, solver: Solution) -> tuple[int, int]:
        """Return the bound of a program as a rank."""
        return divmod(ceil(solver.best_objective_bound - WHOLE), self._programs.scale)

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
