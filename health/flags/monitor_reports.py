"""What monitors of Kubernetes nodes say, as findings: NVSentinel, node problem detector and those of the clouds.

They write node conditions (:mod:`topology.kubernetes.nodes`) for what is broken, and events for
what is odd; with a store a condition that comes and goes is one flag, and its history stays.  NVSentinel names the
reason of all ``<check>IsNotHealthy`` or ``<check>IsHealthy``, so that those of monitors of one's own are known as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ground.documents import load_document
from ground.errors import InvalidInput
from ground.files import Source
from topology.flags import FAULTY, HEALTHY, NodeFlag
from topology.kubernetes.nodes import NVSENTINEL, WARNED, WATCHED, Watched, time_with_zone
from topology.kubernetes.objects import NodeCondition, NodeEvent, NodeObject, read_items
from topology.taints import PREFER_NO_SCHEDULE

MONITORS = tuple(dict.fromkeys(watched.by for watched in WATCHED.values()))  # Names of the monitors that are known
EVENT_AGE = timedelta(hours=1)  # How long an event warns: as long as the API server keeps it by default
LONGEST_MESSAGE = 200  # Most characters that are kept of a message


@dataclass(frozen=True, slots=True)
class Reports:
    """What one monitor says."""

    nodes: int
    flags: tuple[NodeFlag, ...]  # what it holds against nodes, one flag a node
    healthy: tuple[str, ...]  # nodes that it looks at and holds nothing against

    def findings(self, by: str) -> list[NodeFlag]:
        """Return the flags, and an all-clear for each healthy node."""
        return [*self.flags, *(NodeFlag(name, "straggler", HEALTHY, source=by) for name in self.healthy)]


def read_reports(source: Source, *, by: str) -> Reports:
    """Return what a monitor says of nodes in what ``kubectl get nodes,events -A -o json`` prints, events or not."""
    document = load_document(source, several=True)
    command = "kubectl get nodes,events -A -o json"
    items = [item for _, item in read_items(document, {"Node": NodeObject, "Event": NodeEvent}, command=command)]
    nodes = [item for item in items if isinstance(item, NodeObject)]
    events = [item for item in items if isinstance(item, NodeEvent) and _is_about_a_node(item)]
    if not nodes and not events:
        wrong = "holds neither nodes nor events about nodes"
        raise InvalidInput(wrong, where=document.where("items"), fix=f"give what `{command}` prints")
    remarks: dict[str, list[NodeFlag]] = {}
    looked_at: set[str] = set()
    for node in nodes:
        for condition, watched in _conditions(node, by):
            looked_at.add(node.name)
            if condition.status == watched.bad:
                words = condition.type if watched.bad == "True" else f"not {condition.type}"
                since = time_with_zone(condition.last_transition_time)
                remark = _remark(node.metadata.name, by, words, condition.message, since, fault=watched.fault)
                remarks.setdefault(node.name, []).append(remark)
            elif condition.status not in ("True", "False"):
                looked_at.discard(node.name)
                break
    for event in events:
        if (warning := _of_event(event, by)) is not None:
            remarks.setdefault(warning.node, []).append(warning)
    flags = tuple(_flag(found) for _, found in sorted(remarks.items()))
    return Reports(len(nodes), flags, tuple(sorted(looked_at - remarks.keys())))


def _conditions(node: NodeObject, by: str) -> Iterator[tuple[NodeCondition, Watched]]:
    """Yield conditions of a node that the monitor writes."""
    for condition in node.status.conditions or []:
        known = WATCHED.get(condition.type)
        if known is None and condition.reason in (f"{condition.type}IsNotHealthy", f"{condition.type}IsHealthy"):
            known = Watched(NVSENTINEL)
        if known is not None and known.by == by:
            yield condition, known


def _is_about_a_node(event: NodeEvent) -> bool:
    about = event.involved_object
    return about is not None and about.kind == "Node" and bool(about.name)


def _of_event(event: NodeEvent, by: str) -> NodeFlag | None:
    """Return what an event says, if it is one of the monitor's warnings."""
    about, reason = event.involved_object, event.reason or ""
    of_nvsentinel = bool(event.type) and reason == f"{event.type}IsNotHealthy"
    if about is None or about.name is None or (NVSENTINEL if of_nvsentinel else WARNED.get(reason)) != by:
        return None
    last = time_with_zone(event.last_timestamp or event.event_time)
    times = f" ({event.count} times)" if event.count is not None and event.count > 1 else ""
    words = f"event {(event.type or '') if of_nvsentinel else reason}{times}"
    since = time_with_zone(event.first_timestamp) or last
    remark = _remark(about.name, by, words, event.message, since, fault=False)
    return replace(remark, until=None if last is None else last + EVENT_AGE)


def _remark(node: str, by: str, words: str, message: str | None, since: datetime | None, *, fault: bool) -> NodeFlag:
    """Return one thing that is held against a node: a fault, or something as dear as a warning."""
    short = " ".join((message or "").split())
    cut = short if len(short) <= LONGEST_MESSAGE else f"{short[: LONGEST_MESSAGE - 3]}..."
    return NodeFlag(
        node,
        "faulty" if fault else "degraded",
        FAULTY if fault else PREFER_NO_SCHEDULE,
        source=by,
        since=since,
        evidence=f"{words}: {cut}" if short else words,
    )


def _flag(remarks: list[NodeFlag]) -> NodeFlag:
    """Return all that is held against a node as one flag; where anything is broken, the times are those of faults."""
    worst, *_ = remarks = sorted(remarks, key=lambda remark: (-remark.slowdown, remark.evidence))
    counted = [remark for remark in remarks if remark.kind == worst.kind]
    ends = [remark.until for remark in counted if remark.until is not None]
    return replace(
        worst,
        since=min((remark.since for remark in counted if remark.since is not None), default=None),
        until=max(ends) if len(ends) == len(counted) else None,
        evidence="; ".join(dict.fromkeys(remark.evidence for remark in remarks)),
    )
