"""Nodes, as far as scheduling goes."""

from __future__ import annotations

from extender.objects.common import Amounts, Metadata, Object


class Taint(Object, frozen=True):
    """Why pods should stay away."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Object, frozen=True):
    """What an administrator wants of a node."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Condition(Object, frozen=True):
    """A finding of the kubelet or of others about a node."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class NodeStatus(Object, frozen=True):
    """How a node is."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


class Node(Object, frozen=True):
    """A node, as far as scheduling goes."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels or {}
