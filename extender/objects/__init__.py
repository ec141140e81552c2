"""The fields of Kubernetes objects that we read, as typed structs decoded straight from JSON bytes.

Everything else is skipped while parsing: a pod keeps some 1 kB instead of 10.  The structs are frozen; a changed object
is a new one.  Field names are those of Kubernetes, in Python's case.
"""

from __future__ import annotations

from extender.objects.common import START_OF_TIME, Amounts, Metadata, OwnerReference, instant
from extender.objects.decoding import decode_node, decode_owner, decode_pod
from extender.objects.nodes import Condition, Node, NodeSpec, NodeStatus, Taint
from extender.objects.owners import Owner, OwnerSpec, ReplicatedJob
from extender.objects.pods import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    Pod,
    PodSpec,
    PodStatus,
    Requirement,
    SchedulingGate,
    SchedulingGroup,
    SelectorTerm,
    Toleration,
    WorkloadRef,
)

__all__ = [
    "START_OF_TIME",
    "Affinity",
    "Amounts",
    "Condition",
    "Container",
    "Metadata",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSpec",
    "NodeStatus",
    "Owner",
    "OwnerReference",
    "OwnerSpec",
    "Pod",
    "PodSpec",
    "PodStatus",
    "ReplicatedJob",
    "Requirement",
    "SchedulingGate",
    "SchedulingGroup",
    "SelectorTerm",
    "Taint",
    "Toleration",
    "WorkloadRef",
    "decode_node",
    "decode_owner",
    "decode_pod",
    "instant",
]
