"""A gang and its plan side by side: what of each rank is there, released, bound, lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from extender.gangs.types import Gang
from extender.kubernetes_names import GATE
from extender.plans.gang_plan import GangPlan, canonical_uid
from topology.readers.kubernetes_pods import Pod


@dataclass(frozen=True)
class PlanProgress:
    """One gang with a plan that has nodes.

    A rank is *done* when its pod has succeeded: it counts as bound and wants nothing.
    """

    gang: Gang
    plan: GangPlan

    @cached_property
    def matching(self) -> bool:
        """Whether the gang's ranks are known and are as many as the plan has nodes."""
        return len(self.gang.members) == len(self.plan.nodes)

    @cached_property
    def pods(self) -> tuple[tuple[int, Pod, str], ...]:
        """Rank, pod and planned node of each rank that has a pod.

        While the gang's ranks cannot be told (a pod too many, or one missing), those of the pods that the plan names.
        """
        nodes = self.plan.nodes
        if self.matching:
            ranks = enumerate(self.gang.members)
            return tuple((rank, member.pod, nodes[rank]) for rank, member in ranks if member is not None)
        known = self.plan.rank_of_pod
        found = ((known.get(canonical_uid(pod.uid)), pod) for pod in self.gang.needed_pods)
        return tuple((rank, pod, nodes[rank]) for rank, pod in found if rank is not None and rank < len(nodes))

    @cached_property
    def strangers(self) -> dict[int, str]:
        """Ranks that have another pod than the plan says, and its UID."""
        if not self.matching:
            return {}
        planned = self.plan.pods or (None,) * len(self.plan.nodes)
        return {rank: pod.uid for rank, pod, _ in self.pods if planned[rank] != canonical_uid(pod.uid)}

    @cached_property
    def gated(self) -> tuple[tuple[int, Pod, str], ...]:
        """Pods that still wait behind our gate."""
        return tuple(one for one in self.pods if one[1].node is None and one[1].gated_by(GATE))

    @cached_property
    def bound(self) -> frozenset[int]:
        """Ranks with a pod on a node, or done."""
        done = self.gang.done if self.matching else frozenset()
        return done | {rank for rank, pod, _ in self.pods if pod.node is not None}

    @cached_property
    def started(self) -> bool:
        """Whether a pod was released or bound: a new plan would not be free to choose its node."""
        return any(pod.node is not None or pod.released for _, pod, _ in self.ungated)

    @property
    def ungated(self) -> Iterator[tuple[int, Pod, str]]:
        """Pods that do not wait behind our gate."""
        return (one for one in self.pods if one[1].node is not None or not one[1].gated_by(GATE))

    @cached_property
    def outdated(self) -> tuple[tuple[int, Pod, str], ...]:
        """Released pods pinned to the node that their rank had before; pods written with a pin would come back so."""
        return tuple(one for one in self._pinned_elsewhere if one[1].owner is not None and one[1].released)

    @cached_property
    def misplaced(self) -> tuple[tuple[int, Pod, str], ...]:
        """Other pods without the gate that are pinned to another node than planned, and not bound."""
        return tuple(one for one in self._pinned_elsewhere if one not in self.outdated)

    @cached_property
    def _pinned_elsewhere(self) -> tuple[tuple[int, Pod, str], ...]:
        return tuple(
            (rank, pod, node)
            for rank, pod, node in self.ungated
            if pod.node is None and (pin := pod.pin) is not None and pin != node
        )

    @cached_property
    def off_plan(self) -> tuple[tuple[int, Pod, str], ...]:
        """Pods that are bound to another node than planned."""
        return tuple(one for one in self.pods if one[1].node not in (None, one[2]))
