"""What is to be done about the jobs of a live Slurm: from one look and the order files to a list of updates.

All that is known is in the controller and in the order files, so a daemon that is killed anywhere is followed by one
that goes on:

======== ============================================== ==========================================================
state    seen as                                        next
======== ============================================== ==========================================================
asked    PENDING, begins later, comment ``arnold:``, no asked about in the order of Slurm's priority and of the queue
         nodes required                                 policy; where one has no room and would begin within two
                                                        minutes, all that wait begin ten minutes from now
planned  PENDING, its nodes are required and its order  Slurm starts it; where a node is lost or taken, it is asked
         file has them                                  again, and where it waits for other jobs or a limit of users, in
                                                        ten minutes
running  RUNNING                                        left alone
refused  a comment that cannot be read, a job of another begins at once as a plain job; why stands in its comment
         number of nodes than its grid, or one that
         Slurm does not start on its nodes
======== ============================================== ==========================================================

A job whose nodes its user requires is the user's, and one that begins later than we would have it is not asked about
before.  An update is written in one order: reservation, order file, one call of ``scontrol update``.

With topology/block Slurm before 25.11 starts no job on a list of nodes of several blocks.  There a plan is a
reservation of its nodes alone, in which a job of ``--segment=1`` starts on all that there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from math import inf

import numpy as np

from ground.errors import ArnoldError, InvalidInput
from ground.quantities import HOUR, MINUTE, decimal
from scheduler.job import Job
from scheduler.job_files.job_file import load_job
from scheduler.job_on_cluster import before_it_goes
from scheduler.outcome import Instance, Outcome
from scheduler.placement.admission import typed
from scheduler.placement.types import Limits
from scheduler.queue.live_pass import LiveNodes, plan_waiting
from scheduler.queue.policy import CapacityReservation, Keep, QueuedJob, QueuePolicy, RunningEntry, Waiting
from slurm.live import OURS, LiveSlurm, SlurmJob
from slurm.request import GridRequest, asked_in, job_file_of
from topology.cluster import BoolArray, Cluster, IntArray
from topology.node_names import expand_hostlist, fold_hostlist
from topology.slurm_nodes import gpu_type_of

WAIT = 10 * MINUTE  # that a job waits for its plan at most, unless it is prolonged: as in job_submit.lua
NEARLY = 2 * MINUTE  # before its begin a wait is prolonged: time for a look or two, and a restart
USERS_OWN = WAIT + MINUTE  # a begin farther off is the user's: clocks and hands differ by less than a minute
RESERVED_FROM = 8  # nodes of a job from which a reservation holds them until it starts
MOST_NAMES = 64_000  # bytes of a list of nodes that Slurm takes
OTHER_WAITS = ("Assoc", "QOS", "Licenses", "InvalidAccount", "InvalidQOS", "BurstBuffer")
"""With what reasons of jobs begin that wait for something else than nodes, time or other jobs."""
Orders = Mapping[str, tuple[str, ...]]
"""Number of a job -> its nodes by rank."""


@dataclass(frozen=True, slots=True)
class Update:
    """One call of ``scontrol update`` for some jobs, and what is written before."""

    jobs: tuple[str, ...]
    fields: Mapping[str, str]
    why: str
    nodes: tuple[str, ...] = ()  # of a plan, by rank
    reservation: str = ""  # that holds them, to be created before
    owner: str = ""  # whose it is
    released: bool = False  # whether Slurm holds the job, which is to end

    def words(self) -> list[str]:
        """Return the words of the call; of an array all tasks that wait are meant, whose list squeue may cut."""
        numbers = ",".join(number.partition("_[")[0] for number in self.jobs)
        return ["update", f"JobId={numbers}", *(f"{key}={value}" for key, value in self.fields.items())]


@dataclass(frozen=True)
class SlurmDecision:
    """What is to be done, and what is said of jobs."""

    updates: tuple[Update, ...]
    forgotten: tuple[str, ...]  # order files of jobs that have ended
    unheld: tuple[str, ...]  # our reservations that hold nothing any more
    states: Mapping[str, str]  # of each job with a request, by number
    reasons: Mapping[str, str]  # why it waits, was refused, or is planned again
    plans: Mapping[str, Outcome]


def decide(
    live: LiveSlurm, orders: Orders, *, policy: QueuePolicy, limits: Limits, reserved_from: float = RESERVED_FROM
) -> SlurmDecision:
    """Decide what is to be done; nothing is asked and nothing written."""
    queue = SlurmQueue(live, orders, reserved_from=reserved_from)
    plan_waiting(queue, policy, limits)
    waiting = [number for number, state in queue.states.items() if state in ("asked", "begins after others")]
    if any((live.by_number[number].begin or inf) - live.now < NEARLY for number in waiting):
        # all of them at once, so that the next such look is far away
        queue.updates.append(Update(tuple(waiting), {"StartTime": at(live.now + WAIT)}, "waits for its plan"))
    return SlurmDecision(
        tuple(queue.updates),
        tuple(number for number in orders if number not in live.by_number),
        live.unheld,
        queue.states,
        queue.reasons,
        queue.plans,
    )


def at(seconds: float) -> str:
    """Return an instant as ``scontrol`` takes it whatever the zone and the clock of this machine."""
    return f"uts{seconds:.0f}"


class SlurmQueue:
    """A look at Slurm as a :class:`~scheduler.queue.live_pass.LiveCluster`; what is decided becomes updates."""

    def __init__(self, live: LiveSlurm, orders: Orders, *, reserved_from: float = RESERVED_FROM) -> None:
        self.live, self._reserved_from = live, reserved_from
        self.updates: list[Update] = []
        self.states: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.plans: dict[str, Outcome] = {}
        self._asked: dict[str, tuple[GridRequest, Job]] = {}
        self._waiting: dict[int, QueuedJob] = {}
        by_name = {held.name: held for held in live.said.reservations or ()}
        # number of a job -> the reservation of ours that it is in
        self._holding = {
            job.number: by_name[job.reservation]
            for job in live.jobs
            if job.reservation == OURS + job.number and job.reservation in by_name
        }
        self._held: dict[int, tuple[str, ...]] = {}
        for job in live.jobs:
            if (asked := asked_in(job.comment)) is not None:
                self.states[job.number] = self._sorted(job, asked, orders.get(job.number, ()))
        self.state = SlurmState(self)

    def _refused_by_slurm(self, job: SlurmJob) -> bool:
        """Return whether Slurm starts no job on the nodes of its plan: it says so, or all are held, and it waits."""
        held = self._holding.get(job.number)
        kept_waiting = held is not None and self.live.now - held.start > WAIT and job.reason == "Resources"
        return job.reason == "BadConstraints" or kept_waiting

    def _sorted(self, job: SlurmJob, asked: GridRequest, order: Sequence[str]) -> str:
        """Return the state of a job with a request, and note what follows from it at once."""
        if asked.refused:
            self.reasons[job.number] = asked.refused
            return "refused"
        if not job.pending:
            return "running"
        held = self._holding.get(job.number)
        required = expand_hostlist(job.required) if job.required else sorted(held.nodes) if held is not None else []
        if required and sorted(required) != sorted(order):
            return "user's nodes"
        if job.held and job.reason != "BadConstraints":
            if held is not None:  # nobody could have its nodes meanwhile
                self.let_go(int(job.number), "it is held")
            return "held"
        try:
            if asked.fault or not job.number.isdecimal():
                fault = asked.fault or "an array or a heterogeneous job is several jobs, and has no one order of ranks"
                raise InvalidInput(fault)
            of_grid = on_type(grid_job(asked.grid, self.live.base), self.live.base, job.gpus)
            if job.count != (nodes := of_grid.grid.cells):
                raise InvalidInput(f"its grid takes {nodes} nodes, and it asks for {job.count}: give --nodes={nodes}")
            could_have = self.live.free_for(job)
        except ArnoldError as error:
            self._refuse(job, asked, error.message)
            return "refused"
        self._asked[job.number] = asked, of_grid
        after_others = job.reason.startswith("Dependency")  # or DependencyNeverSatisfied
        if required:
            if after_others or job.reason.startswith(OTHER_WAITS):
                self._put_off(job, asked)
                return "begins later"
            if gone := self.live.not_to_be_had(required, could_have):
                self.let_go(int(job.number), f"it was planned on {gone}")
                return "planned again"
            if self._refused_by_slurm(job):
                segment = "; with topology/block it is to be submitted with --segment=1"
                why = f"Slurm does not start it on its nodes{segment if self.live.base.blocks is not None else ''}"
                self._refuse(job, asked, why)
                return "refused"
            self._held[int(job.number)] = tuple(order)
            return "planned"
        if job.begin is None or job.begin <= self.live.now:
            return "begins by itself"
        if asked.begin is not None and asked.begin > self.live.now:
            return "begins later"
        if asked.begin is None and job.begin - self.live.now > USERS_OWN:
            fields = {"Comment": asked.comment(begin=job.begin), "StartTime": at(job.begin + WAIT)}
            self.updates.append(Update((job.number,), fields, "its user lets it begin later"))
            return "begins later"
        if not after_others:
            seconds = None if job.seconds in (None, inf) else job.seconds
            self._waiting[int(job.number)] = QueuedJob(
                int(job.number), job.priority, job.submitted, nodes, of_grid.gpus_per_node, seconds, seconds,
                gpu_types=of_grid.gpu_types, namespace=job.account,
            )  # fmt: skip
            return "asked"
        return "begins after others"

    def _put_off(self, job: SlurmJob, asked: GridRequest) -> None:
        """Take the nodes back from a job that Slurm starts on none: it is asked about again in ten minutes."""
        begin = self.live.now + WAIT
        why = f"Slurm does not start it: {job.reason}"
        fields = {"Comment": asked.comment(begin=begin), "StartTime": at(begin + WAIT), **self._without_nodes(job)}
        self.reasons[job.number] = why
        self.updates.append(Update((job.number,), fields, why))

    def _refuse(self, job: SlurmJob, asked: GridRequest, why: str) -> None:
        """Let a job begin as a plain one, and say why; of one that was planned the nodes are taken back."""
        self.reasons[job.number] = why
        fields = {"Comment": asked.comment(refused=why), "StartTime": at(self.live.now)}
        if job.required or job.number in self._holding:
            fields |= self._without_nodes(job)
        held = job.reason == "BadConstraints"  # Slurm sets the priority to 0
        self.updates.append(Update((job.number,), fields, f"refused: {why}", released=held))

    def _without_nodes(self, job: SlurmJob) -> dict[str, str]:
        """Return the fields by which the nodes are taken back from a job that is planned."""
        return {"ReqNodeList": ""} | ({"ReservationName": ""} if job.reservation.startswith(OURS) else {})

    def waiting(self) -> Mapping[int, QueuedJob]:
        """Return the jobs that are asked about, and have no plan yet."""
        return self._waiting

    def free_for(self, key: int, keep: Keep) -> Instance:
        """Return a job and what it could have now; raise as :meth:`LiveSlurm.free_for`."""
        job, (_, of_grid) = self.live.by_number[str(key)], self._asked[str(key)]
        cluster = self.live.free_for(job)
        cluster = cluster.with_busy(cluster.index_of[name] for nodes in self._held.values() for name in nodes)
        if keep is not None:
            cluster = cluster.with_busy(np.flatnonzero(self.state.free - keep < of_grid.gpus_per_node))
        if job.seconds is not None and job.seconds < inf:
            of_grid = of_grid.replace(expected_hours=job.seconds / HOUR)
        return Instance(before_it_goes(cluster, of_grid, datetime.fromtimestamp(self.live.now, UTC)), of_grid)

    def held(self) -> Mapping[int, Sequence[str]]:
        """Return the nodes by rank of jobs with a plan that do not run yet."""
        return self._held

    def hold(self, key: int, nodes: Sequence[str], outcome: Outcome) -> None:
        """Plan a job: one update, which lets it begin on its nodes."""
        number, (asked, _) = str(key), self._asked[str(key)]
        job, names = self.live.by_number[number], fold_hostlist(sorted(nodes))
        del self._waiting[key]
        if len(names) > MOST_NAMES:
            many = f"Slurm takes lists of nodes up to {MOST_NAMES:,} bytes, and its has {len(names):,}"
            self.states[number] = "refused"
            self._refuse(job, asked, many)
            return
        worth = outcome.evaluation
        assert worth is not None
        said = f"DP spread {worth.dp}, PP spread {worth.pp}, objective {decimal(worth.objective)}, {outcome.status}"
        fields = {"StartTime": at(self.live.now), "Comment": asked.comment(worth=said)}
        blocks, reservation = self.live.base.blocks is not None, ""
        if (blocks or len(nodes) >= self._reserved_from) and not job.reservation:
            reservation = fields["ReservationName"] = OURS + number
        if not (blocks and reservation):
            fields["ReqNodeList"] = names
        self.updates.append(Update((number,), fields, said, tuple(nodes), reservation, job.owner))
        self._held[key], self.plans[number], self.states[number] = tuple(nodes), outcome, "planned"
        self.state.changed()

    def let_go(self, key: int, why: str) -> None:
        """Take the nodes back from a job that is planned; it is asked about again from the next look on."""
        fields = {"StartTime": at(self.live.now + WAIT), **self._without_nodes(self.live.by_number[str(key)])}
        self.reasons[str(key)] = why
        self.updates.append(Update((str(key),), fields, why))

    def say(self, key: int, why: str) -> None:
        """Note why a job waits."""
        self.reasons[str(key)] = why


class SlurmState(LiveNodes):
    """The nodes of a look as queue policies see them; what is planned since is in use."""

    reservations: Sequence[CapacityReservation] = ()

    def __init__(self, queue: SlurmQueue) -> None:
        self._queue, self._live, self.version = queue, queue.live, 0
        super().__init__(self._live.base, self._live.now)
        self._masks: dict[object, BoolArray] = {}

    def changed(self) -> None:
        """Note that something was planned."""
        self.version += 1
        self.__dict__.pop("free", None)
        self.__dict__.pop("running", None)

    @cached_property
    def free(self) -> IntArray:
        """Shape [nodes], GPUs of those that are idle and promised to nobody."""
        free = np.where(self._live.idle, self.total, 0).astype(np.int32)
        free[[self._live.base.index_of[name] for nodes in self._queue.held().values() for name in nodes]] = 0
        return free

    @cached_property
    def running(self) -> Sequence[RunningEntry[str]]:
        """Jobs that have nodes, and those that are planned, by the end of their time limits."""
        of, rows = self._live.base.index_of, list[RunningEntry[str]]()
        for job in self._live.jobs:
            planned = self._queue.held().get(int(job.number), ()) if job.number.isdecimal() else ()
            places = tuple(of[name] for name in planned or self._live.nodes_of(job) if name in of)
            if places:
                seconds = inf if job.seconds is None else job.seconds
                started = self.now if planned or job.begin is None else job.begin
                ends = self.now + seconds if planned or job.ends is None else job.ends
                gpus = int(self.total[list(places)].max())
                rows.append(RunningEntry(job.number, job.priority, False, gpus, places, started, ends))
        return sorted(rows, key=lambda row: (row.ends, str(row.key)))

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], which the job could use if nothing were in use."""
        cluster = self._live.free_for(self._live.by_number[str(job.key)])
        if (about := (id(cluster), job.gpu_types)) not in self._masks:  # the look keeps it, so that no other has its id
            self._masks[about] = cluster.emptied().idle & typed(cluster, job.gpu_types)
        return self._masks[about]

    def share(self, namespace: str) -> float:
        """Return the GPUs that an account has."""
        of = self._live.by_number
        return sum(row.gpus * len(row.places) for row in self.running if of[row.key].account == namespace)


def on_type(job: Job, cluster: Cluster, *resources: str) -> Job:
    """Return a job on the type of GPU that lists of resources name, such as ``gpu:h100:8``; the same job where they
    name none of the cluster's.
    """
    gpu_type = gpu_type_of(*resources)
    return job.replace(gpu_types=(gpu_type,)) if gpu_type and gpu_type in cluster.gpu_types else job


@lru_cache(maxsize=4096)
def grid_job(grid: str, cluster: Cluster) -> Job:
    """Return the job that a grid stands for; raises ArnoldError: it is none, or names what the cluster has not."""
    loaded = load_job(job_file_of(grid, where="comment"), cluster=cluster)
    loaded.check_names(cluster)
    return loaded.job
