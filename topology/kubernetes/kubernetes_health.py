"""What Kubernetes says against a node: rules shared by the reader of node lists and by the live cluster.

A *fault* keeps new pods away.  A taint ``PreferNoSchedule`` is a price: the node may be used, at
:data:`PREFER_NO_SCHEDULE` times the step time, so that a spread that saves more than that still takes it.  The
annotation ``arnold.dev/slowdown`` (a factor, or ``faulty``) grades a node until ``arnold.dev/slowdown-until``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from topology.errors import InvalidTopology
from topology.flags import FAULTY, HEALTHY, WARNING, FlagKind, NodeFlag, parse_slowdown
from topology.kubernetes.kubernetes_gpus import GPUS
from topology.kubernetes.kubernetes_objects import NodeCondition, Taint

SLOWDOWN = "arnold.dev/slowdown"  # Annotation of a node: a factor of at least 1, or faulty
SLOWDOWN_UNTIL = "arnold.dev/slowdown-until"  # Annotation of a node: when its slowdown ends, RFC 3339 with a time zone
PREFER_NO_SCHEDULE = WARNING
"""Slowdown that stands for a taint PreferNoSchedule: the node is healthy as far as anyone knows, so it is priced below
any slowdown that detectors report (they start at 1.1), and above nothing."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a node condition of some monitor means."""

    by: str  # the monitor
    bad: str = "True"  # the status that says that something is wrong
    fault: bool = True  # whether that keeps new pods away; otherwise it is a warning


NPD, NVSENTINEL = "node-problem-detector", "nvsentinel"

_WATCHED = {
    # GPU checks of AKS (learn.microsoft.com/azure/aks/gpu-health-monitoring), by node problem detector
    Watched(NPD): """
        GPUMissing IBLinkFlapping NVLinkStatusInactive UnhealthyNvidiaDCGMServices UnhealthyNvidiaDevicePlugin XIDErrors
        FilesystemCorruptionProblem KubeletProblem ContainerRuntimeProblem
        KernelDeadlock ReadonlyFilesystem XfsShutdown KubeletUnhealthy ContainerRuntimeUnhealthy""",
    # services that are restarted often: pods may run on, and start slowly
    Watched(NPD, fault=False): """
        FrequentKubeletRestart FrequentContainerdRestart FrequentDockerRestart FrequentUnregisterNetDevice
        CorruptDockerOverlay2""",
    # NVSentinel (github.com/NVIDIA/NVSentinel), GPU, syslog and NIC monitors: fatal findings become conditions
    Watched(NVSENTINEL): """
        GpuAllWatch GpuDcgmConnectivityFailure GpuDriverWatch GpuInforomWatch GpuMcuWatch GpuMemWatch GpuNvlinkWatch
        GpuNvswitchFatalWatch GpuPcieWatch GpuPmuWatch GpuPowerWatch GpuSmWatch GpuThermalWatch SysLogsGPUFallenOff
        SysLogsNICDriverError SysLogsSXIDError SysLogsXIDError InfiniBandStateCheck InfiniBandDegradationCheck
        EthernetStateCheck EthernetDegradationCheck""",
    # Nebius managed Kubernetes (docs.nebius.com/kubernetes/maintenance/health-checks)
    Watched("nebius"): "NebiusGPUError",
    # the EKS node monitoring agent
    Watched("eks", bad="False"): "AcceleratedHardwareReady",
}

WATCHED: Mapping[str, Watched] = {name: what for what, names in _WATCHED.items() for name in names.split()}
"""Node conditions of the monitors that are known, by type; AKS and others run node problem detector
(github.com/kubernetes/node-problem-detector, ``config/``; learn.microsoft.com/azure/aks/node-problem-detector)."""

WARNED: Mapping[str, str] = dict.fromkeys(
    ("Ext4Error", "IOError", "KernelOops", "MemoryReadError", "TaskHung", "UnregisterNetDevice"), NPD
)
"""Events about nodes that warn of the node itself, reason -> monitor.  ``OOMKilling`` is the doing of a job."""


def repels(taint: Taint) -> bool:
    """Return whether a taint keeps pods of GPU jobs away that do not tolerate it; they tolerate the taint of GPUs."""
    return taint.effect in ("NoSchedule", "NoExecute") and taint.key not in GPUS


def broken(conditions: Iterable[NodeCondition]) -> Iterator[str]:
    """Yield what the conditions say is broken, one phrase each."""
    for condition in conditions:
        if condition.type == "Ready" and condition.status != "True":
            yield "not Ready"
        elif (known := WATCHED.get(condition.type)) is not None and known.fault and condition.status == known.bad:
            yield condition.type if known.bad == "True" else f"not {condition.type}"


def faults(
    *,
    unschedulable: bool,
    conditions: Iterable[NodeCondition],
    gpus: int,
    allocatable: int,
    repelling: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """Yield why no new pod may use a node, one phrase each; repelling are taints that the job does not tolerate."""
    if unschedulable:
        yield "cordoned"
    yield from broken(conditions)
    if allocatable < gpus:
        yield f"{gpus - allocatable} of {gpus} GPUs are not allocatable"
    for key, value in sorted(repelling):
        yield f"taint {key}={value}" if value else f"taint {key}"


def discourages(taint: Taint) -> bool:
    """Return whether a taint asks pods of GPU jobs that do not tolerate it to stay away if they can."""
    return taint.effect == "PreferNoSchedule" and taint.key not in GPUS


def price_flag(node: str, discouraging: Iterable[tuple[str, str]]) -> NodeFlag | None:
    """Return what taints (key, value) PreferNoSchedule cost that the job does not tolerate; ``None`` without any."""
    keys = sorted({key for key, _ in discouraging})
    if not keys:
        return None
    evidence = f"taint {', '.join(keys)} with effect PreferNoSchedule"
    return NodeFlag(node, "degraded", PREFER_NO_SCHEDULE, source="kubernetes", evidence=evidence)


def annotated_flag(node: str, annotations: Mapping[str, str]) -> NodeFlag | None:
    """Return the flag in the annotations of a node; an error about one of them has it as its place."""
    text = annotations.get(SLOWDOWN)
    if text is None:
        return None
    try:
        slowdown = parse_slowdown(text)
    except ValueError:
        raise _unreadable(node, SLOWDOWN, text, "write a factor such as 1.3, or faulty") from None
    until = annotations.get(SLOWDOWN_UNTIL)
    end = time_with_zone(until)
    if until is not None and end is None:
        raise _unreadable(node, SLOWDOWN_UNTIL, until, "write a time such as 2026-11-21T18:00:00Z")
    if slowdown == HEALTHY:
        return None
    kind: FlagKind = "faulty" if slowdown == FAULTY else "straggler"
    return NodeFlag(node, kind, slowdown, source=f"annotation {SLOWDOWN}", until=end)


def time_with_zone(text: str | None) -> datetime | None:
    """Read a time with a time zone; ``None`` = it is none."""
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None


def _unreadable(node: str, key: str, text: str, fix: str) -> InvalidTopology:
    return InvalidTopology(f"annotation {key} of node {node!r} is {text[:40]!r}", where=key, fix=fix)
