"""GangPlans, read as anybody could who has only their description."""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.harness.client import Client

IN_LINE = "InLine"
"""Reason of a gang that stands in the queue and was not looked at yet."""
HOLDING = ("Planned", "Released", "Bound")
"""Phases in which the nodes are promised to the gang."""


@dataclass(frozen=True, slots=True)
class GangPlan:
    """What a GangPlan says.

    :param nodes: node of each rank.
    :param pods_per_node: ranks in turn that have the same node.
    :param pods: UID of each rank's pod, empty where a rank has none.
    """

    namespace: str
    name: str
    phase: str
    message: str
    nodes: tuple[str, ...]
    pods: tuple[str, ...]
    status: Mapping[str, Any]
    pods_per_node: int = 1

    @property
    def holding(self) -> bool:
        """Whether its nodes are promised."""
        return self.phase in HOLDING

    @property
    def promised(self) -> tuple[str, ...]:
        """The node of each rank that it promises; empty where the rank has ended, or none is promised."""
        ended = {*self.status.get("ended", ())} if self.holding else {*range(len(self.nodes))}
        return tuple("" if rank in ended else node for rank, node in enumerate(self.nodes))

    @property
    def gave_back(self) -> bool:
        """Whether it says that the nodes of its gang's released pods are theirs no more."""
        remembered = bool(self.nodes) and not self.holding
        conditions = self.status.get("conditions", [])
        return remembered or any(it["type"] == "Released" and it["status"] == "False" for it in conditions)

    def condition(self, kind: str) -> Mapping[str, Any]:
        """The condition of a type."""
        found: Mapping[str, Any] = next(it for it in self.status["conditions"] if it["type"] == kind)
        return found


def all_plans(client: Client, namespace: str | None = None) -> list[GangPlan]:
    """All plans, of one namespace or of all."""
    return [read_plan(thing) for thing in client.all("gangplans", namespace)]


def plan_of(client: Client, gang: str, namespace: str) -> GangPlan | None:
    """The plan of a gang, if it has one."""
    return next((plan for plan in all_plans(client, namespace) if plan.name == gang), None)


def plan_in(client: Client, gang: str, namespace: str, *phases: str) -> GangPlan | None:
    """The plan of a gang, if it is in one of these phases."""
    plan = plan_of(client, gang, namespace)
    return plan if plan is not None and plan.phase in phases else None


def judged(client: Client, gang: str, namespace: str) -> GangPlan | None:
    """The plan of a gang that waits, if the solver was asked about it; before, it says that its turn will come."""
    plan = plan_in(client, gang, namespace, "Queued")
    return plan if plan is not None and plan.status.get("reason") != IN_LINE else None


def read_plan(thing: Mapping[str, Any]) -> GangPlan:
    """A plan from its object: names are base64 of zlib of lines, UIDs base64 of 16 bytes each."""
    status = thing.get("status", {})
    assignment = status.get("assignment", {})
    names = zlib.decompress(base64.b64decode(assignment["nodes"])).decode() if "nodes" in assignment else ""
    packed = base64.b64decode(assignment.get("pods", ""))
    uids = [packed[start : start + 16] for start in range(0, len(packed), 16)]
    return GangPlan(
        namespace=thing["metadata"]["namespace"],
        name=thing["spec"]["gang"],
        phase=status.get("phase", ""),
        message=status.get("message", ""),
        nodes=tuple(names.split("\n")) if names else (),
        pods=tuple(str(uuid.UUID(bytes=uid)) if any(uid) else "" for uid in uids),
        status=status,
        pods_per_node=status.get("podsPerNode", 1),
    )


def spread(domains: Sequence[str], *, dp: int) -> tuple[int, int]:
    """(S, R) of a gang: the most domains that a DP group and a PP group touch.

    :param domains: domain of the node of each rank; rank r is cell (r mod dp, r div dp).
    """
    ranks = range(len(domains))
    columns = [{domains[rank] for rank in ranks if rank // dp == stage} for stage in range(len(domains) // dp)]
    rows = [{domains[rank] for rank in ranks if rank % dp == row} for row in range(dp)]
    return max(map(len, columns)), max(map(len, rows))
