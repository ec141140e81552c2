"""By priority and age: without prediction no job is delayed by those behind, with preemption none by those below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from scheduler.queue.base_policy import PriorityFirst, usable_together
from scheduler.queue.queue_policy import ClusterState, HeldNodes, Running, Waiting
from topology.cluster import BoolArray


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

    Else it waits, and all behind it.
    """

    name = "priority-preempt"
    summary = "higher priority first; preemptible jobs of lower priority are stopped for it"
    stops_any_time = True

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Running]:
        """Stop as few of the lowest and youngest as will do."""

        def may_stop(other: Running) -> bool:
            return other.preemptible and other.priority < job.priority

        return cheapest_victims(job, cluster, may_stop=may_stop)


Worth = tuple[int, float]  # Highest priority among those to be stopped, and the GPU-seconds they have run


def cheapest_victims(job: Waiting, cluster: ClusterState, *, may_stop: Callable[[Running], bool]) -> Sequence[Running]:
    """Return running jobs whose nodes, with what is free, are enough for a job.

    For each node that the job could use: which jobs to stop there, lowest priority first and youngest first among
    equals, until there is room.  Then the nodes where that costs least, by the highest priority stopped and the
    GPU-seconds lost.  At last a job that turns out not to be in the way is left alone.  Greedy: a gang on several of
    the nodes is counted on each.  Where the job must lie in one compartment, that in which all this costs least.

    :returns: none when it would not help, or when there is room already.
    """
    choices = []
    for usable in usable_together(job, cluster):
        if np.count_nonzero(usable & (cluster.free >= job.gpus)) >= job.nodes:
            return ()
        if found := _cheapest_among(usable, job, cluster, may_stop=may_stop):
            choices.append(found)
    return min(choices, key=lambda found: _worth(found, cluster.now), default=())


def _cheapest_among(
    usable: BoolArray, job: Waiting, cluster: ClusterState, *, may_stop: Callable[[Running], bool]
) -> Sequence[Running]:
    """Return those to be stopped so that a job has room among some nodes, where it has none yet; none = no help."""
    there: dict[int, list[Running]] = {}
    for one in cluster.running:
        if may_stop(one):
            for node in one.places:
                if usable[node]:
                    there.setdefault(node, []).append(one)
    clear = int(np.count_nonzero(usable & (cluster.free >= job.gpus)))
    choices = []
    for node, ones in there.items():
        room = int(cluster.free[node])
        if room >= job.gpus:
            continue
        chosen: list[Running] = []
        for one in sorted(ones, key=lambda one: (one.priority, -one.started, one.key)):
            chosen.append(one)
            room += one.gpus
            if room >= job.gpus:
                choices.append((_worth(chosen, cluster.now), node, chosen))
                break
    if clear + len(choices) < job.nodes:
        return ()
    choices.sort(key=lambda choice: choice[:2])
    needed = choices[: job.nodes - clear]
    found = {one.key: one for _, _, chosen in needed for one in chosen}
    return _without_idle_loss(usable, job, cluster, found)


def _worth(chosen: Sequence[Running], now: float) -> Worth:
    lost = sum(one.gpus * len(one.places) * (now - one.started) for one in chosen)
    return max(one.priority for one in chosen), lost


def _without_idle_loss(
    usable: BoolArray, job: Waiting, cluster: ClusterState, found: dict[object, Running]
) -> Sequence[Running]:
    """Spare those, the dearest first, without whose stop the job has room among these nodes too."""
    free = cluster.free.copy()
    for one in found.values():
        free[list(one.places)] += one.gpus
    for one in sorted(found.values(), key=lambda one: (-one.priority, one.started, one.key)):
        places = list(one.places)
        free[places] -= one.gpus
        if np.count_nonzero(usable & (free >= job.gpus)) >= job.nodes:
            del found[one.key]
        else:
            free[places] += one.gpus
    return tuple(found.values())
