"""Filter and Preempt: what kube-scheduler asks an extender and is told, pure functions of state, request and time.

A member of a gang may use the one node that its gang's plan gives to it, if that is the node which its release, or a
move since, has written into the pod as kube-scheduler knows it; all others go to ``FailedAndUnresolvableNodes``, or
kube-scheduler would look for pods to preempt there.  A pod with GPUs and without a gang gets what is not promised (see
:func:`tightest`).  A pod without GPUs is none of our business.  Nothing is remembered of a question.

The protocol is k8s.io/kube-scheduler/extender/v1, 1.36 and 1.37.  The Go structs have no JSON tags: outer keys are the
names of Go fields (``NodeNames``), pods and nodes inside are ordinary Kubernetes JSON.  A scheduler with
``nodeCacheCapable`` sends names and expects names; without it, it sends whole nodes and expects those back that pass,
which are kept as the bytes they came in.

Any status other than 200 and any non-empty ``Error`` fail the scheduling cycle of the pod, to be tried again; both
``Nodes`` and ``NodeNames`` null mean that no node passes.  Naming a node that was not asked about is an error too.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property, partial
from itertools import compress, repeat
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from extender.cluster_cache import ClusterCache
from extender.fleet.fleet import Fleet
from extender.objects import trim
from extender.plans.gang_plan import HOLDING, GangPlan, PlanPhase
from extender.queue_views import FleetState, waiting_pod
from extender.texts import clip
from ground.errors import InvalidInput
from scheduler.occupancy import tightest as tightest_nodes
from scheduler.queue.dispatch import live_candidate
from scheduler.queue.policy import Keep, QueuePolicy
from topology.kubernetes.pods import Pod

T = TypeVar("T")


class _Message(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """A message of the protocol: names of Go fields."""


class RawNodeList(msgspec.Struct, frozen=True, gc=False):
    """Whole nodes, unread; the list is written as Kubernetes writes it."""

    items: list[msgspec.Raw] | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class _Named(msgspec.Struct, frozen=True, gc=False):
    name: str


class _NodeName(msgspec.Struct, frozen=True, gc=False):
    metadata: _Named


class FilterArgs(msgspec.Struct, frozen=True, rename="pascal", dict=True):
    """``ExtenderArgs``: a pod, and the nodes that the scheduler's own plugins let pass.

    The scheduler sets one of ``nodes`` and ``node_names``, by its configuration; both null ask about no node.
    """

    pod: Pod
    nodes: RawNodeList | None = None
    node_names: list[str] | None = None

    @cached_property
    def names(self) -> Sequence[str]:
        """The nodes asked about, in the order in which they came, or raise ``InvalidInput``: they cannot be read."""
        if self.nodes is None:
            return self.node_names or ()
        names = [_decode(_node_name, raw, "ExtenderArgs").metadata.name for raw in self.nodes.items or ()]
        if self.node_names is not None and self.node_names != names:
            message = f"Nodes has {len(names)} nodes, NodeNames {len(self.node_names)}, and they are not the same"
            fix = "send Nodes, or NodeNames (nodeCacheCapable: true), and null for the other"
            raise InvalidInput(message, fix=fix)
        return names


class FilterResult(_Message, frozen=True):
    """``ExtenderFilterResult``."""

    nodes: RawNodeList | None = None
    node_names: Sequence[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class MetaPod(msgspec.Struct, frozen=True, gc=False, rename={"uid": "UID"}):
    """A victim, by its UID."""

    uid: str


class MetaVictims(msgspec.Struct, frozen=True, gc=False, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    """Pods that would have to leave a node, and how many disruption budgets that breaks."""

    pods: list[MetaPod] | None = None
    violations: int = 0


class Victims(msgspec.Struct, frozen=True, gc=False, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    """The same with whole pods."""

    pods: list[Pod] | None = None
    violations: int = 0

    def meta(self) -> MetaVictims:
        """Return the form in which answers name victims."""
        return MetaVictims([MetaPod(pod.uid) for pod in self.pods or ()], self.violations)


class PreemptArgs(_Message, frozen=True):
    """``ExtenderPreemptionArgs``: the nodes where pods could be preempted for a pod."""

    pod: Pod
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None

    @property
    def candidates(self) -> dict[str, MetaVictims]:
        """Victims of each node, in whichever form they came."""
        if self.node_name_to_meta_victims is not None:
            return self.node_name_to_meta_victims
        return {node: victims.meta() for node, victims in (self.node_name_to_victims or {}).items()}


class PreemptResult(_Message, frozen=True):
    """``ExtenderPreemptionResult``: always by UID, whatever was sent."""

    node_name_to_meta_victims: dict[str, MetaVictims]


_node_name = msgspec.json.Decoder(_NodeName)
encode = msgspec.json.Encoder().encode  # Return an answer as JSON


def _decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    """Read a message, or raise ``InvalidInput``: not JSON, or not of the protocol's types."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fix = "send what kube-scheduler 1.36 or 1.37 sends to extenders"
        raise InvalidInput(f"not an {what}: {error}", fix=fix) from None


A = TypeVar("A", FilterArgs, PreemptArgs)


def _decode_asked(decoder: msgspec.json.Decoder[A], body: bytes, what: str) -> A:
    """Read a question; of its pod stays what the cache keeps, so that both name the same gang."""
    args = _decode(decoder, body, what)
    trim(args.pod.metadata)
    return args


decode_filter = partial(_decode_asked, msgspec.json.Decoder(FilterArgs), what="ExtenderArgs")
decode_preempt = partial(_decode_asked, msgspec.json.Decoder(PreemptArgs), what="ExtenderPreemptionArgs")


RESERVED = "reserved for a gang that was announced"  # why a node of a zone is refused
_ALL: tuple[Keep, ...] = (None,)


class RefusalKind(StrEnum):
    """Kinds of refusals, few enough to be labels of a metric."""

    NO_PLAN = "no plan yet"
    NOT_IN_PLAN = "pod not in plan"
    NOT_OFFERED = "node not offered"
    PLAN_EXPIRED = "plan expired"
    MOVING = "rank moving"
    NODE_PROMISED = "node promised"
    NODE_AILING = "node ailing"
    NODE_RESERVED = "node reserved"
    GANG_WAITING = "gang waiting"
    GANG_QUEUED = "gang queued"
    GANG_INVALID = "gang invalid"
    NO_ROOM = "no room"
    OTHER = "other"


_KIND_OF_PHASE = {
    PlanPhase.WAITING: RefusalKind.GANG_WAITING,
    PlanPhase.QUEUED: RefusalKind.GANG_QUEUED,
    PlanPhase.EXPIRED: RefusalKind.PLAN_EXPIRED,
    PlanPhase.INVALID: RefusalKind.GANG_INVALID,
}


class Refusal(NamedTuple):
    """Why a pod may use no node."""

    kind: RefusalKind
    sentence: str


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """An answer to Filter, with a refusal exactly when no node passes."""

    answer: FilterResult
    refusal: Refusal | None = None


def filter_nodes(state: ClusterCache, args: FilterArgs, now: datetime, policy: QueuePolicy) -> FilterVerdict:
    """Return which of the nodes asked about a pod may use, or raise ``InvalidInput``: they cannot be read."""
    pod, names = state.with_claims(args.pod), args.names
    if (place := state.plan_of_pod(pod.uid)) is not None:
        plan, rank = place
        node = planned_node(state, pod, plan, rank, now)
        if isinstance(node, str) and node not in names:
            why = f"gang {plan.key}: rank {rank} belongs on node {node}, which is not among those that fit it"
            node = Refusal(RefusalKind.NOT_OFFERED, why)
        if isinstance(node, Refusal):
            return _none(args, names, node)
        refused = dict.fromkeys(names, f"planned on {node}")
        del refused[node]
        return FilterVerdict(_answer(args, names, (node,), refused))
    if (member := state.recognise(pod)) is not None:
        # a pod of a gang that no plan names has to wait
        key = member.key
        if (unnamed := state.plans.get(key)) is None:
            return _none(args, names, Refusal(RefusalKind.NO_PLAN, f"gang {key} has no plan yet"))
        if unnamed.phase in HOLDING:
            why = f"gang {key}: the plan does not name this pod (another pod has its rank)"
            return _none(args, names, Refusal(RefusalKind.NOT_IN_PLAN, why))
        return _none(args, names, _waiting(unnamed))
    try:
        gpus = pod.gpus
    except ValueError as error:
        return _none(args, names, Refusal(RefusalKind.OTHER, str(error)))
    if not gpus:
        return FilterVerdict(_answer(args, names, names, {}), None if names else _NO_ROOM)
    passed, refused = tightest(state.fleet, names, gpus, now, keeps=keeps_for(state, policy, pod, gpus, now))
    refusal = None if passed else _NO_ROOM
    if refused and not passed:
        # the first that no preemption opens to it
        node, why = next(iter(refused.items()))
        kind = RefusalKind.NODE_AILING if state.fleet.promised_to(node) is None else RefusalKind.NODE_PROMISED
        refusal = Refusal(RefusalKind.NODE_RESERVED if why == RESERVED else kind, why)
    return FilterVerdict(_answer(args, names, passed, refused), refusal)


_NO_ROOM = Refusal(RefusalKind.NO_ROOM, "none of the nodes asked about has room")


def planned_node(state: ClusterCache, pod: Pod, plan: GangPlan, rank: int, now: datetime) -> str | Refusal:
    """Return the node that a plan gives to a pod which it names, or why the pod may not go there."""
    key = plan.key
    if pod.namespace != key.namespace:
        return Refusal(RefusalKind.NOT_IN_PLAN, f"gang {key}: the plan's pod of rank {rank} is in another namespace")
    if plan.phase not in HOLDING or (node := plan.node_of_rank.get(rank)) is None:
        return _waiting(plan)
    if pod.released_to not in (None, node):
        # the scheduler has news that we have not, or the other way round
        why = f"gang {key}: rank {rank} moves between the nodes {pod.released_to} and {node}"
        return Refusal(RefusalKind.MOVING, why)
    owner = state.fleet.promised_to(node)
    if owner != key:
        return Refusal(RefusalKind.NODE_PROMISED, f"gang {key}: node {node} of rank {rank} is promised to gang {owner}")
    if ailment := state.fleet.ailing(node, now):
        return Refusal(RefusalKind.NODE_AILING, f"gang {key}: node {node} of rank {rank} cannot be used: {ailment}")
    return node


def preempt(state: ClusterCache, args: PreemptArgs, now: datetime, policy: QueuePolicy) -> PreemptResult:
    """Return on which of the nodes pods may be preempted for a pod.

    A member of a planned gang: on its own node alone, and never another member of a planned gang.  Other pods with
    GPUs: not on promised and not on reserved nodes, which Filter would refuse them.
    """
    candidates = args.candidates
    if (place := state.plan_of_pod(args.pod.uid)) is not None:
        node = planned_node(state, args.pod, *place, now)
        if isinstance(node, Refusal) or (victims := candidates.get(node)) is None:
            return PreemptResult({})
        planned = any(state.plan_of_pod(victim.uid) for victim in victims.pods or ())
        return PreemptResult({} if planned else {node: victims})
    if state.recognise(args.pod) is not None:
        return PreemptResult({})
    pod = state.with_claims(args.pod)
    try:
        gpus = pod.gpus
    except ValueError:
        return PreemptResult({})
    if not gpus:
        return PreemptResult(candidates)
    promised_to = state.fleet.promised_to
    closed = reserved(state, keeps_for(state, policy, pod, gpus, now))
    left = {node: them for node, them in candidates.items() if promised_to(node) is None and node not in closed}
    return PreemptResult(left)


def _waiting(plan: GangPlan) -> Refusal:
    sentence = f"gang {plan.key} is {plan.phase.value}" + (f": {plan.message}" if plan.message else "")
    return Refusal(_KIND_OF_PHASE.get(plan.phase, RefusalKind.OTHER), sentence)


def _none(args: FilterArgs, names: Sequence[str], refusal: Refusal) -> FilterVerdict:
    # The sentence is repeated for each node; the whole of it is in the GangPlan.
    return FilterVerdict(_answer(args, names, (), dict.fromkeys(names, clip(refusal.sentence))), refusal)


def _answer(args: FilterArgs, names: Sequence[str], passed: Sequence[str], refused: dict[str, str]) -> FilterResult:
    """Return the answer in the form of the question: names for names, nodes for nodes."""
    if args.nodes is None:
        return FilterResult(node_names=passed, failed_and_unresolvable_nodes=refused)
    wanted = frozenset(passed)
    items = [raw for raw, name in zip(args.nodes.items or (), names, strict=True) if name in wanted]
    return FilterResult(nodes=RawNodeList(items), failed_and_unresolvable_nodes=refused)


def keeps_for(state: ClusterCache, policy: QueuePolicy, pod: Pod, gpus: int, now: datetime) -> Sequence[Keep]:
    """Return what a pod must leave free, for each attempt to place it."""
    if not any(reservation.held for reservation in state.reservations.values()):
        return _ALL
    return tuple(live_candidate(policy, waiting_pod(pod, gpus), FleetState(state, now)).offers)


def reserved(state: ClusterCache, keeps: Sequence[Keep]) -> AbstractSet[str]:
    """Return the names of the nodes that are closed even in the last attempt."""
    if not keeps or keeps[-1] is None:
        return frozenset() if keeps else state.fleet.table.index_of.keys()
    hosts = state.fleet.table.hosts
    return frozenset(hosts[i].name for i in np.flatnonzero(keeps[-1]))


def tightest(
    fleet: Fleet, names: Sequence[str], gpus: int, now: datetime, *, keeps: Sequence[Keep] = _ALL
) -> tuple[list[str], dict[str, str]]:
    """Return the nodes that fit a pod best, all equally well; and those closed to any preemption, with the reason.

    :param names: the nodes that the scheduler thinks fit.
    :param keeps: what it must leave free; the first attempt that finds a node counts.
    """
    occupancy = fleet.occupancy
    rows = np.fromiter(map(fleet.table.index_of.get, names, repeat(-1)), np.int32, len(names))
    position = np.flatnonzero(rows >= 0)
    rows = rows[position]
    promised = np.zeros(len(names), dtype=np.bool_)
    promised[position] = occupancy.promised[rows]
    refused = dict.fromkeys(compress(names, promised.tolist()), "promised to a gang")
    fits = (occupancy.free[rows] >= gpus) & ~occupancy.promised[rows]
    for i in np.flatnonzero(fits & fleet.annotated[rows]).tolist():
        name = names[position[i]]
        if ailment := fleet.ailing(name, now):
            refused[name] = ailment
            fits[i] = False
    opened = np.zeros(len(rows), dtype=np.bool_)
    for keep in keeps:
        opened = np.ones_like(fits) if keep is None else occupancy.free[rows] - gpus >= keep[rows]
        if (fits & opened).any():
            break
    for i in np.flatnonzero(fits & ~opened).tolist():
        refused.setdefault(names[position[i]], RESERVED)
    best = tightest_nodes(
        rows[fits & opened], free=occupancy.free, idle=occupancy.idle, idle_in_domain=occupancy.idle_in_domain
    )
    chosen = [names[i] for i in position[np.isin(rows, best)].tolist()]
    if not chosen:
        # without a gang a pod may have parts of GPUs, where no whole ones are left: the scheduler has counted them
        shared = (names[i] for i in position[fleet.sharing[rows] & ~occupancy.promised[rows]].tolist())
        chosen = [name for name in shared if not fleet.ailing(name, now)]
    return chosen, refused
