"""Conservative backfilling (Mu'alem and Feitelson, 2001): each job that waits has a reservation, and none behind it
takes of that.

The reservation of a job is the earliest start at which it has room for as long as it is expected to run, beside the
jobs that run and those before it in the queue.  It is found anew at each pass, so that room that comes sooner is used.

*Where all that wait ask for whole nodes of one kind*, nodes are counted: whichever are free will do.  Then a job starts
by the reservation that it had when it was submitted, if all run as long as expected, for a start on any free nodes
leaves the count that the others have.  *Else* each reservation is of nodes, the first in the order of the cluster that
have room, and of units on them.  No start delays one before it then either; but one that placement puts elsewhere than
was reserved may delay those behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from operator import is_

import numpy as np

from scheduler.queue.policy import BasePolicy, ClusterState, HeldNodes, Waiting, usable_together
from topology.cluster import BoolArray, FloatArray, IntArray


class ConservativeBackfill(BasePolicy):
    """First in, first out; one behind starts early where it takes nothing of a reservation of those before it."""

    name = "conservative-backfill"
    summary = "first in, first out; jobs behind start early where they delay none before them"
    passing = True
    claims: int | None = None
    claims_of_equals = True

    def __init__(self) -> None:
        self._last: tuple[ClusterState, int, float, Reservations] | None = None

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:
        """Return the reservations of those that wait; those that were made for the first of them already are kept."""
        reservations = None
        if self._last is not None:
            whose, version, now, reservations = self._last
            planned = reservations.jobs
            goes_on = whose is cluster and (version, now) == (cluster.version, cluster.now)
            if not goes_on or len(planned) > len(blocked) or not all(map(is_, planned, blocked)):
                reservations = None
        if reservations is None:
            reservations = Reservations(cluster, blocked[0])
        for job in blocked[len(reservations.jobs) :]:
            if reservations.counted and not reservations.alike(job):
                reservations = Reservations(cluster, None)
                for earlier in blocked:
                    reservations.add(earlier)
                break
            reservations.add(job)
        self._last = cluster, cluster.version, cluster.now, reservations
        return (Reserved(reservations.first, reservations.closed, reservations=reservations),)


class Reservations:
    """What jobs that wait will have, and what is left beside it, instant by instant.

    :param kind: a job of the kind of all of them, whose nodes are counted; ``None`` = they differ.
    """

    def __init__(self, cluster: ClusterState, kind: Waiting | None) -> None:
        self.jobs: list[Waiting] = []
        self.starts: list[float] = []  # When each starts; infinite = by the ends that are known, it never has room
        self._cluster = cluster
        self.closed: IntArray = np.zeros_like(cluster.free)
        """Shape [nodes], what is left for those of which no start is known: all that they could use."""
        times, rows = [cluster.now], [cluster.free.copy()]
        for other in cluster.running:
            ends = max(other.ends, cluster.now)
            if ends == inf:
                break
            if ends > times[-1]:
                times.append(ends)
                rows.append(rows[-1].copy())
            rows[-1][list(other.places)] += other.gpus
        self._times: FloatArray = np.array(times)
        self._left: IntArray = np.array(rows)
        """Shape [instants, slots], what no job has from each instant on; a slot is a node, or all where these are
        counted."""
        self.counted = False
        if kind is not None:
            # whether each takes all of its nodes, and any of these can be together
            together = usable_together(kind, cluster)
            self.counted = len(together) == 1 and bool((cluster.total[together[0]] == kind.gpus).all())
        if kind is not None and self.counted:
            self._kind, self._usable = kind, cluster.usable(kind)
            with_room = self._usable & (self._left >= kind.gpus)
            # from which instant on each node has room by the ends of jobs that run
            self._room_at: FloatArray = np.where(with_room.any(axis=0), self._times[with_room.argmax(axis=0)], inf)
            self._left = with_room.sum(axis=1, dtype=np.int32)[:, None]

    def alike(self, job: Waiting) -> bool:
        """Return whether a job is of the kind of those whose nodes are counted."""
        mine = self._cluster.usable(job)
        return job.gpus == self._kind.gpus and (mine is self._usable or np.array_equal(mine, self._usable))

    @property
    def first(self) -> float:
        """The earliest of the starts; what ends by then takes of none.  Nothing does if a start is not known."""
        return -inf if inf in self.starts else min(self.starts)

    def add(self, job: Waiting) -> None:
        """Reserve for a job behind those that are in it."""
        slots, units, choices = job.nodes, job.gpus, usable_together(job, self._cluster)
        if self.counted:
            slots, units, choices = 1, job.nodes, (np.ones(1, dtype=np.bool_),)
        seconds, times = inf if job.predicted is None else job.predicted, self._times
        has_room = self._left >= units
        numbers = np.arange(len(times))[:, None]
        # shape [instants, slots], the next instant at which there is no room
        until = np.minimum.accumulate(np.where(has_room, len(times), numbers)[::-1], axis=0)[::-1]
        lasts = has_room & (np.append(times, inf)[until] >= times[:, None] + seconds)
        best: tuple[int, BoolArray] | None = None
        for choice in choices:
            enough = np.count_nonzero(lasts & choice, axis=1) >= slots
            if enough.any() and (best is None or int(enough.argmax()) < best[0]):
                best = int(enough.argmax()), choice
        self.jobs.append(job)
        self.starts.append(inf if best is None else float(times[best[0]]))
        if best is None:
            usable = self._cluster.usable(job)
            self.closed = np.maximum(self.closed, np.where(usable, self._cluster.total, 0)).astype(np.int32)
            return
        start, choice = best
        end = times[start] + seconds
        stop = int(np.searchsorted(times, end))
        if end < inf and (stop == len(times) or times[stop] != end):
            self._times = np.insert(times, stop, end)
            self._left = np.insert(self._left, stop, self._left[stop - 1], axis=0)
        self._left[start:stop, np.flatnonzero(lasts[start] & choice)[:slots]] -= units

    def kept_from(self, job: Waiting) -> IntArray:
        """Return what a job has to leave free, shape [nodes], so that it takes of no reservation."""
        cluster = self._cluster
        end = inf if job.predicted is None else cluster.now + job.predicted
        least = self._left[: max(1, int(np.searchsorted(self._times, end)))].min(axis=0)
        keep: IntArray = cluster.free - least
        if self.counted:
            spare = max(0, int(least[0]))
            if job.nodes <= spare:
                return self.closed
            whole = np.where(self._usable & (self._room_at < end), cluster.total, 0).astype(np.int32)
            keep = HeldNodes(self.first, whole, spare).against(job, cluster)
        return np.maximum(self.closed, keep).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reserved(HeldNodes):
    """What is kept for jobs with reservations; of those whose start is not known, all that they could use."""

    reservations: Reservations

    def against(self, job: Waiting, cluster: ClusterState) -> IntArray:  # noqa: ARG002
        """Return what is kept from a job, by how long it is expected to run."""
        return self.reservations.kept_from(job)
