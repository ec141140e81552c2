"""What a gang without room would have stopped: whole gangs, and single pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.cluster_cache import ClusterCache
from extender.gangs.types import GangKey
from extender.queueing import RunningEntry, key_of_pod
from topology.kubernetes.pods import Pod


@dataclass(frozen=True)
class Stopping:
    """Whole gangs, in this order, and single pods that may be stopped, and would have to for a gang to have room."""

    gangs: tuple[GangKey, ...]
    pods: tuple[Pod, ...]
    nodes: Mapping[GangKey, frozenset[str]]  # those that each gang holds

    def on(self, nodes: Sequence[str]) -> Stopping:
        """Return those that hold any of some nodes: the others need not be stopped."""
        gangs = tuple(one for one in self.gangs if not self.nodes[one].isdisjoint(nodes))
        return Stopping(gangs, tuple(pod for pod in self.pods if pod.node in nodes), self.nodes)


def stopping_of(state: ClusterCache, entries: Sequence[RunningEntry]) -> Stopping:
    """Return those of some that run and are not leaving already."""
    stay = {one.key for one in entries if not one.leaving}
    gangs = tuple(one.key for one in entries if one.key in stay and state.gang(one.key) is not None)
    pods = tuple(
        pod
        for uid, pod in sorted(state.pods.items())
        if state.member(uid) is None and key_of_pod(pod) in stay and not pod.leaving and not pod.terminal
    )
    hosts = state.fleet.table.hosts
    return Stopping(gangs, pods, {one.key: frozenset(hosts[row].name for row in one.places) for one in entries})
