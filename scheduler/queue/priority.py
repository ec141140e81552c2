"""By priority and age: without prediction no job is delayed by those behind, with preemption none by those below.

Which running jobs to stop so that one without room has some: little work is lost, and the place is good.

*Lost* is, of each job that is stopped, the work since it was last saved (since its start where it never is), on all its
GPUs.  Of the sets of jobs without which enough nodes have room, the highest priority that is stopped shall be lowest,
as where kube-scheduler preempts; then the GPU-seconds that are lost fewest.  That is the knapsack problem in its
covering form (Kellerer, Pferschy and Pisinger, "Knapsack Problems", 2004, section 13.3), solved by dynamic programming:
exactly where each job has its nodes alone.  Where jobs share nodes, each node is cleared by itself, lowest priority and
least unsaved work first, a job on several such nodes counts on each, and one that turns out not to be in the way is
spared.

*A good place.*  The least loss may leave nodes far apart.  So the same is asked at each level of the cluster among the
nodes of one domain, or of the fewest that can have room.  A set that loses up to :data:`DEAREST` times the least is a
choice, and placement decides between them: the best objective counts, then the least loss.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.queue.policy import ClusterState, HeldNodes, PriorityFirst, Running, Waiting, usable_together
from topology.cluster import BoolArray, IntArray


class PriorityAge(PriorityFirst):
    """Higher priority first, older first among equals; no job behind a blocked one can delay it.

    *Cannot delay*: let H be blocked and C be behind it.  H starts at the first moment at which enough of the nodes that
    it could use at all (those of its size that it may use and that are not faulty) are free together.  Where the ends
    of jobs are unknown, whatever C takes of these nodes may be what H is missing at that moment, and what it takes of
    other nodes never is.  Hence C may be placed exactly where no node that H could use is taken.  A job that would not
    fit even if the cluster were empty starts at no moment, so nothing delays it: it blocks none.
    """

    name = "priority-age"
    summary = "higher priority first, then older; a gang passes a blocked one only on nodes that one cannot use"
    passing = True
    claims: int | None = None

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:
        """Keep all that those before could use."""
        masks = {id(mask): mask for mask in (cluster.usable(job) for job in blocked)}
        usable = np.logical_or.reduce(list(masks.values()))
        return (HeldNodes(-inf, np.where(usable, cluster.total, 0).astype(np.int32)),)


class PriorityPreempt(PriorityFirst):
    """Higher priority first; a job without room stops preemptible ones of lower priority if that gives it room.

    Else it waits, and all behind it.  Those are stopped that lose the least work, or a little more for a better place.
    """

    name = "priority-preempt"
    summary = "higher priority first; preemptible jobs of lower priority are stopped for it"
    stops_any_time = True

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Sequence[Running]]:
        """Stop those that lose the least work, or a little more where that gives a better place."""

        def may_stop(other: Running) -> bool:
            return other.preemptible and other.priority < job.priority

        return victim_choices(job, cluster, may_stop=may_stop)


# Times the least loss that a better place may cost.  Made jobs on 8 minipods of 16 nodes, a quarter of higher priority:
# 11 % more work lost than with 1.0, and S + R of those of higher priority 2.55, not 2.69; with 4.0 56 % more, and 2.49.
DEAREST = 2.0


class VictimSet(NamedTuple):
    """Jobs to be stopped together, and what that costs; the least is the cheapest."""

    priority: float  # the highest among them; those that are leaving anyhow do not count
    lost: float  # GPU-seconds of work
    jobs: tuple[Running, ...]


def victim_choices(
    job: Waiting, cluster: ClusterState, *, may_stop: Callable[[Running], bool]
) -> Sequence[Sequence[Running]]:
    """Return sets of running jobs whose nodes, with what is free, are enough for a job; the cheapest first.

    :returns: none when stopping does not help, or when there is room already.
    """
    wholes = usable_together(job, cluster)
    clear = cluster.free >= job.gpus
    if any(np.count_nonzero(usable & clear) >= job.nodes for usable in wholes):
        return ()
    clearing = _Clearing(job, cluster, may_stop)
    best = clearing.cheapest(wholes)
    if best is None:
        return ()
    sets = {frozenset(victim.key for victim in best.jobs): best}
    for domain_of in cluster.domains if job.nodes > 1 else ():
        masks = (mask for usable in wholes for mask in _fewest_domains(usable & clearing.room, domain_of, job.nodes))
        other = clearing.cheapest(masks)
        if other is not None and other.priority == best.priority and other.lost <= DEAREST * best.lost:
            sets.setdefault(frozenset(victim.key for victim in other.jobs), other)
    return [victims.jobs for victims in sorted(sets.values(), key=lambda victims: victims.lost)]


class _Clearing:
    """What to stop on each node so that a job has room there."""

    def __init__(self, job: Waiting, cluster: ClusterState, may_stop: Callable[[Running], bool]) -> None:
        self._job, self._cluster = job, cluster
        self.room: BoolArray = cluster.free >= job.gpus
        """Shape [nodes], whether there is room, or will be when all have gone that may."""
        self._clear = self.room.copy()
        self._sets: list[VictimSet] = []
        # shape [nodes], which of the sets makes room there; -1 = none has to, or none does
        self._set_of: IntArray = np.full(len(self._clear), -1, dtype=np.int32)
        there: dict[int, list[Running]] = {}
        for other in cluster.running:
            if other.leaving or may_stop(other):
                for node in other.places:
                    if not self._clear[node]:
                        there.setdefault(node, []).append(other)
        numbers: dict[tuple[object, ...], int] = {}
        for node, others in there.items():
            ranked = sorted(others, key=self._rank)
            rooms = accumulate((other.gpus for other in ranked), initial=int(cluster.free[node]))
            stops = next((count for count, units in enumerate(rooms) if units >= job.gpus), 0)
            # where stopping all of them would not do, none is
            if chosen := ranked[:stops]:
                number = numbers.setdefault(tuple(other.key for other in chosen), len(self._sets))
                if number == len(self._sets):
                    self._sets.append(self._of(chosen))
                self._set_of[node], self.room[node] = number, True

    def cheapest(self, masks: Iterable[BoolArray]) -> VictimSet | None:
        """Return the cheapest set that makes enough room among the nodes of any one mask; ``None`` = none does."""
        sets = (self._among(mask) for mask in masks)
        return min((victims for victims in sets if victims is not None), key=lambda victims: victims[:2], default=None)

    def _rank(self, job: Running) -> tuple[object, ...]:
        return not job.leaving, job.priority, self._cluster.unsaved(job), job.key

    def _of(self, jobs: Sequence[Running]) -> VictimSet:
        staying = [job for job in jobs if not job.leaving]
        lost = sum(job.gpus * len(job.places) * self._cluster.unsaved(job) for job in staying)
        return VictimSet(max((job.priority for job in staying), default=-inf), lost, tuple(jobs))

    def _among(self, mask: BoolArray) -> VictimSet | None:
        """Return the cheapest set that makes enough room among some nodes."""
        needed = self._job.nodes - int(np.count_nonzero(mask & self._clear))
        counts = np.bincount(self._set_of[mask & (self._set_of >= 0)], minlength=len(self._sets))
        by_priority = sorted(np.flatnonzero(counts).tolist(), key=lambda number: self._sets[number].priority)
        together = np.cumsum(counts[by_priority])
        if needed <= 0 or not len(together) or together[-1] < needed:
            return None
        highest = self._sets[by_priority[int(np.searchsorted(together, needed))]].priority
        items = [number for number in by_priority if self._sets[number].priority <= highest]
        # the items of the least cost in all whose weights come to what is needed, or more
        weights = counts[items].tolist()
        costs = [self._sets[number].lost for number in items]
        least = np.full(needed + 1, inf)  # Cost of the cheapest items so far that cover so much
        least[0] = 0.0
        taken = np.zeros((len(weights), needed + 1), dtype=np.bool_)
        for i, (weight, cost) in enumerate(zip(weights, costs, strict=True)):
            rest = np.maximum(np.arange(needed + 1) - weight, 0)
            with_it = least[rest] + cost
            taken[i] = with_it < least
            least = np.where(taken[i], with_it, least)
        chosen = []
        for i in range(len(weights) - 1, -1, -1):
            if taken[i, needed]:
                chosen.append(i)
                needed = max(needed - weights[i], 0)
        victims = {job.key: job for i in chosen for job in self._sets[items[i]].jobs}
        # those are spared, the dearest first, without whose stop the job has room among these nodes too
        free = self._cluster.free.copy()
        for victim in victims.values():
            free[list(victim.places)] += victim.gpus
        for victim in sorted(victims.values(), key=self._rank, reverse=True):
            places = list(victim.places)
            free[places] -= victim.gpus
            if np.count_nonzero(mask & (free >= self._job.gpus)) >= self._job.nodes:
                del victims[victim.key]
            else:
                free[places] += victim.gpus
        return self._of(tuple(victims.values()))


def _fewest_domains(room: BoolArray, domain_of: IntArray, nodes: int) -> Iterator[BoolArray]:
    """Yield the nodes of each domain that can have room for all of a job; else of the fewest that can together."""
    counts = np.bincount(domain_of[room])
    if not len(counts) or counts.sum() < nodes:
        return
    if counts.max() >= nodes:
        for domain in np.flatnonzero(counts >= nodes).tolist():
            yield room & (domain_of == domain)
    else:
        largest = np.argsort(-counts, kind="stable")
        several = largest[: int(np.searchsorted(np.cumsum(counts[largest]), nodes)) + 1]
        yield room & np.isin(domain_of, several)
