"""Dual-phase replay: which machine of a job computes wrongly, in two short runs on parts of it, and a third.

A silent fault (wrong numbers, no error) gives no stack to look at.  The job is cut into groups that each keep its
pipelines and run a few steps on their own, all at once; then it is cut again, the other way.  The culprit is in the
group that fails in each phase (ByteRobust, arXiv 2509.16293): machine x goes to horizontal group floor(x / m) and
vertical group x mod n, with m = k * PP machines a group and n = DP / k groups.

A healthy part may fail too, and the culprit's may pass.  A third run (ours) has what is left in groups apart: of
several it tells which, and of one whether it was chance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ground.errors import Infeasible, InvalidInput
from health.recovery.machines import Machines
from scheduler.job import Job

Phase = Literal["horizontal", "vertical"]
PHASES: tuple[Phase, ...] = ("horizontal", "vertical")

Answer = Literal["plan", "culprit", "suspects", "none"]


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """How a job is cut in both phases."""

    # machines of the smallest part that can run on its own: PP at node level, times the rows of cells that context and
    # expert groups bind together
    replica: int
    replicas: int  # how many the job has: DP at node level
    k: int  # replicas of a group

    @property
    def groups(self) -> int:
        """Groups of each phase: n."""
        return self.replicas // self.k

    @property
    def group_size(self) -> int:
        """Machines of each group: m."""
        return self.k * self.replica

    @property
    def machines(self) -> int:
        """Machines of the job."""
        return self.replica * self.replicas

    @property
    def unique(self) -> bool:
        """Whether two failed groups always leave one machine: m <= n."""
        return self.group_size <= self.groups

    @property
    def most_suspects(self) -> int:
        """Machines that two failed groups leave at most: m / n, rounded up."""
        return -(-self.group_size // self.groups)

    def group_of(self, phase: Phase, machine: int) -> int:
        """Return the group that a machine is in."""
        return machine // self.group_size if phase == "horizontal" else machine % self.groups

    def members(self, phase: Phase, group: int) -> tuple[int, ...]:
        """Return the machines of a group, ascending; raise :class:`InvalidInput` where there is no such group."""
        group = self._number(phase, group)
        if phase == "horizontal":
            return tuple(range(group * self.group_size, (group + 1) * self.group_size))
        return tuple(range(group, self.machines, self.groups))

    def suspects(
        self, horizontal: Collection[int], vertical: Collection[int], third: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Return machines in a failed group of each run, ascending.  A run without a failed group clears none.

        :raises InvalidInput: there is no such group, or no third run as no other has failed.
        """
        left: set[int] = set(range(self.machines))
        for phase, failed in zip(PHASES, (horizontal, vertical), strict=True):
            if failed:
                left &= {machine for group in failed for machine in self.members(phase, group)}
        if third:
            groups = self.third(horizontal, vertical)
            if not groups:
                problem = "the third run is of what the first two leave, and none of their groups failed"
                fix = "give --failed-horizontal, --failed-vertical or both beside it"
                raise InvalidInput(problem, where="--failed-third", fix=fix)
            left &= {machine for group in third for machine in groups[self._number("third", group)]}
        return tuple(sorted(left))

    def third(self, horizontal: Collection[int], vertical: Collection[int]) -> tuple[tuple[int, ...], ...]:
        """Return the groups of a third run, empty where no group has failed: suspects are apart from each other, and
        from all others that were in failed groups, as far as there are groups for it.
        """
        if not (horizontal or vertical):
            return ()
        suspects = self.suspects(horizontal, vertical)
        failed = zip(PHASES, (horizontal, vertical), strict=True)
        company = {x for phase, groups in failed for group in groups for x in self.members(phase, group)}
        groups: list[list[int]] = [[] for _ in range(self.groups)]
        for number, machine in enumerate(suspects):
            groups[number % self.groups].append(machine)
        others = sorted(company.difference(suspects)), [x for x in range(self.machines) if x not in company]
        # first those that might make a suspect's group fail, into the groups with fewest suspects
        for group in reversed(groups):
            for machines in others:
                room = self.group_size - len(group)
                group.extend(machines[:room])
                del machines[:room]
        return tuple(tuple(sorted(group)) for group in groups)

    def _number(self, phase: str, group: int) -> int:
        """Return the number of a group; raise :class:`InvalidInput` where there is no such group."""
        if not 0 <= group < self.groups:
            fix = f"groups are numbered from 0 to {self.groups - 1}"
            raise InvalidInput(f"there is no {phase} group {group}", where=f"--failed-{phase}", fix=fix)
        return group


def plan_replay(job: Job, *, k: int | None = None) -> ReplayPlan:
    """Cut a job of two or more replicas for replay, into two or more equal groups.

    :param k: replicas of a group; ``None`` = the most that leave one culprit, as groups of several replicas still
        reduce gradients between them, which a fault may need to show; where none leaves one culprit, 1, which leaves
        the fewest suspects.
    """
    # context and expert groups, and TP groups of several nodes, bind rows together, equally many: a group of replicas
    # holds them whole
    rows = int(np.bincount(job.grid.tied(("tp", "cp", "ep"))[0])[0])
    replica, replicas = rows * job.grid.columns, job.grid.rows // rows
    if replicas < 2:
        problem = f"{job.name} is a single replica of {replica} machines: there are no two groups to compare"
        fix = "replay needs data parallelism of at least 2 at node level; test its machines one by one"
        raise Infeasible(problem, where="parallelism.dp", fix=fix)
    plans = {d: ReplayPlan(replica, replicas, d) for d in range(1, replicas) if replicas % d == 0}
    if k is None:
        return max((plan for plan in plans.values() if plan.unique), key=lambda plan: plan.k, default=plans[1])
    if k not in plans:
        problem = f"{replicas} replicas do not cut into two or more groups of {k}"
        raise InvalidInput(problem, where="--replicas", fix=f"choose one of: {', '.join(map(str, plans))}")
    return plans[k]


def replay_answer(suspects: Sequence[int], *, failed: bool) -> Answer:
    """Return what the failed groups, if any were given, amount to."""
    if not failed:
        return "plan"
    return "none" if not suspects else "culprit" if len(suspects) == 1 else "suspects"


def replay_sentence(
    plan: ReplayPlan, machines: Machines, suspects: Sequence[int], *, failed: bool, third: bool = False
) -> str:
    """Return the plan, or what is left; of the third run, too, where it failed."""
    names, runs = machines.spelled(suspects), "all three runs" if third else "both runs"
    match replay_answer(suspects, failed=failed):
        case "culprit":
            return f"The culprit is {names}: it alone is in the failed groups of {runs}."
        case "suspects":
            return f"{len(suspects):,} machines are left: {names}."
        case "none":
            return f"No machine is in the failed groups of {runs}: one fault alone does not explain them."
    parts = f"Run the job twice in {plan.groups} parts of {plan.group_size} machines (DP {plan.k} each)"
    if plan.unique:
        return f"{parts}: the part that fails in each run leaves exactly one machine."
    return f"{parts}: the part that fails in each run leaves up to {plan.most_suspects} machines, not one."


def replay_notes(
    plan: ReplayPlan,
    suspects: Sequence[int],
    *,
    horizontal: Sequence[int],
    vertical: Sequence[int],
    third: Sequence[int] = (),
) -> tuple[str, ...]:
    """Return what is worth knowing about a plan and its outcome."""
    notes = []
    if not plan.unique and not third:
        fewer = "Fewer suspects are impossible: " if plan.k == 1 else "Fewer --replicas leave fewer suspects; "
        notes.append(
            f"One culprit of two runs is certain only where m <= n; here m = {plan.group_size}, n = {plan.groups}. "
            f"{fewer}a third run tells those that are left apart."
        )
    if plan.k == 1 and plan.unique:
        notes.append(
            "Groups of one replica reduce no gradients between replicas: a fault of that traffic stays hidden."
        )
    if bool(horizontal) != bool(vertical):
        other = "second" if horizontal else "first"
        narrows = "it may be chance" if third else f"the {other} narrows it down"
        notes.append(f"Only one of the first two runs has a failed group: {narrows}.")
    if horizontal and vertical and not suspects:
        notes.append("Two machines may be at fault, or the fault does not show every time: run all phases again.")
    if suspects and not third:
        many = "tells them apart" if len(suspects) > 1 else "says whether it was chance, where healthy parts fail too"
        notes.append(f"A third run, of the parts below, {many} (--failed-third).")
    if len(set(horizontal)) > 1 or len(set(vertical)) > 1:
        notes.append(
            "More than one group failed in a run: more than one machine is at fault, or the job itself, or chance is."
        )
    return tuple(notes)
