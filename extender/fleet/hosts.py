"""One node as the fleet sees it, and whether a pod may use it: node selector, required node affinity, tolerations.

These are rules of Kubernetes (``nodeaffinity.GetRequiredNodeAffinity``, ``v1helper.TolerationsTolerateTaint``); a plan
that ignored them would name nodes on which the scheduler never binds.  What pods ask besides GPUs is added up in
:mod:`extender.fleet.resources`; affinity to other pods is left to the scheduler: a plan that it refuses expires.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from extender.fleet.resources import NOTHING, PodRequest, like_boxes, offered, request_of, widest
from ground.errors import InvalidTopology
from ground.records import record_of
from topology.flags import FAULTY, NodeFlag
from topology.kubernetes.labels import HOSTNAME
from topology.kubernetes.nodes import annotated_flag, broken, faults, node_gpus
from topology.kubernetes.objects import NodeObject, Requirement, gpus_among, instant
from topology.kubernetes.pods import Pod
from topology.node_gpus import GPUS, NodeGpus
from topology.taints import Taint, Toleration, price_flag, tolerated

GONE = "the node is gone"


@dataclass(frozen=True, slots=True)
class Host:
    """A node."""

    name: str
    labels: dict[str, str]
    gpus: int  # GPUs that it has, shared ones among them; 0 = it is none of ours
    allocatable: int  # GPUs that its device plugin offers
    sharing: str = ""  # how it offers GPUs in parts, to gangs none of them; empty = whole
    shares: int = 1  # in how many parts it offers each of its GPUs
    ailment: str = ""  # why what runs here is in danger: not Ready, broken; empty = fine
    fault: str = ""  # why no new pod may come, an ailment among others; empty = they may
    cordoned: bool = False
    repelling: tuple[Taint, ...] = ()  # taints NoSchedule and NoExecute
    discouraging: tuple[Taint, ...] = ()  # taints PreferNoSchedule
    annotated: NodeFlag | None = None
    ready_since: datetime | None = None  # when Ready last changed, if it is not True now
    problem: InvalidTopology | None = None
    gpu_type: str = ""  # of all its GPUs; empty = not said
    gpu_names: tuple[str, ...] = ()  # of the resources of GPUS that it has; empty = parts alone
    offers: Mapping[str, int] = field(default_factory=dict)  # other resources for pods, CPU in thousandths

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
        price = price_flag(self.name, discouraging)
        flags = (flag for flag in (self.annotated, price) if flag is not None and flag.active(now))
        return max(flags, key=lambda flag: flag.slowdown, default=None)


def host_of(node: NodeObject) -> Host:
    """Return what matters of a node."""
    problem, annotated = None, None
    gpus, gpu_names, amounts = NodeGpus(), tuple[str, ...](), (node.status.capacity, node.status.allocatable)
    try:
        annotated = annotated_flag(node.name, node.metadata.annotations or {})
    except InvalidTopology as error:
        problem = error
    try:
        gpus = node_gpus(node)
        gpu_names = tuple(name for name in GPUS if any(gpus_among(of, [name]) for of in amounts))
    except ValueError as error:
        problem = InvalidTopology(f"node {node.name!r}: {error}", where=node.name, fix="write a whole number of GPUs")
    taints = node.spec.taints or ()
    conditions = node.status.conditions or ()
    ready = next((condition for condition in conditions if condition.type == "Ready"), None)
    cordoned = bool(node.spec.unschedulable)
    ills = faults(unschedulable=cordoned, conditions=conditions, gpus=gpus.physical, allocatable=gpus.allocatable)
    return record_of(
        Host,
        gpus,
        node,
        gpus=gpus.physical,
        ailment=", ".join(broken(conditions)),
        fault=", ".join(ills),
        cordoned=cordoned,
        repelling=tuple(taint for taint in taints if taint.repels),
        discouraging=tuple(taint for taint in taints if taint.discourages and taint.key not in GPUS),
        annotated=annotated,
        ready_since=instant(ready.last_transition_time) if ready is not None and ready.status != "True" else None,
        problem=problem,
        gpu_names=gpu_names,
        offers=offered(node.status.allocatable or node.status.capacity),
    )


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Expressions over labels, and over the node's name, that must all hold."""

    labels: tuple[Requirement, ...]
    names: tuple[Requirement, ...]

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether it holds for a node; an empty one never does."""
        if not self.labels and not self.names:
            return False
        field = {"metadata.name": name}
        return all(term.holds(labels) for term in self.labels) and all(term.holds(field) for term in self.names)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod asks of a node, as all pods of a template: labels, one of the terms (``None`` = any), tolerations, and
    what it takes of the node.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[AffinityTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    request: PodRequest = NOTHING

    def accepts(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node has the labels (and the name) that the pod asks for."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        return self.terms is None or any(term.holds(name, labels) for term in self.terms)

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the pod puts up with a taint."""
        return tolerated(taint, self.tolerations)

    @property
    def selective(self) -> bool:
        """Whether labels or names matter at all."""
        return bool(self.selector) or self.terms is not None


def demand_of(pod: Pod) -> Demand:
    """Return what a pod asks of a node.

    The name to which earlier versions pinned a pod at its release is no demand of its own, nor is any that a bound pod
    bears: where that goes is decided, and another pod of its gang may go elsewhere.  So is it with the host that it
    selects (:func:`extender.gangs.pod_rules.hosts_chosen`).
    """
    spec = pod.spec
    return Demand(
        selector=tuple(sorted((key, text) for key, text in (spec.node_selector or {}).items() if key != HOSTNAME)),
        terms=_terms_of(pod),
        tolerations=tuple(sorted(spec.tolerations or ())),
        request=request_of(pod),
    )


def demands_of(pods: Iterable[Pod]) -> frozenset[Demand]:
    """Return the different demands of some pods."""
    demands: set[Demand] = set()
    before: Pod | None = None
    for pod in pods:
        if before is not None:
            # Most pods of a gang ask for what the last one did: to compare them is much cheaper than to find it out.
            spec, last = pod.spec, before.spec
            same = spec.node_selector == last.node_selector and spec.tolerations == last.tolerations
            if same and like_boxes(spec, last) and _terms_of(pod) == _terms_of(before):
                continue
        before = pod
        demands.add(demand_of(pod))
    return frozenset(demands)


@lru_cache(64)
def widest_of(demands: frozenset[Demand]) -> PodRequest:
    """Return the most that any of some pods asks of a node."""
    return widest(demand.request for demand in demands)


def _terms_of(pod: Pod) -> tuple[AffinityTerm, ...] | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is None:
        return None
    given, pinned = required.node_selector_terms or (), pod.released or pod.node is not None
    if pinned and any(term.match_fields and not term.match_expressions for term in given):
        return None
    return tuple(
        AffinityTerm(term.match_expressions or (), () if pinned else term.match_fields or ()) for term in given
    )
