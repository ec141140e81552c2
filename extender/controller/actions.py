"""Actions: what the controller may do; decisions make them, the loop carries them out.

Each is idempotent, or fails without harm when it comes too late: writes name the version that they were decided on, or
the pod's UID.

A release nominates a node for a pod (``status.nominatedNodeName``), which kube-scheduler tries first and alone, and
takes the scheduling gate off; the second patch names the version that the first has made.  A nomination binds nobody,
so it can be changed as long as the pod is on no node; that it gets no other is Filter's to see.  A node affinity would
see to it too, but nobody can widen one again (KEP-3838): pods would have to die to move.

A released pod is marked with a label, and an annotation names its node.  Both are kept for the extender by an admission
policy: by them a node is known as that of a plan when the plan itself is lost, and a replica that has old news is known
by what kube-scheduler knows better.  The labels that make a pod a gang's member are its owner's to change: so the mark
names the gang, and how large it was.
"""

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Literal

from extender.cluster_api.client import Document
from extender.gangs.types import GangKey
from extender.kubernetes_names import GATE
from extender.plans.gang_history import EndedRun
from extender.plans.gang_plan import GangPlan
from topology.kubernetes.pods import NODE, RELEASED, Pod


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
    """Nominate a node for a pod, take its gate off, and mark it as released to the node with its gang."""

    pod: Pod
    node: str
    mark: str


@dataclass(frozen=True, slots=True)
class NotifyPod:
    """Tell a pod without the gate which node it has, perhaps another: kube-scheduler asks again then."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Stop a pod, by itself or as all of its gang, to make room for another: by its own word, or by its priority."""

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


Action = Write | Release | NotifyPod | Evict | RepairAction | Learn | Forget


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


def release_patch(pod: Pod, node: str, mark: str, *, version: str) -> Document:
    """Return the merge patch (RFC 7386) that ungates and marks a version of a pod.

    Who wrote which field is forgotten: to find that out anew costs the API server a third of the patch, and of a pod
    that has its node nobody applies another version.
    """
    gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates or () if gate.name != GATE]
    metadata = {"uid": pod.uid, "resourceVersion": version, "managedFields": [{}]}
    marks = {"labels": {RELEASED: mark}, "annotations": {NODE: node}}
    return {"metadata": metadata | marks, "spec": {"schedulingGates": gates or None}}
