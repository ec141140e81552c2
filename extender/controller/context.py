"""What a decision about one gang has at hand, and the questions that several decisions ask."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from extender.controller.actions import Action, Decision, EventNote, Recreate, Write
from extender.controller.pacing import Timeouts
from extender.fleet.fleet import Fleet
from extender.fleet.hosts import Demand, Host, demands_of
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import GATE
from extender.plans.definitions import Definitions
from extender.plans.gang_plan import GangPlan, PlanPhase, canonical_uid, uids_of
from extender.plans.plan_spec import PlanSpec
from extender.texts import counted
from scheduler.queue.run_times import Prediction
from topology.kubernetes.pods import Pod


@dataclass(frozen=True)
class PlanProgress:
    """One gang with a plan that has nodes.

    A rank is *done* when its pod has succeeded: it counts as bound and wants nothing.
    """

    gang: Gang
    plan: GangPlan

    @cached_property
    def matching(self) -> bool:
        """Whether the gang's ranks are known and are as many as the plan has nodes."""
        return len(self.gang.members) == len(self.plan.nodes)

    @cached_property
    def pods(self) -> tuple[tuple[int, Pod, str], ...]:
        """Rank, pod and planned node of each rank that has a pod.

        While the gang's ranks cannot be told (a pod too many, or one missing), those of the pods that the plan names.
        """
        nodes = self.plan.nodes
        if self.matching:
            ranks = enumerate(self.gang.members)
            return tuple((rank, member.pod, nodes[rank]) for rank, member in ranks if member is not None)
        known = self.plan.rank_of_pod
        found = ((known.get(canonical_uid(pod.uid)), pod) for pod in self.gang.needed_pods)
        return tuple((rank, pod, nodes[rank]) for rank, pod in found if rank is not None and rank < len(nodes))

    @cached_property
    def strangers(self) -> dict[int, str]:
        """Ranks that have another pod than the plan says, and its UID."""
        if not self.matching:
            return {}
        planned = self.plan.pods or (None,) * len(self.plan.nodes)
        return {rank: pod.uid for rank, pod, _ in self.pods if planned[rank] != canonical_uid(pod.uid)}

    @cached_property
    def gated(self) -> tuple[tuple[int, Pod, str], ...]:
        """Pods that still wait behind our gate."""
        return tuple(one for one in self.pods if one[1].node is None and one[1].gated_by(GATE))

    @cached_property
    def bound(self) -> frozenset[int]:
        """Ranks with a pod on a node, or done."""
        done = self.gang.done if self.matching else frozenset()
        return done | {rank for rank, pod, _ in self.pods if pod.node is not None}

    @cached_property
    def started(self) -> bool:
        """Whether a pod was released or bound: a new plan would not be free to choose its node."""
        return any(pod.node is not None or pod.released for _, pod, _ in self.ungated)

    @property
    def ungated(self) -> Iterator[tuple[int, Pod, str]]:
        """Pods that do not wait behind our gate."""
        return (one for one in self.pods if one[1].node is not None or not one[1].gated_by(GATE))

    @cached_property
    def outdated(self) -> tuple[tuple[int, Pod, str], ...]:
        """Released pods pinned to the node that their rank had before; pods written with a pin would come back so."""
        return tuple(one for one in self._pinned_elsewhere if one[1].owner is not None and one[1].released)

    @cached_property
    def misplaced(self) -> tuple[tuple[int, Pod, str], ...]:
        """Other pods without the gate that are pinned to another node than planned, and not bound."""
        return tuple(one for one in self._pinned_elsewhere if one not in self.outdated)

    @cached_property
    def unbound(self) -> tuple[tuple[int, Pod, str, str | None], ...]:
        """Pods without the gate that are not bound, each with the node that it is pinned to."""
        return tuple((rank, pod, node, pod.pin) for rank, pod, node in self.ungated if pod.node is None)

    @cached_property
    def _pinned_elsewhere(self) -> tuple[tuple[int, Pod, str], ...]:
        return tuple((rank, pod, node) for rank, pod, node, pin in self.unbound if pin not in (None, node))

    @cached_property
    def off_plan(self) -> tuple[tuple[int, Pod, str], ...]:
        """Pods that are bound to another node than planned."""
        return tuple(one for one in self.pods if one[1].node not in (None, one[2]))


class Vacancy(str):
    """What stands for the node of a rank without one, in a plan read off pods; no node has a space in its name."""

    __slots__ = ()

    def __new__(cls, rank: int) -> Vacancy:
        """Return the vacancy of a rank, and of those that share its node."""
        return super().__new__(cls, f"rank {rank}")


@dataclass(frozen=True)
class Obstacles:
    """What stands between a gang and the nodes of its plan."""

    fleet: Fleet
    gang: Gang
    plan: GangPlan
    now: datetime
    lost: timedelta  # how long a node may be not Ready before it is lost

    def at(self, node: str) -> tuple[str, datetime | None]:
        """Return why ranks not bound cannot have a node, empty = they can, and when a node not Ready will be lost."""
        if isinstance(node, Vacancy):
            return f"{node} has no node", None
        until: datetime | None = None
        host = self.fleet.host(node)
        if why := self.fleet.ailing(node, self.now):
            since = None if host is None else host.ready_since
            until = None if since is None else since + self.lost
            if until is None or self.now >= until:
                return f"node {node}: {why}", None
        owner = self.fleet.promised_to(node)
        if owner is not None and owner != self.gang.key:
            return f"node {node} is promised to gang {owner}", None
        if host is not None and host.cordoned:
            return f"node {node}: cordoned", None
        if host is not None and host.repelling and (key := repelling_taint(host, self._demands)) is not None:
            return f"node {node}: taint {key}, which the pods do not tolerate", None
        if (held := self.fleet.held.on(node)) and (others := held - self._own_gpus[node]):
            room = 0 if host is None else host.allocatable - others
            if room < self._wanted[node]:
                return f"node {node}: {counted(others, 'GPU')} in use by pods that are not of the gang", None
        if lacks := self.fleet.lacking(node, self._demands, pods=self._pods_on[node], own=self._own_pods[node]):
            return f"node {node}: {lacks}", None
        return "", until

    @cached_property
    def _demands(self) -> frozenset[Demand]:
        return demands_of(member.pod for member in self.gang.members if member is not None)

    @cached_property
    def _wanted(self) -> Counter[str]:
        """GPUs that the gang's pods want of each node of the plan; of one that they fill in part fewer than it has."""
        gpus = self.plan.spec.gpus_per_pod
        return Counter({node: pods * gpus for node, pods in self._pods_on.items()})

    @cached_property
    def _pods_on(self) -> Counter[str]:
        """Pods of the gang on each node of the plan."""
        return Counter(self.plan.nodes)

    @cached_property
    def _own_pods(self) -> defaultdict[str, list[str]]:
        """UIDs of the gang's own pods, by node."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for pod in self.gang.pods:
            if pod.node is not None:
                found[pod.node].append(pod.uid)
        return found

    @cached_property
    def _own_gpus(self) -> Counter[str]:
        """GPUs that the gang's own pods hold, by node; those before the present ones among them."""
        held: Counter[str] = Counter()
        for node, gpus in filter(None, (self.fleet.held.pods.get(pod.uid) for pod in self.gang.pods)):
            held[node] += gpus
        return held


def repelling_taint(host: Host, demands: Iterable[Demand]) -> str | None:
    """Return the key of a taint that keeps some pods away; those of Kubernetes itself repeat conditions."""
    taints = [taint for taint in host.repelling if not taint.key.startswith("node.kubernetes.io/")]
    pods = tuple(demands) if taints else ()
    return next((taint.key for taint in taints if not all(demand.tolerates(taint) for demand in pods)), None)


@dataclass(frozen=True, slots=True)
class UnfitRanks:
    """Ranks that are not bound, by what is wrong with their nodes."""

    move: Mapping[int, str]  # ranks to be moved, each with the reason
    # ranks with a pod that is pinned to the node and has no controller to make it anew, with the reason
    stuck: Mapping[int, tuple[Pod, str]]
    # ranks that cannot have their node and do not move, as another pod of the gang is on it, or pinned to it for good
    staying: Mapping[int, str]
    doubtful: AbstractSet[int]  # ranks on nodes that are not Ready and not lost yet, or that stay
    wake: datetime | None  # when the first of these nodes will be lost

    @property
    def why(self) -> str:
        """The first of the reasons."""
        return next(iter(self.move.values()), "")


@dataclass(frozen=True, slots=True)
class Context:
    """One gang, the plans of all, and what was decided so far about any."""

    key: GangKey
    fleet: Fleet
    plans: Mapping[GangKey, GangPlan]
    now: datetime
    terms: Timeouts
    decision: Decision
    estimate: Prediction | None = None  # how long the gang will run, as ended ones tell
    definitions: Definitions = field(default_factory=Definitions)  # of plans in the cluster

    def do(self, *actions: Action) -> None:
        """Decide on actions, but for writes of which nothing would be kept that is not stored already."""
        for action in actions:
            if not isinstance(action, Write):
                self.decision.actions.append(action)
            elif (plan := self.definitions.kept(action.plan)) != self.plans.get(self.key) or action.weigh:
                self.decision.actions.append(replace(action, plan=plan))

    def unfit_ranks(self, sight: PlanProgress) -> UnfitRanks:
        """Return the ranks that are not bound and cannot have their node, or perhaps not.

        Ranks that share a node move together: while a pod of one is there, or cannot be told to leave, all stay.
        """
        move, staying, lost_at = dict[int, str](), dict[int, str](), dict[int, datetime]()
        stuck = dict[int, tuple[Pod, str]]()
        pods = {rank: pod for rank, pod, _ in sight.pods}
        obstacles = Obstacles(self.fleet, sight.gang, sight.plan, self.now, self.terms.lost)
        for ranks in sight.plan.ranks_by_node:
            if sight.bound.issuperset(ranks):
                continue
            node, waiting = sight.plan.nodes[ranks[0]], [rank for rank in ranks if rank not in sight.bound]
            why, until = obstacles.at(node)
            if until is not None:
                lost_at |= dict.fromkeys(waiting, until)
            if not why:
                continue
            pinned = {rank: pods[rank] for rank in waiting if rank in pods and is_stuck(pods[rank], node)}
            stuck |= {rank: (pod, why) for rank, pod in pinned.items()}
            stay = pinned or any(rank in pods and pods[rank].node == node for rank in ranks)
            kind = staying if stay else move
            kind |= {rank: why for rank in waiting if rank not in pinned}
        doubtful = lost_at.keys() | staying.keys()
        return UnfitRanks(move, stuck, staying, doubtful, min(lost_at.values(), default=None))

    def watch(self, unfit: UnfitRanks) -> None:
        """Tell the owners of pods that are stuck, and decide again when the next node will be lost."""
        self.do(*(Recreate(self.key, pod, why) for pod, why in unfit.stuck.values()))
        if unfit.wake is not None:
            self.decision.wake_by(unfit.wake)

    def renewed(self, plan: GangPlan, gang: Gang) -> GangPlan:
        """Return the plan with its time to bind once more."""
        new = plan.replace(phase=PlanPhase.PLANNED, reason="Planned", message="")
        new = new.replace(pods=uids_of(gang), expires=self.now + self.terms.bind)
        return self._undone(new, "Planned", "").with_condition("Planned", True, "Planned", "", self.now)

    def give_back(self, plan: GangPlan, phase: PlanPhase, reason: str, message: str) -> None:
        """Promise the nodes no more; an expired plan remembers them."""
        new = plan.replace(phase=phase, reason=reason, message=message, expires=None)
        if phase is PlanPhase.QUEUED:
            new = new.without_nodes()
        new = self._undone(new, reason, message).with_condition("Planned", False, reason, message, self.now)
        self.do(Write(new, events=(EventNote(reason, message, "Warning"),)))

    def _undone(self, plan: GangPlan, reason: str, message: str) -> GangPlan:
        """Return a plan that does not say any more that its pods are released or bound."""
        for kind in ("Released", "Bound"):
            if plan.condition(kind) is not None:
                plan = plan.with_condition(kind, False, reason, message, self.now)
        return plan


def is_stuck(pod: Pod, node: str) -> bool:
    """Return whether a pod waits for a node that it is pinned to, and has no controller that would make it anew.

    A pin cannot be taken off.
    """
    return pod.owner is None and pod.node is None and not pod.gated_by(GATE) and pod.pin == node


def spec_of(gang: Gang, before: PlanSpec) -> PlanSpec:
    """Return what is asked now; while it cannot be understood, as much as can be told."""
    if gang.job is not None:
        return PlanSpec.of(gang.job, dialect=gang.dialect, priority=gang.priority)
    return PlanSpec(dialect=gang.dialect, size=gang.size or before.size, priority=gang.priority)


def nodes_of(plan: GangPlan, ranks: Iterable[int]) -> tuple[str, ...]:
    """Return the nodes of some ranks, each once."""
    return tuple(dict.fromkeys(plan.nodes[rank] for rank in ranks))
