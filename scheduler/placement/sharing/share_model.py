"""The program that shares classes of nodes out to jobs, new ones and running ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.sharing.job_ways import JobWays
from scheduler.placement.sharing.node_classes import NodeDemand
from scheduler.placement.sharing.running_counts import CountedPart
from scheduler.placement.sharing.running_part import LeavingPart, RunningPart, RunningShare
from scheduler.work_clock import counts_work
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    Variable = cp_model.IntVar
    Expression = cp_model.LinearExpr
    Solution = cp_model.CpSolver


class ShareModel:
    """Jobs beside each other on some classes of nodes."""

    def __init__(self, sizes: IntArray) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model.CpModel()
        self.sizes = sizes
        self.parts: list[JobWays] = []
        self.running: list[RunningPart | CountedPart | LeavingPart] = []
        self.out_of_time = False  # whether the clock, and not its effort, ended a search

    def add_job(self, demands: Sequence[NodeDemand], *, optional: bool = False) -> JobWays:
        """Add a job, with a demand for each of its ways; its share is chosen by the program."""
        part = JobWays(self.cp, demands, self.sizes, optional=optional)
        self.parts.append(part)
        return part

    def add_running(self, share: RunningShare, units: IntArray) -> None:
        """Add a running job, which may move in some units, shape [cells]."""
        self.running.append(RunningPart(self.cp, share, self.sizes, units))

    def add_counted(self, share: RunningShare) -> None:
        """Add a running job of which only is decided how many nodes of each class it has."""
        self.running.append(CountedPart(self.cp, share, self.sizes))

    def add_leaving(self, share: RunningShare) -> None:
        """Add a running job of which only is decided what leaves."""
        self.running.append(LeavingPart(self.cp, share, self.sizes))

    def share(self) -> None:
        """Add that no class is used up twice."""
        used: list[Mapping[int, cp_model.LinearExprT]] = [part.takes for part in self.parts]
        used += [part.takes for part in self.running]
        for c, size in enumerate(self.sizes.tolist()):
            taken = [takes[c] for takes in used if c in takes]
            if taken:
                self.cp.add(sum(taken) <= size)

    def least(self, cost: cp_model.LinearExprT, limit: Slice) -> tuple[Answer, cp_model.CpSolver]:
        """Search for the least cost within a limit."""
        self.cp.minimize(cost)
        found, solver = solve(self.cp, limit)
        spent = solver.response_proto.deterministic_time if counts_work() else solver.wall_time
        self.out_of_time |= spent >= limit.wall
        return found, solver


def total(weights: Sequence[int], expressions: Sequence[cp_model.LinearExprT]) -> cp_model.LinearExpr:
    """Return a weighted sum; of none at all 0."""
    from ortools.sat.python import cp_model

    return cp_model.LinearExpr.sum([weight * one for weight, one in zip(weights, expressions, strict=True)])


def taken(part: JobWays | RunningPart | CountedPart | LeavingPart, solver: cp_model.CpSolver) -> Counter[int]:
    """Return the nodes of each class that a job takes in a solution, classes without any left out."""
    return Counter({c: count for c, one in part.takes.items() if (count := int(solver.value(one)))})
