"""What Kubernetes says against a node: rules shared by the reader of node lists and by the live cluster.

A *fault* keeps new pods away.  Taints that people set keep pods off that do not tolerate them (:mod:`topology.taints`);
those that Kubernetes sets are faults.  The annotation ``arnold.dev/slowdown`` (a factor, or ``faulty``) grades a node
until ``arnold.dev/slowdown-until``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from topology.errors import InvalidTopology
from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag, parse_slowdown
from topology.kubernetes.kubernetes_objects import NodeCondition
from topology.taints import Taint

SLOWDOWN = "arnold.dev/slowdown"  # Annotation of a node: a factor of at least 1, or faulty
SLOWDOWN_UNTIL = "arnold.dev/slowdown-until"  # Annotation of a node: when its slowdown ends, RFC 3339 with a time zone
OWN_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""How keys of taints begin that Kubernetes sets: they repeat what a condition says, or the cloud."""


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
    taints: Iterable[Taint] = (),
) -> Iterator[str]:
    """Yield why no new pod may use a node, one phrase each; of its taints those count that Kubernetes sets itself."""
    if unschedulable:
        yield "cordoned"
    yield from broken(conditions)
    if allocatable < gpus:
        yield f"{gpus - allocatable} of {gpus} GPUs are not allocatable"
    for name in sorted({str(taint) for taint in taints if taint.repels and taint.key.startswith(OWN_TAINTS)}):
        yield f"taint {name}"


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
