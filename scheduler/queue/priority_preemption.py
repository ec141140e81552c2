"""By priority and age: without prediction no job is delayed by those behind, with preemption none by those below."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from scheduler.queue.base_policy import PriorityFirst
from scheduler.queue.priority_victims import victim_choices
from scheduler.queue.queue_policy import ClusterState, HeldNodes, Running, Waiting


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

    Else it waits, and all behind it.  Which are stopped: :mod:`scheduler.queue.priority_victims`.
    """

    name = "priority-preempt"
    summary = "higher priority first; preemptible jobs of lower priority are stopped for it"
    stops_any_time = True

    def victims(self, job: Waiting, cluster: ClusterState) -> Sequence[Sequence[Running]]:
        """Stop those that lose the least work, or a little more where that gives a better place."""

        def may_stop(other: Running) -> bool:
            return other.preemptible and other.priority < job.priority

        return victim_choices(job, cluster, may_stop=may_stop)
