"""Whom to stop so that a gang without room has room: whole gangs and pods that said they may be stopped.

The policy names them, and the solver must find that it helps.  What is leaving already is waited for first, so that
nobody is stopped twice over for one gang.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from extender.cluster_cache import ClusterCache as State
from extender.gangs import GangKey
from extender.planner.question import Question
from extender.queueing import Floor, Running, Waiting, key_of_pod
from scheduler.queue.types import QueuePolicy
from topology.readers.kubernetes_pods import Pod


@dataclass(frozen=True)
class Stopping:
    """Who would have to stop.

    :param question: about the same gang, on the cluster without them; nobody is stopped unless it has room there.
    :param gangs: those of them that are gangs.
    :param pods: those that are single pods.
    """

    question: Question
    gangs: tuple[GangKey, ...]
    pods: tuple[Pod, ...]


def stopping(
    state: State, policy: QueuePolicy, question: Question, candidate: Waiting, *, usable: frozenset[str], now: datetime
) -> Stopping | None:
    """Whom a policy would stop for a gang that has no room; ``None`` = nobody, or only those that leave already.

    :param usable: names of the nodes that the gang could use if the cluster were empty.
    """
    if question.cluster is None:
        return None
    floor = Floor(state, now, {candidate.key: usable})
    victims = {one.key: one for one in policy.victims(candidate, floor) if isinstance(one, Running)}
    if not victims:
        return None
    gangs = tuple(key for key in sorted(victims) if _stays(state, key))
    pods = tuple(
        pod
        for uid, pod in sorted(state.pods.items())
        if state.member(uid) is None and key_of_pod(pod) in victims and not pod.leaving and not pod.terminal
    )
    if not gangs and not pods:
        return None
    held = Counter[str]()
    for one in victims.values():
        held.update({state.fleet.table.hosts[row].name: one.gpus for row in one.places})
    cluster = question.cluster
    more = np.array([held[name] for name in cluster.names], dtype=np.int32)
    freed = cluster.replace(free_gpus=np.minimum(cluster.gpus, cluster.free_gpus + more))
    return Stopping(replace(question, cluster=freed), gangs, pods)


def _stays(state: State, key: GangKey) -> bool:
    """Whether a gang still has nodes, or pods on nodes that are not leaving."""
    gang, plan = state.gang(key), state.plans.get(key)
    if gang is None:
        return False
    here = any(pod.node is not None and not pod.leaving and not pod.terminal for pod in gang.pods)
    return here or (plan is not None and plan.holding)
