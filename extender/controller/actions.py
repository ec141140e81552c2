"""Actions: what the controller may do; decisions make them, the loop carries them out.

Each is idempotent, or fails without harm when it comes too late: writes name the version that they were decided on,
patches test the pod's UID and its gate.

A release takes the scheduling gate off a pod and pins it to its node.  A gated pod may have its node affinity narrowed,
never widened (KEP-3838): ``matchFields metadata.name In [node]`` is added to every term that the user wrote, or stands
alone where there is none.  ``test`` operations make the patch fail when the pod is another of the same name, or its
gate is off already, or its terms are not those that were read.

A released pod is marked with a label.  Any client may write a pin; by the mark, which an admission policy keeps for the
extender, a pin is known as that of a plan when the plan itself is lost.  What was pinned cannot be pinned otherwise.
The labels that make a pod a gang's member are its owner's to change: so the mark names the gang, and how large it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Literal

from extender import kubernetes_names as names
from extender.cluster_api.client import Document
from extender.gangs.types import GangKey
from extender.plans.gang_history import EndedRun
from extender.plans.gang_plan import GangPlan
from topology.kubernetes.pods import RELEASED, NodeSelector, Pod

# -- actions --
# What the controller may do: decisions make actions, the loop carries them out.
#
# Each is idempotent, or fails without harm when it comes too late: writes name the version that they were decided on,
# patches test the pod's UID and its gate.


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event about a gang; its reason is one word in CamelCase."""

    reason: str
    note: str
    kind: Literal["Normal", "Warning"] = "Normal"


@dataclass(frozen=True, slots=True)
class Write:
    """Write a plan; one that is not urgent only tells people more, and may come a little later."""

    plan: GangPlan
    urgent: bool = True
    events: tuple[EventNote, ...] = ()
    weigh: bool = False  # it does not say what its nodes are worth: that is found out first


@dataclass(frozen=True, slots=True)
class Release:
    """Take the gate off a pod, pin it to its node, and mark it as released with its gang."""

    key: GangKey
    pod: Pod
    node: str
    mark: str


@dataclass(frozen=True, slots=True)
class NotifyPod:
    """Tell a pod without the gate that it has a node: kube-scheduler asks again when its status changes."""

    key: GangKey
    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Recreate:
    """Delete a pod pinned where its rank is no more, for its controller to make anew; without one, tell its owner."""

    key: GangKey
    pod: Pod
    why: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a pod that said it may be stopped: its whole gang is, to make room for another."""

    key: GangKey
    pod: Pod
    why: str


@dataclass(frozen=True, slots=True)
class RepairAction:
    """Find other nodes for some ranks, moving as little as possible, and write the plan."""

    plan: GangPlan
    lost: tuple[str, ...]  # nodes that its unbound ranks cannot have
    why: str
    # no other nodes can be had: this plan then; None = give all nodes back and wait for room
    else_keep: GangPlan | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the plan of a gang that is gone."""

    plan: GangPlan


@dataclass(frozen=True, slots=True)
class Learn:
    """Remember how long a gang ran, before its plan goes."""

    run: EndedRun


Action = Write | Release | NotifyPod | Recreate | Evict | RepairAction | Learn | Forget


@dataclass(slots=True)
class Decision:
    """What to do now, and when to think again if nothing happens."""

    actions: list[Action] = field(default_factory=list)
    wake: datetime | None = None  # the first instant at which the mere passing of time changes something; None = none
    unplaced: list[GangKey] = field(default_factory=list)  # complete gangs without nodes, for the planner

    def wake_by(self, instant: datetime) -> None:
        """Think again at this instant at the latest."""
        self.wake = instant if self.wake is None else min(self.wake, instant)


# -- pod_release --
# The patch that releases a pod: its scheduling gate goes, and it is pinned to its node.
#
# A gated pod may have its node affinity narrowed, never widened (KEP-3838): ``matchFields metadata.name In [node]`` is
# added to every term that the user wrote, or stands alone where there is none.  ``test`` operations make the patch fail
# when the pod is another of the same name, or its gate is off already, or its terms are not those that were read.
#
# A released pod is marked with a label.  Any client may write a pin; by the mark, which an admission policy keeps for
# the extender, a pin is known as that of a plan when the plan itself is lost.  What was pinned cannot be pinned
# otherwise. The labels that make a pod a gang's member are its owner's to change: so the mark names the gang, and how
# large it was.


_LABELS = "/metadata/labels"
_AFFINITY = "/spec/affinity"
_NODES = f"{_AFFINITY}/nodeAffinity"
_REQUIRED_NAME = "requiredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = f"{_NODES}/{_REQUIRED_NAME}"


def release_mark(key: GangKey, size: int) -> str:
    """Return the value of the label on pods that were released as members of a gang of so many pods.

    Names are their users' choice: 16 bytes, so that no two can be found that have the same.
    """
    return blake2b(f"{key}/{size}".encode(), digest_size=16).hexdigest()


def release_patch(pod: Pod, node: str, mark: str) -> list[Document]:
    """Return the JSON patch (RFC 6902) that ungates, pins and marks a pod, or raise ``ValueError``: no gate of ours."""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    place = f"/spec/schedulingGates/{gates.index(names.GATE)}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{place}/name", "value": names.GATE},
        *_pin(pod, node),
        *_mark(pod, mark),
        {"op": "remove", "path": place},
    ]


def _mark(pod: Pod, mark: str) -> list[Document]:
    if pod.labels:
        return [{"op": "add", "path": f"{_LABELS}/{RELEASED.replace('/', '~1')}", "value": mark}]
    return [_unchanged(pod), {"op": "add", "path": _LABELS, "value": {RELEASED: mark}}]


def _unchanged(pod: Pod) -> Document:
    """Return the test that the pod was not written since it was read."""
    return {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version}


def _pin(pod: Pod, node: str) -> list[Document]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod.spec.affinity
    required: Document = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    if affinity is None:
        return [{"op": "add", "path": _AFFINITY, "value": {"nodeAffinity": {_REQUIRED_NAME: required}}}]
    if affinity.node_affinity is None:
        return [{"op": "add", "path": _NODES, "value": {_REQUIRED_NAME: required}}]
    if not affinity.node_affinity.required:
        return [{"op": "add", "path": _REQUIRED, "value": required}]
    return [_unchanged(pod), *_narrowed(affinity.node_affinity.required, field)]


def _narrowed(required: NodeSelector, field: Document) -> list[Document]:
    """Return the operations that add a field to every term but empty ones, which match no node and would match then."""
    operations: list[Document] = []
    for i, term in enumerate(required.node_selector_terms or ()):
        path = f"{_REQUIRED}/nodeSelectorTerms/{i}/matchFields"
        if term.match_fields:
            operations.append({"op": "add", "path": f"{path}/-", "value": field})
        elif term.match_expressions:
            operations.append({"op": "add", "path": path, "value": [field]})
    return operations
