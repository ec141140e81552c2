"""What a node of Kubernetes says of itself: what speaks against it, how many GPUs it has, and how it hands them out.

A *fault* keeps new pods away.  Taints that people set keep pods off that do not tolerate them (:mod:`topology.taints`);
those that Kubernetes sets are faults.  The annotation ``arnold.dev/slowdown`` (a factor, or ``faulty``) grades a node
from ``arnold.dev/slowdown-since`` until ``-until``.  The same rules hold for files and for the live cluster.

What a node offers is a number of *resources*.  Where GPUs are shared, that is more than the number of GPUs:

- time-slicing and MPS: each GPU is offered several times, as ``nvidia.com/gpu`` or ``nvidia.com/gpu.shared``; labels
  say how often (``nvidia.com/gpu.replicas``, of GKE ``cloud.google.com/gke-max-shared-clients-per-gpu``);
- MIG: slices stand in place of GPUs, as ``nvidia.com/gpu`` (strategy ``single``, whose ``gpu.count`` counts slices too;
  GKE) or as ``nvidia.com/mig-1g.10gb`` beside whole GPUs (``mixed``, whose ``gpu.count`` counts all GPUs);
- partitions of AMD (``amd.com/gpu.compute-memory-partition``), and HAMi, which registers its GPUs in an annotation.

Source: github.com/NVIDIA/k8s-device-plugin, README and docs/gpu-feature-discovery; cloud.google.com/kubernetes-engine,
"About GPU sharing strategies"; github.com/ROCm/k8s-device-plugin, docs/user-guide/configuration.md; project-hami.io.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ground.errors import InvalidTopology
from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag, parse_slowdown
from topology.kubernetes.objects import Amounts, NodeCondition, NodeObject, gpus_among, quantity
from topology.node_gpus import GPUS, NodeGpus, mig_gpus, mig_profile, mig_sharing
from topology.taints import Taint

SLOWDOWN = "arnold.dev/slowdown"  # Annotation of a node: a factor of at least 1, or faulty
SLOWDOWN_SINCE = "arnold.dev/slowdown-since"  # Annotation of a node: when its slowdown begins, as the next
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
        elif (watched := WATCHED.get(condition.type)) and watched.fault and condition.status == watched.bad:
            yield condition.type if watched.bad == "True" else f"not {condition.type}"


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
    begin, end = (annotated_time(node, annotations, key) for key in (SLOWDOWN_SINCE, SLOWDOWN_UNTIL))
    if begin is not None and end is not None and end <= begin:
        raise _unreadable(node, SLOWDOWN_UNTIL, annotations[SLOWDOWN_UNTIL], f"write a time after {SLOWDOWN_SINCE}")
    if slowdown == HEALTHY:
        return None
    kind: FlagKind = "faulty" if slowdown == FAULTY else "straggler"
    return NodeFlag(node, kind, slowdown, source=f"annotation {SLOWDOWN}", since=begin, until=end)


def annotated_time(node: str, annotations: Mapping[str, str], key: str) -> datetime | None:
    """Return the time in an annotation of a node; ``None`` = it has none; raise as :func:`annotated_flag`."""
    time = time_with_zone(annotations.get(key))
    if key in annotations and time is None:
        raise _unreadable(node, key, annotations[key], "write a time such as 2026-11-21T18:00:00Z")
    return time


def time_with_zone(text: str | None) -> datetime | None:
    """Read a time with a time zone; ``None`` = it is none, or none of UTC, as in the last hours of the year 9999."""
    try:
        parsed = datetime.fromisoformat(text or "")
        return parsed.astimezone(UTC) if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _unreadable(node: str, key: str, text: str, fix: str) -> InvalidTopology:
    return InvalidTopology(f"annotation {key} of node {node!r} is {text[:40]!r}", where=key, fix=fix)


MOST_GPUS = 16  # GPUs of the largest server on the market: more resources than that may be shares
_NVIDIA = "nvidia.com/gpu"
_GKE = "cloud.google.com/gke"
_HAMI = "hami.io/node-nvidia-register"
_SHARED, _SLICE = f"{_NVIDIA}.shared", "nvidia.com/mig-"
_PARTITION = re.compile(r"amd\.com/([dtqc]px)_nps[0-9]")
_PARTITIONS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}  # parts of a GPU of AMD, by its mode for computing
_STRATEGIES = {"time-slicing": "time-slicing", "time-sharing": "time-slicing", "mps": "MPS"}
_NUMBER = re.compile(r"[0-9]{1,6}")
_REGISTERED = re.compile(r'"id"\s*:')


def is_part(resource: str) -> bool:
    """Return whether a resource is a part of a GPU by its name alone: a slice, a share, a partition."""
    return resource == _SHARED or resource.startswith(_SLICE) or _PARTITION.fullmatch(resource) is not None


def parts_among(amounts: Amounts | None) -> int:
    """Return how many parts of GPUs there are among resources; what is no number counts as one."""
    return sum(_part(amount) for name, amount in (amounts or {}).items() if is_part(name))


def node_gpus(node: NodeObject, names: Sequence[str] = GPUS) -> NodeGpus:
    """Return the GPUs of a node, by its resources, labels and annotations.

    :param names: the resources that count as GPUs; another than the usual ones is taken as the user names it.
    :raises ValueError: an amount of such a resource is no number.
    """
    has, offers = node.status.capacity, node.status.allocatable
    capacity, allocatable = gpus_among(has, names), gpus_among(offers, names)
    resources = max(capacity or 0, allocatable or 0)
    offered = resources if allocatable is None else allocatable
    parts = Counter[str]()
    if set(names) <= set(GPUS):
        named = has if has is not None else offers
        parts.update({name: _part(amount) for name, amount in (named or {}).items() if is_part(name)})
        parts = +parts
    if not set(names) <= set(GPUS) or not (resources or parts):
        return NodeGpus(resources, offered)
    missing = (
        resources - offered + (0 if has is None or offers is None else max(0, parts.total() - parts_among(offers)))
    )
    return _counted(node, resources, parts, missing)


def _counted(node: NodeObject, resources: int, parts: Counter[str], missing: int) -> NodeGpus:
    """Return the GPUs behind so many resources and parts, of which some are missing among those allocatable."""
    labels, count = node.labels, _number(node.labels.get(f"{_NVIDIA}.count"))
    replicas = max(
        1, _number(labels.get(f"{_NVIDIA}.replicas")), _number(labels.get(f"{_GKE}-max-shared-clients-per-gpu"))
    )
    strategy = labels.get(f"{_GKE}-gpu-sharing-strategy") or labels.get(f"{_NVIDIA}.sharing-strategy", "")
    way, product = _STRATEGIES.get(strategy, "shared"), labels.get(f"{_NVIDIA}.product", "")
    slices = _slices(labels, resources, parts, replicas)
    if node.status.gpu_sharing:  # of ResourceSlices, which name whole GPUs and slices themselves
        return NodeGpus(resources, resources - missing, node.status.gpu_sharing)
    if slices:
        single = not any(name.startswith(_SLICE) for name in parts)
        whole = 0 if single else resources
        cut = mig_gpus(slices, product)
        physical = max(whole + cut, 0 if single else count)
        if single and count:
            physical = cut = min(cut, count)
        sharing = mig_sharing(slices, cut=physical - whole, physical=physical)
        if replicas > 1:
            sharing += f", {way} x{replicas}"
        return NodeGpus(physical, max(0, physical - missing), sharing)
    # the mode in which GPUs of AMD are cut, such as cpx
    mode = next((match[1] for match in map(_PARTITION.fullmatch, parts) if match), "")
    mode = mode or labels.get("amd.com/gpu.compute-memory-partition", "").partition("_")[0].lower()
    if (of_gpu := _PARTITIONS.get(mode, 1)) > 1:
        cut = -(-(sum(parts.values()) or resources) // of_gpu)
        physical = cut + (resources if parts else 0)
        return NodeGpus(physical, max(0, physical - missing), f"{mode.upper()} x{of_gpu}", of_gpu)
    shares = resources + parts[_SHARED]
    # HAMi registers objects of JSON, or ID,shares,...: for each GPU
    annotation = node.annotations.get(_HAMI) or ""
    registered = len(_REGISTERED.findall(annotation)) or sum("," in part for part in annotation.split(":"))
    if 0 < registered < shares:
        physical, way = registered, "HAMi"
    elif replicas > 1 or parts[_SHARED] or product.endswith("-SHARED"):
        physical = min(shares, count) if count else -(-shares // replicas)
    elif count and shares > count and shares % count == 0:
        physical = count
    else:
        return NodeGpus(shares, max(0, shares - missing))
    of_gpu = max(1, shares // physical)
    sharing = f"{way} x{of_gpu}" if of_gpu > 1 else way
    return NodeGpus(physical, max(0, physical - -(-missing // of_gpu)), sharing, of_gpu)


def _slices(labels: Mapping[str, str], resources: int, parts: Mapping[str, int], replicas: int) -> Counter[str]:
    """Return the slices of MIG by profile; empty = nothing says that there are any."""
    slices = Counter[str]()
    for name, count in parts.items():
        if name.startswith(_SLICE):
            slices[mig_profile(name)] += -(
                -count // max(1, _number(labels.get(f"{name.removesuffix('.shared')}.replicas")))
            )
    cut_to = (labels.get(f"{_GKE}-gpu-partition-size", ""), labels.get(f"{_NVIDIA}.product", ""))
    if not slices and (profile := next(filter(None, map(mig_profile, cut_to)), "")):
        slices[profile] = -(-(resources + parts.get(_SHARED, 0)) // replicas)
    return slices


def _part(amount: object) -> int:
    try:
        return quantity(amount)
    except ValueError:
        return 1


def _number(text: str | None) -> int:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else 0
