"""One node as the fleet sees it: what of a Node object matters to scheduling, found out once per change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from topology.errors import InvalidTopology
from topology.flags import FAULTY, NodeFlag
from topology.readers.kubernetes_health import annotated_flag, broken, discourages, faults, price_flag
from topology.readers.kubernetes_objects import Amounts, NodeObject, Taint, instant, quantity

GONE = "the node is gone"


@dataclass(frozen=True, slots=True)
class Host:
    """A node."""

    name: str
    labels: dict[str, str]
    gpus: int  # GPUs that it has; 0 = it is none of ours
    allocatable: int  # GPUs that its device plugin offers
    ailment: str = ""  # why what runs here is in danger: not Ready, broken; empty = fine
    fault: str = ""  # why no new pod may come, an ailment among others; empty = they may
    cordoned: bool = False
    repelling: tuple[Taint, ...] = ()  # taints NoSchedule and NoExecute
    discouraging: tuple[Taint, ...] = ()  # taints PreferNoSchedule
    annotated: NodeFlag | None = None
    ready_since: datetime | None = None  # when Ready last changed, if it is not True now
    problem: InvalidTopology | None = None

    def ailing(self, now: datetime) -> str:
        """Return why what runs here is in danger, a flag ``faulty`` included; empty = fine."""
        flag = self.annotated
        if not self.ailment and flag is not None and flag.slowdown == FAULTY and flag.active(now):
            return f"flagged faulty by {flag.source}"
        return self.ailment

    def flag(self, now: datetime, discouraging: Iterable[Taint]) -> NodeFlag | None:
        """Return the worst of what is to be said against new pods here, with the taints that they do not tolerate."""
        if self.fault:
            return NodeFlag(self.name, "faulty", FAULTY, source="kubernetes", evidence=self.fault)
        price = price_flag(self.name, ((taint.key, taint.value or "") for taint in discouraging))
        found = [flag for flag in (self.annotated, price) if flag is not None and flag.active(now)]
        return max(found, key=lambda flag: flag.slowdown, default=None)


def host_of(node: NodeObject) -> Host:
    """Return what matters of a node."""
    problem, annotated = None, None
    gpus = allocatable = 0
    try:
        annotated = annotated_flag(node.name, node.metadata.annotations or {})
    except InvalidTopology as error:
        problem = error
    try:
        has = _gpus(node.status.capacity)
        offers = _gpus(node.status.allocatable)
        gpus, allocatable = max(has or 0, offers or 0), (has or 0) if offers is None else offers
    except ValueError as error:
        problem = InvalidTopology(f"node {node.name!r}: {error}", where=node.name, fix="write a whole number of GPUs")
    taints = node.spec.taints or ()
    conditions = node.status.conditions or ()
    ready = next((one for one in conditions if one.type == "Ready"), None)
    return Host(
        name=node.name,
        labels=node.labels,
        gpus=gpus,
        allocatable=allocatable,
        ailment=", ".join(broken(conditions)),
        fault=", ".join(
            faults(
                unschedulable=bool(node.spec.unschedulable),
                conditions=conditions,
                gpus=gpus,
                allocatable=allocatable,
                repelling=(),
            )
        ),
        cordoned=bool(node.spec.unschedulable),
        repelling=tuple(taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")),
        discouraging=tuple(taint for taint in taints if discourages(taint)),
        annotated=annotated,
        ready_since=instant(ready.last_transition_time) if ready is not None and ready.status != "True" else None,
        problem=problem,
    )


def _gpus(amounts: Amounts | None) -> int | None:
    return None if amounts is None or amounts.gpu is None else quantity(amounts.gpu)
