"""Rules of pods about the places of other pods, and volumes: which a gang cannot have, and which are left to others.

kube-scheduler looks at them pod by pod, after the plan, when each pod may go to one node only.  A rule among the pods
of one gang is then without effect, or half of the gang cannot bind: such a gang is refused.  That pods of a gang do not
share a node (``kubernetes.io/hostname``) is the exception: a plan can see to it, and most do by themselves.
"""

from collections.abc import Sequence

from extender.gangs.types import InvalidGang
from extender.kubernetes_names import CONSTRAINTS
from extender.texts import clip, named
from topology.kubernetes.labels import HOSTNAME
from topology.kubernetes.pods import LabelSelector, Pod, PodSpec, PodTerm

AFFINITY, ANTI_AFFINITY, SPREAD = "podAffinity", "podAntiAffinity", "topologySpreadConstraints"

Rule = tuple[str, PodTerm]  # Kind, and the pods that it is about


def rules_of(spec: PodSpec) -> tuple[Rule, ...]:
    """Return the rules that a pod must be placed by."""
    affinity, rules = spec.affinity, list[Rule]()
    if affinity is not None:
        for kind, terms in ((AFFINITY, affinity.pod_affinity), (ANTI_AFFINITY, affinity.pod_anti_affinity)):
            rules += ((kind, term) for term in (terms.required if terms is not None else None) or ())
    for spread in spec.topology_spread_constraints or ():
        if spread.when_unsatisfiable != "ScheduleAnyway":
            term = PodTerm(topology_key=spread.topology_key, label_selector=spread.label_selector)
            rules.append((SPREAD, term))
    return tuple(rules)


def check_rules(pods: Sequence[Pod]) -> None:
    """Raise ``InvalidGang``: a rule of a pod is about the gang's own pods."""
    seen: list[tuple[Rule, ...]] = []
    for pod in pods:
        if not (rules := rules_of(pod.spec)) or rules in seen:
            continue
        seen.append(rules)
        for kind, term in rules:
            if term.topology_key == HOSTNAME and kind != AFFINITY:
                continue
            if any(_means(term, pod, other) for other in pods):
                message = (
                    f"pod {pod.name} has {kind} by {clip(term.topology_key)} that is about pods of its own gang: a "
                    "plan gives each pod one node, so that kube-scheduler could not keep it"
                )
                fix = f"take it out; say with {CONSTRAINTS} which pods should be together, the solver sees to it"
                raise InvalidGang.of_pod(pod, message, reason="RuleInsideGang", fix=fix)


def stays_alone(pod: Pod) -> bool:
    """Return whether no pod like it may share its node."""
    hosts = (term for kind, term in rules_of(pod.spec) if term.topology_key == HOSTNAME and kind != AFFINITY)
    return any(_means(term, pod, pod) for term in hosts)


def host_chosen(pod: Pod) -> str | None:
    """Return the host that a pod selects, as its label says it."""
    return (pod.spec.node_selector or {}).get(HOSTNAME)


def hosts_chosen(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Return the host that each pod selects, as Kueue's topology-aware scheduling writes it; empty = none selects any.

    :raises InvalidGang: only some do, or they select nodes by different values of another label.
    """
    selectors = [(pod.spec.node_selector or {}, pod.name) for pod in pods]
    for key in dict.fromkeys(key for selector, _ in selectors for key in selector):
        pod_of = {
            selector.get(key): name for selector, name in reversed(selectors) if key == HOSTNAME or key in selector
        }
        if len(pod_of) > 1 and (key != HOSTNAME or None in pod_of):
            wants = named(f"{text or 'none'} ({name})" for text, name in reversed(pod_of.items()))
            message = f"no nodes are for all its pods, which select different values of {clip(key)}: {wants}"
            fix = f"let all of them select {HOSTNAME}, as Kueue does where that is the lowest level, or none"
            raise InvalidGang(message, reason="DifferentSelectors", where="nodeSelector", fix=fix)
    return tuple(selector[HOSTNAME] for selector, _ in selectors if HOSTNAME in selector)


def left_to_scheduler(pods: Sequence[Pod]) -> str:
    """Return what of the pods' wishes no plan looks at, one sentence; empty = nothing."""
    volumes = {volume.name: None for pod in pods for volume in pod.spec.volumes or () if volume.claimed}
    rules: dict[str, None] = {}
    for pod in pods:
        for kind, term in rules_of(pod.spec):
            if not _means(term, pod, pod):
                rules[f"{kind} by {clip(term.topology_key)}"] = None
    claimed = filter(None, (pod.spec.claimed for pod in pods))
    fields = {field: None for claims in claimed for field in claims.unchecked}
    if not volumes and not rules and not fields:
        return ""
    wishes = [f"the zone of volumes ({named(volumes)})"] if volumes else []
    wishes += [f"rules about other pods ({named(rules)})"] if rules else []
    wishes += [f"which devices claims mean ({named(fields)})"] if fields else []
    why = f"left to kube-scheduler, which may refuse the planned nodes: {'; '.join(wishes)}"
    return f"{why}\nTo fix: where it does, say in nodeSelector on which nodes the pods may be"


def _means(term: PodTerm, pod: Pod, other: Pod) -> bool:
    """Return whether a term of one pod is about another, which is in the same namespace."""
    selector: LabelSelector | None = term.label_selector
    return selector is not None and term.among(pod.namespace, other.namespace) and selector.selects(other.labels)
