"""The programs of a search for moves: the new job and the running ones on the same classes of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.objective import trivial_bound
from scheduler.placement.sharing.cell_choice import ways_by_cell
from scheduler.placement.sharing.node_classes import NodeClasses
from scheduler.placement.sharing.running_part import LeavingPart, RunningShare, exact_units
from scheduler.placement.sharing.share_model import ShareModel, total
from scheduler.placement.sharing.share_part import top
from scheduler.several.joint_question import JointQuestion
from scheduler.several.move_plan import MoveLimits
from scheduler.several.seen_placements import SeenPlacements, bounded_cost
from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement.sharing.job_ways import JobWays
    from scheduler.placement.sharing.share_model import Expression, Solution, Variable

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
        found = (part.targets(solver) for part in self.model.running if not isinstance(part, LeavingPart))
        count = len(self.model.running) + len(self.kept)
        return [self.kept[i] if i in self.kept else next(found) for i in range(count)]


class MovePrograms:
    """Makes the programs of one question."""

    def __init__(
        self, question: JointQuestion, classes: NodeClasses, shares: Sequence[RunningShare], asked: MoveLimits
    ) -> None:
        self._question, self._classes, self._shares, self._asked = question, classes, shares, asked
        self._units, self._by_cell = exact_units(shares), ways_by_cell(classes.demands[:1])
        self.seen = SeenPlacements(question, 0, classes, self._by_cell)
        # one unit of the objective outweighs all moves together
        self.scale = sum(share.price if asked.by_jobs else len(share.homes) for share in shares) + 1

    @property
    def exact(self) -> bool:
        """Whether nothing is lost in how running jobs move: what a program of the bound finds can be done."""
        return all(share.moves_by or units is not None for share, units in zip(self._shares, self._units, strict=True))

    def of_bound(self, most: int | None, *, leaving: bool = False) -> MoveProgram:
        """Return what every plan satisfies.

        :param most: the objective of the new job, in whole numbers, above which a plan is of no use; ``None`` = any.
        :param leaving: only what leaves is decided, not where it goes.
        """
        model, demands, question = ShareModel(self._classes.sizes), self._classes.demands[0], self._question
        new, fastest = model.add_job(demands), max(demand.fastest for demand in demands)
        least = question.whole(trivial_bound(question.jobs[0]) / fastest)
        cost = bounded_cost(question, 0, new, least=least, most=most, by_cell=self._by_cell)
        for share, units in zip(self._shares, self._units, strict=True):
            if leaving:
                model.add_leaving(share)
            elif units is None:
                model.add_counted(share)
            else:
                model.add_running(share, units)
        return self._ranked(model, new, cost, most, KEEP_NONE)

    def of_seen(self, most: int | None, kept: Mapping[int, IntArray] = KEEP_NONE) -> MoveProgram:
        """Return what can be done with placements of the new job that were seen; parameters as above, and as of
        :class:`MoveProgram`.
        """
        every = np.concatenate([np.empty(0, dtype=np.int32), *kept.values()])
        model = ShareModel(self._classes.sizes - np.bincount(every, minlength=len(self._classes.sizes)))
        new = model.add_job(self._classes.demands[0])
        cost = self.seen.offer(new, most=most, count=MOST_SHAPES)
        for i, (share, units) in enumerate(zip(self._shares, self._units, strict=True)):
            if i not in kept:
                if share.moves_by:
                    model.add_counted(share)
                else:
                    model.add_running(share, share.pieces if units is None else units)
        return self._ranked(model, new, cost, most, kept)

    def _ranked(
        self, model: ShareModel, new: JobWays, cost: Variable, most: int | None, kept: Mapping[int, IntArray]
    ) -> MoveProgram:
        if most is not None:
            model.cp.add(cost <= most)
        model.share()
        target, by_jobs = self._asked.target, self._asked.by_jobs
        objective = model.cp.new_int_var(target, max(target, top(cost)), "")
        model.cp.add(objective >= cost)
        if by_jobs:
            price = total([one.share.price for one in model.running], [one.any_moved for one in model.running])
        else:
            price = total([1] * len(model.running), [one.moved for one in model.running])
        for i, places in kept.items():
            moved = int((places != self._shares[i].homes).sum())
            price += self._shares[i].price * bool(moved) if by_jobs else moved
        if self._asked.most is not None:
            model.cp.add(price <= self._asked.most)
        return MoveProgram(model, new, cost, total([self.scale, 1], [objective, price]), kept)
