"""What monitors of Kubernetes nodes say, taken in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from arnold.commands.flags import MONITORS as OFFERED
from ground.errors import InvalidInput
from ground.files import Source
from health.flags.imports import MONITORS, Reports, read_reports
from topology.flags import FAULTY, NodeFlag


def node(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    """A Node of which only the conditions matter."""
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": list(conditions)}}


def condition(kind: str, status: str, **fields: Any) -> dict[str, Any]:
    """A condition, as monitors write it."""
    return {"type": kind, "status": status, "lastTransitionTime": "2026-11-20T10:00:00Z", **fields}


def event(name: str, **fields: Any) -> dict[str, Any]:
    """An Event about a node."""
    times = {"firstTimestamp": "2026-11-20T09:00:00Z", "lastTimestamp": "2026-11-20T10:00:00Z"}
    about = {"kind": "Node", "name": name}
    return {"kind": "Event", "metadata": {"name": f"{name}.17a"}, "involvedObject": about, **times, **fields}


def reported(by: str, *items: dict[str, Any]) -> Reports:
    """What a monitor says."""
    return read_reports(Source("nodes", json.dumps({"kind": "List", "items": items})), by=by)


def test_a_fatal_finding_of_nvsentinel_is_a_faulty_node() -> None:
    """Its condition True is bad; the message and the time are the evidence."""
    message = "ErrorCode:DCGM_FR_FAULTY_MEMORY GPU:0 failure  Recommended Action=CONTACT_SUPPORT;"
    bad = condition("GpuMemWatch", "True", reason="GpuMemWatchIsNotHealthy", message=message)
    (flag,) = reported("nvsentinel", node("n1", condition("Ready", "True"), bad)).flags
    assert (flag.node, flag.kind, flag.slowdown, flag.source) == ("n1", "faulty", FAULTY, "nvsentinel")
    assert flag.since == datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert flag.until is None
    assert flag.evidence.startswith("GpuMemWatch: ErrorCode:DCGM_FR_FAULTY_MEMORY GPU:0 failure Recommended")


def test_monitors_of_ones_own_are_known_by_their_reason() -> None:
    """NVSentinel calls every reason <check>IsNotHealthy; a condition of the same kind by somebody else is not its."""
    theirs = condition("MyCheck", "True", reason="MyCheckIsNotHealthy")
    other = condition("MyCheck", "True", reason="Broken")
    assert [flag.node for flag in reported("nvsentinel", node("n1", theirs), node("n2", other)).flags] == ["n1"]


def test_an_event_of_nvsentinel_is_a_small_price_for_an_hour() -> None:
    """Findings that are not fatal become events, with the check as their type."""
    words = {"type": "GpuThermalWatch", "reason": "GpuThermalWatchIsNotHealthy", "message": "throttling", "count": 3}
    (flag,) = reported("nvsentinel", event("n1", **words)).flags
    assert (flag.kind, flag.slowdown) == ("degraded", 1.05)
    assert flag.evidence == "event GpuThermalWatch (3 times): throttling"
    assert flag.until == datetime(2026, 11, 20, 11, tzinfo=UTC)


def test_node_problem_detector_tells_breakdowns_from_warnings() -> None:
    """A deadlocked kernel excludes; a kubelet that restarts often, and memory errors that were corrected, are a price;
    a job that ran out of memory says nothing of the node.
    """
    found = reported(
        "node-problem-detector",
        node("n1", condition("KernelDeadlock", "True", reason="DockerHung"), condition("GpuMemWatch", "True")),
        node("n2", condition("FrequentKubeletRestart", "True"), condition("KernelDeadlock", "False")),
        node("n3", condition("KernelDeadlock", "False")),
        event("n4", reason="MemoryReadError", type="Warning", message="CE memory read error on CPU_SrcID#0"),
        event("n5", reason="OOMKilling", type="Warning"),
    )
    assert [(flag.node, flag.slowdown) for flag in found.flags] == [("n1", FAULTY), ("n2", 1.05), ("n4", 1.05)]
    assert found.flags[0].evidence == "KernelDeadlock"
    assert (found.nodes, found.healthy) == (3, ("n3",))


def test_all_that_is_held_against_a_node_is_one_flag() -> None:
    """The breakdown counts, the warning is told with it; an event does not end what is broken."""
    bad, worse = condition("GpuMemWatch", "True"), condition("GpuNvlinkWatch", "True")
    warning = event("n1", type="GpuThermalWatch", reason="GpuThermalWatchIsNotHealthy")
    (flag,) = reported("nvsentinel", warning, node("n1", bad, worse)).flags
    assert (flag.kind, flag.until) == ("faulty", None)
    assert flag.evidence == "GpuMemWatch; GpuNvlinkWatch; event GpuThermalWatch"


def test_healthy_unknown_and_not_looked_at() -> None:
    """An all-clear needs every condition of the monitor to be good; unknown is neither; others' do not count."""
    good, unknown = condition("GpuMemWatch", "False"), condition("GpuSmWatch", "Unknown")
    found = reported("nvsentinel", node("n1", good), node("n2", good, unknown), node("n3"), node("n4", unknown, good))
    assert (found.flags, found.healthy) == ((), ("n1",))
    assert found.all_clears("nvsentinel") == [NodeFlag("n1", "straggler", 1.0, source="nvsentinel")]


def test_what_is_not_known_hides_no_breakdown() -> None:
    """A check without an answer beside one that found something, in either order: what was found counts."""
    unknown, bad = condition("KernelDeadlock", "Unknown"), condition("ReadonlyFilesystem", "True")
    reports = reported("node-problem-detector", node("n1", unknown, bad), node("n2", bad, unknown))
    assert [(flag.node, flag.kind) for flag in reports.flags] == [("n1", "faulty"), ("n2", "faulty")]
    assert reports.healthy == ()


def test_a_condition_that_is_good_when_true() -> None:
    """The EKS agent's."""
    found = reported("eks", node("n1", condition("AcceleratedHardwareReady", "False", message="XID 79")))
    assert [(flag.slowdown, flag.evidence) for flag in found.flags] == [
        (FAULTY, "not AcceleratedHardwareReady: XID 79")
    ]


def test_events_about_pods_and_strange_times() -> None:
    """Only events about nodes count; a time that cannot be read is none, and leaves the end open."""
    pod = event("n1", reason="IOError") | {"involvedObject": {"kind": "Pod", "name": "n1"}}
    odd = event("n2", reason="IOError", type="Warning", lastTimestamp="yesterday", firstTimestamp=None)
    (flag,) = reported("node-problem-detector", pod, odd).flags
    assert (flag.node, flag.since, flag.until) == ("n2", None, None)


def test_long_messages_are_cut() -> None:
    """The store is no log."""
    (flag,) = reported("nvsentinel", node("n1", condition("GpuMemWatch", "True", message="x" * 5000))).flags
    assert len(flag.evidence) == len("GpuMemWatch: ") + 200


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", "holds no items"),
        ('{"items": []}', "neither nodes nor events"),
        ('{"items": [{"kind": "Pod", "metadata": {"name": "p"}}]}', "neither nodes nor events"),
        ('{"items": [{"kind": "Node"}]}', "'metadata' is missing"),
        ('{"items": [{"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": 5}}]}', "expected list"),
        ('{"items": [{"kind": "Node", "met', "truncated"),
        ('[{"kind": "Node", "metadata": {"name": "n1"}}]', "list of objects"),
        ("node,rack\nn1,r1\n", "mapping|list of objects|YAML"),
    ],
)
def test_what_is_no_list_of_nodes(text: str, complaint: str) -> None:
    """Is refused, with its place."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read_reports(Source("nodes", text), by="nvsentinel")
    assert caught.value.where.startswith("nodes")


def test_the_command_offers_every_monitor_of_the_table() -> None:
    """Help lists them without reading the table."""
    assert OFFERED == ("nvsentinel", "node-problem-detector", "nebius", "eks")
    assert {*MONITORS} == {*OFFERED}
