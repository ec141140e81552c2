"""Replay: which machine of a job computes wrongly, in short runs on parts of it.

A silent fault (wrong numbers, no error) gives no stack to look at.  The job is cut into groups that each keep its
pipelines and run a few steps on their own, all at once; then it is cut again, the other way.  The culprit is in the
group that fails in each phase (ByteRobust, arXiv 2509.16293): machine x goes to horizontal group floor(x / m) and
vertical group x mod n, with m = k * PP machines a group and n = DP / k groups.

A healthy part may fail too, and the culprit's may pass (ours).  How likely it is that nobody, a machine, or several
together are at fault follows from how often their groups failed and passed (:func:`judge`); how often chance does so
is learned from the same runs.  A machine is named where that leaves hardly a doubt (:data:`SURE`).  Until then a next
run has apart who is suspected: each in a group with those who are suspected least (:func:`next_groups`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heapreplace
from math import comb, exp, log
from typing import Literal, Self

import numpy as np

from ground.errors import Infeasible, InvalidInput
from ground.quantities import fixed, plural
from ground.records import Count, JsonRecord
from health.collectives.diagnosis import Certainty
from health.recovery.machines import Machines
from scheduler.job import Job
from topology.cluster import FloatArray, IntArray

Phase = Literal["horizontal", "vertical"]
PHASES: tuple[Phase, ...] = ("horizontal", "vertical")
Groups = tuple[tuple[int, ...], ...]

Answer = Literal["plan", "culprit", "suspects", "none"]

# Before any run: nobody 1 / 2, and each number of culprits a tenth as likely as one fewer
NOBODY, FEWER = 0.5, 0.1
MOST_CULPRITS = 4
# Parameters of beta distributions, before any run: of 51 tests of healthy groups 1 fails, of 5 of a culprit's 1 passes
FAILED_BY_CHANCE, PASSED_BY_CHANCE = (1, 50), (1, 4)
SURE = 0.999  # From which probability on a machine is named
LIKELY = 0.9
NO_FAULT = 0.95  # From which probability on nobody is said to be at fault
LEAST_SHARE = 0.05  # Of the highest probability, that a suspect has at least
LEAST_GROWTH = 2.0  # Times as likely as before any run, that a suspect is at least
WIDTH = 64  # Sets of culprits, and machines that may join them, that are looked at for each number of culprits


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

    def cut(self, phase: Phase) -> Groups:
        """Return the machines of each group of a phase, ascending."""
        machines, m, n = range(self.machines), self.group_size, self.groups
        starts = range(n)
        return tuple(
            tuple(machines[group * m : (group + 1) * m] if phase == "horizontal" else machines[group::n])
            for group in starts
        )


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


class ReplayRun(JsonRecord):
    """One run of all parts of a job."""

    groups: Groups
    """Node ranks of the machines of each part."""
    failed: tuple[Count, ...]
    """How many times each part failed."""


@dataclass(frozen=True)
class Replays:
    """What runs of a plan have shown."""

    plan: ReplayPlan
    runs: tuple[ReplayRun, ...]
    repeats: int  # how many times each group of a run was run
    chances: FloatArray  # of each machine, the probability that it is at fault, shape [machines]
    nobody: float  # the probability that no machine is

    @property
    def culprits(self) -> tuple[int, ...]:
        """Machines that are at fault almost surely, ascending."""
        return tuple(np.flatnonzero(self.chances >= SURE).tolist())

    @cached_property
    def suspects(self) -> tuple[int, ...]:
        """Machines that may be at fault, the likeliest first; empty before any run, and where nobody seems to be."""
        if not self.runs or self.nobody >= NO_FAULT:
            return ()
        usual = (1 - NOBODY) / self.plan.machines
        least = max(LEAST_SHARE * float(self.chances.max()), LEAST_GROWTH * usual)
        order = np.argsort(-self.chances, kind="stable")
        return tuple(order[self.chances[order] >= least].tolist())

    @property
    def tests(self) -> int:
        """How many times any group was run."""
        return len(self.runs) * self.plan.groups * self.repeats

    @property
    def answer(self) -> Answer:
        """What the runs amount to."""
        if not self.runs:
            return "plan"
        return "culprit" if self.culprits else "none" if self.nobody >= NO_FAULT else "suspects"

    @property
    def settled(self) -> bool:
        """Whether another run would say nothing more."""
        return self.answer == "none" or (self.answer == "culprit" and {*self.suspects} == {*self.culprits})

    def after(self, failed: Mapping[int, int]) -> Self:
        """Return what is known after the next run, in which groups failed so many times.

        :raises InvalidInput: there is no such group, or it failed more often than it was run.
        """
        number = len(self.runs) + 1
        for group, times in failed.items():
            if not 0 <= group < self.plan.groups:
                fix = f"groups are numbered from 0 to {self.plan.groups - 1}"
                raise InvalidInput(f"run {number} has no group {group}", where=failed_option(number), fix=fix)
            if times > self.repeats:
                problem = f"group {group} of run {number} failed {times:,} times of {self.repeats}"
                fix = "say how often each group was run: --repeats"
                raise InvalidInput(problem, where=failed_option(number), fix=fix)
        run = ReplayRun(self.next_groups, tuple(failed.get(group, 0) for group in range(self.plan.groups)))
        runs = (*self.runs, run)
        return type(self)(self.plan, runs, self.repeats, *judge(self.plan.machines, runs, self.repeats))

    def sure(self, machine: int) -> Certainty:
        """Return how sure it is that a machine is at fault."""
        chance = self.chances[machine]
        return "certain" if chance >= SURE else "likely" if chance >= LIKELY else "possible"

    @cached_property
    def next_groups(self) -> Groups:
        """The machines of each group of the next run: the first two phases, then suspects apart."""
        if len(self.runs) < len(PHASES):
            return self.plan.cut(PHASES[len(self.runs)])
        # the likeliest first, each to the group that is least likely to hold a culprit and has room
        groups: list[list[int]] = [[] for _ in range(self.plan.groups)]
        load = [(0.0, number) for number in range(self.plan.groups)]
        for machine in np.argsort(-self.chances, kind="stable").tolist():
            mass, number = load[0]
            groups[number].append(machine)
            if len(groups[number]) == self.plan.group_size:
                heappop(load)
            else:
                heapreplace(load, (mass + float(self.chances[machine]), number))
        return tuple(tuple(sorted(group)) for group in groups)


def replay(plan: ReplayPlan, failed: Mapping[int, Mapping[int, int]], *, runs: int = 0, repeats: int = 1) -> Replays:
    """Return what runs have shown: each is cut as those before it ask for.

    :param failed: number of a run, from 1 -> group -> how many times it failed.
    :param runs: how many were made, where the last had no failed group.
    :param repeats: how many times the groups of each run were run.
    :raises InvalidInput: there is no such group, or it failed more often than it was run.
    """
    replays = Replays(plan, (), repeats, np.full(plan.machines, (1 - NOBODY) / plan.machines), NOBODY)
    for number in range(1, max([runs, *failed]) + 1):
        replays = replays.after(failed.get(number, {}))
    return replays


def failed_option(run: int) -> str:
    """Return the option that names failed groups of a run."""
    return f"--failed-{(*PHASES, 'third')[run - 1]}" if run <= len(PHASES) + 1 else "--failed"


def judge(machines: int, runs: Sequence[ReplayRun], repeats: int) -> tuple[FloatArray, float]:
    """Return how likely it is that each machine is at fault, shape [machines], and that nobody is.

    A group fails by chance with one probability, and one with a culprit passes with another; both are unknown, with
    beta distributions before any run, and the same in all runs.  Sets of culprits are looked at by their number, the
    likeliest :data:`WIDTH` of each and what joins them.
    """
    group_of = np.empty((len(runs), machines), dtype=np.int32)
    for row, run in zip(group_of, runs, strict=True):
        for number, group in enumerate(run.groups):
            row[list(group)] = number
    # of each run and machine, how many times its group failed
    failures = np.stack([np.array(run.failed)[row] for run, row in zip(runs, group_of, strict=True)])
    all_failed = sum(sum(run.failed) for run in runs)
    all_passed = repeats * sum(len(run.groups) for run in runs) - all_failed
    terms = all_failed + all_passed + sum(FAILED_BY_CHANCE) + sum(PASSED_BY_CHANCE)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, terms)))])

    def log_beta(yes: IntArray, no: IntArray, before: tuple[int, int]) -> FloatArray:
        a, b = yes + before[0], no + before[1]
        return np.asarray(log_factorial[a - 1] + log_factorial[b - 1] - log_factorial[a + b - 1])

    def fit(sets: IntArray) -> FloatArray:
        """Return the logarithm of how likely the outcomes are under each set of culprits, up to a constant."""
        groups = group_of[:, sets]
        first = np.ones(groups.shape, dtype=bool)  # whether no earlier culprit of the set is in the same group
        for column in range(1, sets.shape[1]):
            first[..., column] = (groups[..., :column] != groups[..., column : column + 1]).all(axis=-1)
        failed = np.where(first, failures[:, sets], 0).sum(axis=(0, 2))
        passed = repeats * first.sum(axis=(0, 2)) - failed
        by_chance = log_beta(all_failed - failed, all_passed - passed, FAILED_BY_CHANCE)
        return by_chance + log_beta(passed, failed, PASSED_BY_CHANCE)

    sets = np.zeros((1, 0), dtype=np.int32)
    levels = [(sets, log(NOBODY) + fit(sets))]
    joining = np.arange(machines, dtype=np.int32)
    for number in range(1, min(MOST_CULPRITS, machines) + 1):
        likeliest = sets[np.argsort(-levels[-1][1], kind="stable")[:WIDTH]]
        joined = np.hstack([np.repeat(likeliest, len(joining), axis=0), np.tile(joining, len(likeliest))[:, None]])
        joined = np.sort(joined, axis=1)
        joined = joined[(np.diff(joined, axis=1) > 0).all(axis=1)]
        keys = joined @ (np.int64(machines) ** np.arange(number))  # one for each set
        sets = joined[np.unique(keys, return_index=True)[1]]
        if not len(sets):
            break
        before = (1 - NOBODY) * (1 - FEWER) * FEWER ** (number - 1) / comb(machines, number)
        levels.append((sets, log(before) + fit(sets)))
        if number == 1:
            joining = np.argsort(-levels[-1][1], kind="stable")[:WIDTH].astype(np.int32)
    most = max(float(weights.max()) for _, weights in levels)
    chances = np.zeros(machines)
    for sets, weights in levels:
        np.add.at(chances, sets, np.exp(weights - most)[:, None])
    total = sum(float(np.exp(weights - most).sum()) for _, weights in levels)
    # machines of which the runs say the same have the same number
    return np.round(chances / total, 9), exp(float(levels[0][1][0]) - most) / total


def chance_text(chance: float) -> str:
    """Return a probability that is never quite one: ``99.99%``."""
    return f"{fixed(100 * min(chance, 0.9999), digits=2)}%"


def replay_sentence(replays: Replays, machines: Machines) -> str:
    """Return the plan, or who is at fault and how sure that is."""
    plan, runs = replays.plan, plural(len(replays.runs), "run")
    match replays.answer:
        case "culprit":
            culprits = replays.culprits
            least = chance_text(min(replays.chances[list(culprits)]))
            is_or_are = "culprits are" if len(culprits) > 1 else "culprit is"
            return f"The {is_or_are} {machines.spelled(culprits)}: {least} sure after {runs}."
        case "none":
            return f"Nobody seems to be at fault: {chance_text(replays.nobody)} sure after {runs}."
        case "suspects" if not replays.suspects:
            return f"It cannot be told yet. After {runs} nobody is suspected. Run the parts below next."
        case "suspects":
            likeliest = replays.suspects[0]
            said = f"{machines.name(likeliest)} is suspected ({chance_text(replays.chances[likeliest])})"
            if len(replays.suspects) > 1:
                said = f"{len(replays.suspects):,} machines are suspected: {machines.spelled(sorted(replays.suspects))}"
            return f"It cannot be told yet. After {runs} {said}. Run the parts below next."
    parts = f"Run the job twice in {plan.groups} parts of {plan.group_size} machines (DP {plan.k} each)"
    if plan.unique:
        return f"{parts}: the part that fails in each run leaves exactly one machine."
    return f"{parts}: the part that fails in each run leaves up to {plan.most_suspects} machines, not one."


def replay_notes(replays: Replays) -> tuple[str, ...]:
    """Return what is worth knowing about a plan and its outcome."""
    plan, notes = replays.plan, []
    if not plan.unique and len(replays.runs) <= len(PHASES):
        fewer = "Fewer suspects are impossible: " if plan.k == 1 else "Fewer --replicas leave fewer suspects; "
        notes.append(
            f"One culprit of two runs is certain only where m <= n; here m = {plan.group_size}, n = {plan.groups}. "
            f"{fewer}a third run tells those that are left apart."
        )
    if plan.k == 1 and plan.unique:
        notes.append(
            "Groups of one replica reduce no gradients between replicas: a fault of that traffic stays hidden."
        )
    if not replays.settled and replays.repeats == 1:
        notes.append("Healthy parts fail by chance, too: parts run three times (--repeats 3) decide in fewer runs.")
    if replays.runs and 2 * sum(map(sum, (run.failed for run in replays.runs))) > replays.tests:
        notes.append("More than half of all parts failed: the job itself may be at fault.")
    if replays.culprits and not replays.settled:
        notes.append("Another machine may be at fault, too: the parts below tell.")
    return tuple(notes)
