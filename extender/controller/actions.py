"""What the controller may do: decisions make actions, the loop carries them out.

Each is idempotent, or fails without harm when it comes too late: writes name the version that they were decided on,
patches test the pod's UID and its gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from extender.gangs.types import GangKey
from extender.plans.gang_history import EndedRun
from extender.plans.gang_plan import GangPlan
from topology.kubernetes.pods import Pod


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
