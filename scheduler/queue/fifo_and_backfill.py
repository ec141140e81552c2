"""First in, first out; shortest first; EASY backfilling (Lifka 1995; Mu'alem, Feitelson 2001)."""

from collections.abc import Sequence
from math import inf

import numpy as np

from scheduler.queue.policy import BasePolicy, ClusterState, HeldNodes, PriorityFirst, Rank, Waiting, usable_together
from topology.cluster import BoolArray, IntArray


class Fifo(BasePolicy):
    """The first waits until it has room, and so do all behind it."""

    name = "fifo"
    summary = "first in, first out; no job passes one that waits"


class ShortestFirst(BasePolicy):
    """The job that is expected to run shortest is asked first; none passes it while it waits.

    So one of many GPUs gets its turn as soon as it is the shortest, and is passed only by shorter ones that come later.
    Jobs of unknown length come last.
    """

    name = "shortest-first"
    summary = "the shortest by prediction first; none passes it while it waits"

    def rank(self, job: Waiting) -> Rank:
        """Rank by predicted seconds, then as first in, first out."""
        return (inf if job.predicted is None else job.predicted, *super().rank(job))


class FifoBackfill(BasePolicy):
    """Only the first has a claim: it starts at its *shadow time* at the latest, if the others end as predicted.

    A job behind it may start if it is expected to end by the shadow time, or if the first still has room then.  On
    whole nodes that is the definition: with E the nodes free at the shadow time beyond what the first needs, it takes
    at most E.  Where jobs take parts of nodes it is the same, node by node: of the nodes that will have room for a part
    of the first, a job may use up as many as are more than that needs, and of each other one what the part leaves.
    Where ends are unknown, so is the shadow time: then no job behind takes what the first could use.
    """

    name = "fifo-backfill"
    summary = "first in, first out; jobs behind start early where they do not delay the first (EASY)"
    passing = True
    claims = 1

    def holds(self, blocked: Sequence[Waiting], cluster: ClusterState) -> Sequence[HeldNodes]:
        """Return what is kept for the first."""
        return (shadow(blocked[0], cluster),)


class PriorityBackfill(PriorityFirst, FifoBackfill):
    """The same with the highest priority first, as Slurm's own backfill; the oldest of equals."""

    name = "priority-backfill"
    summary = "higher priority first; jobs behind start early where they do not delay the first"


def shadow(head: Waiting, cluster: ClusterState) -> HeldNodes:
    """Return when a blocked job will have room at the latest, and what has to be left for it on which nodes.

    The running jobs are taken to end in the order of their predicted ends, those that are overdue now.  At the shadow
    time at least as many nodes have room as the job needs: something is kept on all of them, and as many as there are
    more than it needs may be used up.  Of ``gpus`` units that it needs on a node, those that return by then need not be
    kept now; so a node that comes back by itself is not among what others miss, however many free ones there are.

    Where the job must lie in one compartment, all this is so of the one that has room first, and nothing is kept
    elsewhere.  Of several at one time it is always the same, so that no start changes which: a job that was refused
    stays refused until a job ends, or outlives its prediction.
    """
    shadows = [_shadow_among(usable, head, cluster) for usable in usable_together(head, cluster)]
    holds = [hold for hold in shadows if hold is not None]
    if not holds:
        return HeldNodes(-inf, np.where(cluster.usable(head), cluster.total, 0).astype(np.int32))
    return min(holds, key=lambda hold: hold.until)


def _shadow_among(usable: BoolArray, head: Waiting, cluster: ClusterState) -> HeldNodes | None:
    """Return the same among some nodes; ``None`` = by the ends that are known, the job never has room there."""
    now, free, needed = cluster.now, cluster.free, head.gpus
    have = int(np.count_nonzero(usable & (free >= needed)))
    until = now
    # few nodes change: reading numbers one by one out of a dict is faster than out of an array
    changed: dict[int, int] = {}
    for other in cluster.running:
        ends = other.ends if other.ends > now else now
        if ends == inf or (have >= head.nodes and ends > until):
            break
        until, units = ends, other.gpus
        for node in other.places:
            before = changed[node] if node in changed else int(free[node])
            changed[node] = before + units
            if before < needed <= before + units and usable[node]:
                have += 1
    if have < head.nodes:
        return None
    coming: IntArray = free.copy()
    coming[list(changed)] = list(changed.values())
    missing = np.maximum(0, head.gpus - (coming - free))
    keep = np.where(usable & (coming >= head.gpus), missing, 0).astype(np.int32)
    return HeldNodes(until, keep, spare=have - head.nodes)
