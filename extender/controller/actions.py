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

from extender.cluster_api.client import Document
from extender.gangs.types import GangKey
from extender.kubernetes_names import GATE
from extender.plans.gang_history import EndedRun
from extender.plans.gang_plan import GangPlan
from topology.kubernetes.pods import RELEASED, Pod


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

    pod: Pod
    node: str
    mark: str


@dataclass(frozen=True, slots=True)
class NotifyPod:
    """Tell a pod without the gate that it has a node: kube-scheduler asks again when its status changes."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Recreate:
    """Delete a pod pinned where its rank is no more, for its controller to make anew; without one, tell its owner."""

    pod: Pod
    why: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a pod that said it may be stopped: its whole gang is, to make room for another."""

    pod: Pod
    why: str


@dataclass(frozen=True, slots=True)
class RepairAction:
    """Find other nodes for some ranks, moving as little as possible, and write the plan."""

    plan: GangPlan
    lost: tuple[str, ...]  # nodes that its unbound ranks cannot have; those of vacant ranks are not among them
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


def release_mark(key: GangKey, size: int) -> str:
    """Return the value of the label on pods that were released as members of a gang of so many pods.

    Names are their users' choice: 16 bytes, so that no two can be found that have the same.
    """
    return blake2b(f"{key}/{size}".encode(), digest_size=16).hexdigest()


def release_patch(pod: Pod, node: str, mark: str) -> list[Document]:
    """Return the JSON patch (RFC 6902) that ungates, pins and marks a pod, or raise ``ValueError``: no gate of ours."""
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    gate = f"/spec/schedulingGates/{gates.index(GATE)}"
    unchanged: Document = {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version}
    patch: list[Document] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{gate}/name", "value": GATE},
    ]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    pin = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity, required = pod.spec.affinity, "requiredDuringSchedulingIgnoredDuringExecution"
    if affinity is None:
        patch.append({"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": {required: pin}}})
    elif affinity.node_affinity is None:
        patch.append({"op": "add", "path": "/spec/affinity/nodeAffinity", "value": {required: pin}})
    elif not affinity.node_affinity.required:
        patch.append({"op": "add", "path": f"/spec/affinity/nodeAffinity/{required}", "value": pin})
    else:
        patch.append(unchanged)
        for i, term in enumerate(affinity.node_affinity.required.node_selector_terms or ()):
            # an empty term, left as it is, matches no node; with the field it would match
            fields = f"/spec/affinity/nodeAffinity/{required}/nodeSelectorTerms/{i}/matchFields"
            if term.match_fields:
                patch.append({"op": "add", "path": f"{fields}/-", "value": field})
            elif term.match_expressions:
                patch.append({"op": "add", "path": fields, "value": [field]})
    if pod.labels:
        patch.append({"op": "add", "path": f"/metadata/labels/{RELEASED.replace('/', '~1')}", "value": mark})
    else:
        patch += [unchanged, {"op": "add", "path": "/metadata/labels", "value": {RELEASED: mark}}]
    return [*patch, {"op": "remove", "path": gate}]
