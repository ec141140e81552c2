"""What is brought into a flag store: the events of another store, and what monitors of Kubernetes nodes say.

Events come as JSON lines, as ``arnold flags export`` and stores of earlier versions write them.  The first line says
what the file is.  A writer of the earlier version that was killed left the beginning of a line at the end: it is left
out and told.  A broken line anywhere else is an error.

Monitors (NVSentinel, node problem detector and those of the clouds) write node conditions
(:mod:`topology.kubernetes.nodes`) for what is broken, and events for what is odd; with a store a condition
that comes and goes is one flag, and its history stays.  NVSentinel names the reason of all ``<check>IsNotHealthy`` or
``<check>IsHealthy``, so that those of monitors of one's own are known as well.

Slurm says of a node that is down or drained why, and who set it so: each of these is a source, ``slurm:USER``.  Of a
node that is in order again all of them give an all-clear.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ground.documents import Document, load_document
from ground.errors import InvalidInput
from ground.files import Source
from ground.records import read_json
from topology.flag_sources import VERSION
from topology.flags import FAULTY, HEALTHY, FlagEvent, NodeFlag
from topology.kubernetes.nodes import NVSENTINEL, WARNED, WATCHED, Watched, time_with_zone
from topology.kubernetes.objects import NodeEvent, NodeObject, read_items
from topology.slurm_nodes import OWN_REASON, Use, by_slurm, use_of
from topology.slurm_snapshot import read_snapshot
from topology.taints import PREFER_NO_SCHEDULE

_FIX = "restore the file from a copy; its lines are written by `arnold flags` alone"


def read_event_lines(source: Source) -> tuple[list[FlagEvent], int]:
    """Read the events of a store, and the bytes of an unfinished line at the end, which is left out.

    :raises InvalidInput: no store, of a later version, a broken line that is not the last, times that go back.
    """
    rows = source.text.split("\n")
    tail, torn = rows.pop(), 0
    try:
        if tail.strip():
            json.loads(tail)
            rows.append(tail)
    except (ValueError, RecursionError):
        torn = len(tail.encode())
    events = list(_events(source, rows))
    if not events or events[0].event != "opened":
        raise InvalidInput("does not begin with the event 'opened'", where=source.at(1), fix="restore it from a copy")
    for number, (event, before) in enumerate(zip(events[1:], events, strict=False), 2):
        if event.event == "opened":
            raise InvalidInput("opens the store again", where=source.at(number), fix="keep one store a file")
        if event.time < before.time:
            problem = f"is of {event.time.isoformat()}, before the line above it"
            raise InvalidInput(problem, where=source.at(number), fix=_FIX)
    return events, torn


def _events(source: Source, rows: list[str]) -> Iterator[FlagEvent]:
    """Yield an event for each line; raise :class:`InvalidInput` for what is none, or no store's first."""
    version: Any = 1
    relapses: dict[object, int] = {}
    for number, row in enumerate(rows, 1):
        try:
            data = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"is no JSON: {error}", where=source.at(number), fix=_FIX) from error
        if number == 1:
            if not isinstance(data, dict) or data.get("arnold") != "flag-store":
                fix = "give a file that `arnold flags export` wrote"
                raise InvalidInput("is no flag store", where=source.at(1), fix=fix)
            version = data.get("version")
            if not isinstance(version, int) or not 1 <= version <= VERSION:
                problem = f"this is version {version} of the format, and {VERSION} is known"
                fix = "use the version of Arnold that wrote it, or a later one"
                raise InvalidInput(problem, where=source.at(1), fix=fix)
        with suppress(TypeError, AttributeError):  # a line of another shape is refused below
            data = _of_version_1(data, relapses) if version == 1 else _without_mark(data)
        try:
            yield read_json(FlagEvent, data)
        except ValueError:
            # says by an error what is wrong with the line, which takes longer than reading it
            Document(source, data, lambda _, line=number: line).parse(FlagEvent)  # type: ignore[misc]
            raise


def _without_mark(data: dict[str, Any]) -> dict[str, Any]:
    """Return a line without what the first one says of the file."""
    return {key: value for key, value in data.items() if key not in ("arnold", "version")}


def _of_version_1(data: dict[str, Any], relapses: dict[object, int]) -> dict[str, Any]:
    """Return a line of version 1 as one of today: flags named neither node nor source, nor counted relapses."""
    about = {"node": data.get("node", ""), "source": data.get("source", "")}
    track = tuple(about.values())
    seen = ("seen", "stated")
    steps = [
        {"flag": about | {key: step[key] for key in step if key not in seen}}
        | {key: step[key] for key in seen if key in step}
        for step in data.get("steps", ())
    ]
    finding = None if data.get("finding") is None else about | data["finding"]
    relapses[track] = data.get("relapses", relapses.get(track, 0) if data.get("by") else 0)
    return _without_mark(data) | {"steps": steps, "finding": finding, "relapses": relapses[track]}


MONITORS = tuple(dict.fromkeys(watched.by for watched in WATCHED.values()))  # Names of the monitors that are known
EVENT_AGE = timedelta(hours=1)  # How long an event warns: as long as the API server keeps it by default
LONGEST_MESSAGE = 200  # Most characters that are kept of a message


@dataclass(frozen=True, slots=True)
class Reports:
    """What one monitor says."""

    nodes: int
    flags: tuple[NodeFlag, ...]  # what it holds against nodes, one flag a node
    healthy: tuple[str, ...]  # nodes that it looks at and holds nothing against

    def all_clears(self, by: str) -> list[NodeFlag]:
        """Return an all-clear for each healthy node."""
        return [NodeFlag(name, "straggler", HEALTHY, source=by) for name in self.healthy]


def read_reports(source: Source, *, by: str) -> Reports:
    """Return what a monitor says of nodes in what ``kubectl get nodes,events -A -o json`` prints, events or not."""
    document = load_document(source, several=True)
    command = "kubectl get nodes,events -A -o json"
    items = [item for _, item in read_items(document, {"Node": NodeObject, "Event": NodeEvent}, command=command)]
    nodes = [item for item in items if isinstance(item, NodeObject)]
    events = [
        item
        for item in items
        if isinstance(item, NodeEvent) and (about := item.involved_object) and about.kind == "Node" and about.name
    ]
    if not nodes and not events:
        problem = "holds neither nodes nor events about nodes"
        raise InvalidInput(problem, where=document.where("items"), fix=f"give what `{command}` prints")
    remarks: dict[str, list[NodeFlag]] = {}
    looked_at, unknown = set[str](), set[str]()
    for node in nodes:
        for condition in node.status.conditions or []:
            watched = WATCHED.get(condition.type)
            if watched is None and condition.reason in (f"{condition.type}IsNotHealthy", f"{condition.type}IsHealthy"):
                watched = Watched(NVSENTINEL)
            if watched is None or watched.by != by:
                continue
            looked_at.add(node.name)
            if condition.status == watched.bad:
                words = condition.type if watched.bad == "True" else f"not {condition.type}"
                since = time_with_zone(condition.last_transition_time)
                remark = _remark(node.metadata.name, by, words, condition.message, since, fault=watched.fault)
                remarks.setdefault(node.name, []).append(remark)
            elif condition.status not in ("True", "False"):
                unknown.add(node.name)
    for event in events:
        if (warning := _of_event(event, by)) is not None:
            remarks.setdefault(warning.node, []).append(warning)
    flags = []
    for _, of_node in sorted(remarks.items()):
        # all as one flag; where anything is broken, the times are those of faults
        worst, *_ = ordered = sorted(of_node, key=lambda remark: (-remark.slowdown, remark.evidence))
        counted = [remark for remark in ordered if remark.kind == worst.kind]
        ends = [remark.until for remark in counted if remark.until is not None]
        flag = replace(
            worst,
            since=min((remark.since for remark in counted if remark.since is not None), default=None),
            until=max(ends) if len(ends) == len(counted) else None,
            evidence="; ".join(dict.fromkeys(remark.evidence for remark in ordered)),
        )
        flags.append(flag)
    return Reports(len(nodes), tuple(flags), tuple(sorted(looked_at - unknown - remarks.keys())))


def read_slurm(source: Source) -> Reports:
    """Return what Slurm holds against nodes in what ``scontrol show nodes`` prints; what we told it is left out.

    :raises InvalidInput: it says no states of nodes.
    """
    said = read_snapshot(source, ())
    if said is None or not said.nodes:
        fix = "give what `scontrol show nodes --oneliner` prints"
        raise InvalidInput("says no states of nodes", where=source.name, fix=fix)
    unusable = [node for node in said.nodes if use_of(node.state) is Use.UNUSABLE]
    flags = without_ours(node.reason.flag(node.name, node.in_words) for node in unusable)
    bad = {node.name for node in unusable}
    return Reports(len(said.nodes), tuple(flags), tuple(node.name for node in said.nodes if node.name not in bad))


def without_ours(flags: Iterable[NodeFlag]) -> list[NodeFlag]:
    """Return flags without those for which Slurm repeats what Arnold told it."""
    return [flag for flag in flags if not (by_slurm(flag) and flag.evidence.startswith(OWN_REASON))]


def cleared_by_slurm(reports: Reports, held: Iterable[NodeFlag]) -> list[NodeFlag]:
    """Return an all-clear of each of Slurm's users who holds something against a node that is out of work by another
    one now, or not at all; of nodes that were not listed none.
    """
    now = {(flag.node, flag.source) for flag in reports.flags}
    listed = {*reports.healthy, *(flag.node for flag in reports.flags)}
    return [
        NodeFlag(flag.node, "straggler", HEALTHY, source=flag.source)
        for flag in held
        if by_slurm(flag) and flag.node in listed and (flag.node, flag.source) not in now
    ]


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
