"""How long a gang ran that has ended, from what the API server says of its plan and its pods.

A run begins with the first binding of a pod of the plan, and ends when the last of its containers did; where pods were
deleted, when that is seen.  It counts however it ended: a queue cannot know which run will fail.  One that was stopped
for another gang, or never was whole on its nodes, does not; nor does one that ended while no controller saw it, since
it is not known when.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from extender.plans.gang_history import EndedRun
from extender.plans.gang_plan import GangPlan, canonical_uid
from topology.kubernetes.pods import Pod


def ended_run(plan: GangPlan, pods: Iterable[Pod], last: Pod | None, now: datetime) -> EndedRun | None:
    """Return how long the gang of a plan ran; ``None`` = it did not, or it is not known.

    :param pods: what is left of the gang's pods, all ended.
    :param last: where none is left, the pod that went last; ``None`` = that was not seen.
    """
    left = tuple(pods) or (() if last is None else (last,))
    # Pods of an earlier gang of the same name are none of the plan's.
    known = [pod for pod in left if canonical_uid(pod.uid) in plan.rank_of_pod]
    on_nodes = [pod for pod in known if pod.node is not None]
    bound = plan.condition("Bound")
    was_whole = bound is not None and bound.status == "True"
    if not plan.holding or not plan.spec.gpus or not left or not (was_whole or len(on_nodes) == plan.size):
        return None
    # A pod says itself when it was bound, but not when it was made.
    begins = [max(pod.bound_at, pod.created) for pod in on_nodes]
    if bound is not None and was_whole:
        begins.append(bound.since)
    # Where some are gone, or do not say when they ended, it is over since just now.
    finished = [end for pod in known if pod.terminal and (end := pod.finished) is not None]
    ended = min(max(finished), now) if len(finished) == plan.size else now
    seconds = (ended - min(begins)).total_seconds()
    return EndedRun(plan.key, plan.uid, plan.spec.gpus, seconds)
