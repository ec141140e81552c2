"""Whether a look at the live Slurm is worth another one, told by a small part of its price.

Of a Slurm of 10,000 nodes a look takes half a second of processor time.  Between two looks the counters of jobs
(``sdiag``, 4 ms) say that jobs came, started or ended, and then some columns of the jobs (``squeue``, 15 ms) whether
that may lead to a plan: a request is new, a job that waits may have room by now, a plan started, ended or lost a node.
What may be free is taken for free here, so that nothing is missed; what is planned is planned by the look that follows.
"""

import resource
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import monotonic

import numpy as np

from slurm.decide import OTHER_WAITS, SlurmDecision
from slurm.live import OURS, LiveSlurm, nodes_in
from slurm.request import asked_in
from topology.cluster import BoolArray

COLUMNS = ("number", "state", "reason", "priority", "nodes", "comment")
"""What is asked of jobs between two looks."""
_REASONS = ("BadConstraints", "Dependency", *OTHER_WAITS)  # with what begin those by which a request is another one


@dataclass(frozen=True)
class SlurmWatch:
    """A look and what was decided of it, against what jobs are like since."""

    live: LiveSlurm
    decision: SlurmDecision

    def worth_a_look(self, rows: Sequence[Mapping[str, str]]) -> bool:
        """Return whether jobs, by some columns of each, are such that something may be planned, or came of a plan."""
        pending = {row["number"] for row in rows if row["state"] == "PENDING"}
        asking = (row for row in rows if row["number"] in pending and asked_in(row["comment"]) is not None)
        if any(self._ours.get(row["number"]) != _request(row) for row in asking):
            return True
        idle = self.live.idle_with([row["nodes"] for row in rows if row["number"] not in pending])
        return (
            any(number not in pending for number in self._planned)
            or not self._in_reservations <= {row["number"] for row in rows}
            or not idle[self._promised].all()
            or self._room(idle)
        )

    @property
    def unclear(self) -> bool:
        """Whether a job that waits has room but for nodes of jobs that have ended, and are not idle yet."""
        return self._room(self.live.idle_with([job.nodes for job in self.live.jobs if not job.pending]))

    def _room(self, idle: BoolArray) -> bool:
        """Return whether nodes that are idle now and were not give some job that waits room."""
        idle = idle.copy()
        idle[self._promised] = False
        idle_since = idle & ~self.live.idle
        return any(
            bool((idle_since & usable).any()) and int(np.count_nonzero(idle & usable)) >= fewest
            for usable, fewest in self._waiting
        )

    @cached_property
    def _ours(self) -> dict[str, tuple[str, bool, str]]:
        """What each job with a request that waits was at the look."""
        jobs = (self.live.by_number[number] for number in self.decision.states)
        return {job.number: (_reason(job.reason), job.held, job.comment) for job in jobs if job.pending}

    @cached_property
    def _planned(self) -> dict[str, tuple[str, ...]]:
        """Nodes of jobs that are planned and have not started; nodes of reservations are nobody else's anyway."""
        jobs = (self.live.by_number[number] for number, state in self.decision.states.items() if state == "planned")
        return {job.number: nodes_in(job.required) for job in jobs if job.required}

    @cached_property
    def _promised(self) -> list[int]:
        """Of the nodes of :attr:`_planned`, where each stands in the tree."""
        return [self.live.base.index_of[name] for names in self._planned.values() for name in names]

    @cached_property
    def _in_reservations(self) -> set[str]:
        """Jobs in reservations of ours: what these hold is free for others only when we let go of it."""
        return {job.number for job in self.live.jobs if job.reservation.startswith(OURS)}

    @cached_property
    def _waiting(self) -> Iterable[tuple[BoolArray, int]]:
        """For jobs that wait and ask alike: shape [nodes], which they could have, and the fewest that one needs."""
        alike: dict[int, tuple[BoolArray, int]] = {}
        for number, state in self.decision.states.items():
            if state == "asked" and (count := (job := self.live.by_number[number]).count) is not None:
                cluster = self.live.free_for(job)
                usable, fewest = alike.get(id(cluster)) or (cluster.emptied().idle, count)
                alike[id(cluster)] = usable, min(fewest, count)
        return alike.values()


def _request(row: Mapping[str, str]) -> tuple[str, bool, str]:
    return _reason(row["reason"]), row["priority"] == "0", row["comment"]


def _reason(reason: str) -> str:
    return reason if reason.startswith(_REASONS) else ""


class LookBudget:
    """What looks for no reason may take of a core; all that the process takes besides is counted against it.

    :param share: of a core.
    :param most: seconds after which there may be a look whatever was taken.
    """

    def __init__(self, share: float, most: float) -> None:
        self._share, self._most = share, share * most
        self._debt, self._then, self._spent = 0.0, monotonic(), processor_seconds()

    def paid(self) -> bool:
        """Return whether all that was taken is paid for by the time since."""
        now, spent = monotonic(), processor_seconds()
        debt = self._debt + spent - self._spent - self._share * (now - self._then)
        self._debt, self._then, self._spent = min(max(0.0, debt), self._most), now, spent
        return not self._debt


def processor_seconds() -> float:
    """Return the processor time of this process and of the programs that it started."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))
