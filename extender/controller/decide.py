"""Decisions about gangs: what to do next, a pure function of what is known and the time.

Everything follows from objects in etcd, so a controller that is killed anywhere goes on where it was: each decision
looks at what *is* and takes the next step towards a gang that is whole on its planned nodes.

    no nodes    Waiting (pods missing) | Invalid (a contradiction) | unplaced: the planner says Planned or Queued
    Planned     every pod is released as soon as the gang is complete
    Released    no gate is left; the scheduler binds
    Bound       all pods are, or were, on their nodes; a pod that comes anew gets its rank's node
    Queued      for the reason Preempted: every pod that is on a node is evicted, then it waits as any other
    Expired     time ran out before the first pod was bound: the nodes are given back, and taken again if they are free,
                after a rest when kube-scheduler had tried the pods and found no node; behind those that wait then, or
                while others have its nodes, it is Queued

A rank *cannot have* its node when the node is lost, or others are on it, or when time ran out although other ranks were
bound.  Then ranks that are not bound move: repaired with the fewest moves.  A pod that is pinned to the node before is
made anew after that, as a pin cannot be taken off; while no other node can be had it is left alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter

from extender.cluster_cache import ClusterCache
from extender.controller.actions import (
    Action,
    Decision,
    EventNote,
    Evict,
    Forget,
    Learn,
    NotifyPod,
    Recreate,
    Release,
    RepairAction,
    Write,
    release_mark,
)
from extender.controller.pacing import Timeouts
from extender.fleet.fleet import Fleet
from extender.fleet.hosts import Demand, Host, demands_of
from extender.gangs.job import node_rank, nodes_of_pods, ranks_by_node
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import GATE, PLANNED
from extender.plans.definitions import Definitions
from extender.plans.gang_history import EndedRun
from extender.plans.gang_plan import (
    NO_PLAN,
    WEIGHED,
    GangPlan,
    PlanPhase,
    PlanSpec,
    canonical_uid,
    uids_of,
    with_doubts,
)
from extender.texts import clip, counted, named
from scheduler.queue.run_times import Prediction
from topology.kubernetes.objects import START_OF_TIME
from topology.kubernetes.pods import RELEASED, Pod

# -- context --
# What a decision about one gang has at hand, and the questions that several decisions ask.


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
        return tuple(pod for pod in self.pods if pod[1].node is None and pod[1].gated_by(GATE))

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
        return (pod for pod in self.pods if pod[1].node is not None or not pod[1].gated_by(GATE))

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
        return tuple(pod for pod in self.pods if pod[1].node not in (None, pod[2]))


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


# -- ended_runs --
# How long a gang ran that has ended, from what the API server says of its plan and its pods.
#
# A run begins with the first binding of a pod of the plan, and ends when the last of its containers did; where pods
# were deleted, when that is seen.  It counts however it ended: a queue cannot know which run will fail.  One that was
# stopped for another gang, or never was whole on its nodes, does not; nor does one that ended while no controller saw
# it, since it is not known when.


def ended_run(plan: GangPlan, pods: Iterable[Pod], last: Pod | None, now: datetime) -> EndedRun | None:
    """Return how long the gang of a plan ran; ``None`` = it did not, or it is not known.

    :param pods: what is left of the gang's pods, all ended.
    :param last: where none is left, the pod that went last; ``None`` = that was not seen.
    """
    left = tuple(pods) or (() if last is None else (last,))
    # Pods of an earlier gang of the same name are none of the plan's.
    known = [pod for pod in left if canonical_uid(pod.uid) in plan.rank_of_pod]
    on_nodes = [pod for pod in known if pod.node is not None]
    bound = plan.condition("Bound")
    was_whole = bound is not None and bound.status == "True"
    if not plan.holding or not plan.spec.gpus or not left or not (was_whole or len(on_nodes) == plan.size):
        return None
    # A pod says itself when it was bound, but not when it was made.
    begins = [max(pod.bound_at, pod.created) for pod in on_nodes]
    if bound is not None and was_whole:
        begins.append(bound.since)
    # Where some are gone, or do not say when they ended, it is over since just now.
    finished = [end for pod in known if pod.terminal and (end := pod.finished) is not None]
    ended = min(max(finished), now) if len(finished) == plan.size else now
    seconds = (ended - min(begins)).total_seconds()
    return EndedRun(plan.key, plan.uid, plan.spec.gpus, seconds)


# -- planned_gangs --
# Gangs with nodes: pods are released, bound, made anew, moved, or late.


# what a gang's pods ask, but for its levels and holds
_ASKED = attrgetter(
    *("gpus_per_pod", "parallelism", "order", "alpha", "avoid", "counts", "gpu_types", "mix_types"),
    *("microbatches", "spread_cost"),
)


def decide_holding(context: Context, gang: Gang, plan: GangPlan) -> None:
    """Decide what to do about a gang with nodes."""
    sight = PlanProgress(gang, plan)
    if not sight.started and (gang.complete or sight.matching) and (changed := _changed(context, sight)):
        context.give_back(plan, PlanPhase.QUEUED, "GangChanged", f"{changed}; planned anew")
    elif sight.strangers:
        _adopt(context, sight)
    elif plan.expired(context.now) and len(sight.bound) < plan.size:
        _expire(context, sight)
    else:
        unfit = context.unfit_ranks(sight)
        context.watch(unfit)
        if not _mend(context, sight, unfit):
            # Their rank has another node than before, and a pin cannot be taken off.
            moved = ((rank, pod, node) for rank, pod, node in sight.outdated if not pod.leaving)
            context.do(*(Recreate(context.key, pod, f"rank {rank} has node {node} now") for rank, pod, node in moved))
            _release(context, sight, unfit)
            _tell(context, sight)
            _advance(context, sight, unfit)
    if plan.expires is not None and plan.expires > context.now:
        context.decision.wake_by(plan.expires)


def _adopt(context: Context, sight: PlanProgress) -> None:
    """Give the ranks of pods that are gone to those that came in their place; when all are new, begin again."""
    if not sight.started and sight.plan.phase is not PlanPhase.PLANNED:
        spec = spec_of(sight.gang, sight.plan.spec)
        context.do(Write(context.renewed(sight.plan, sight.gang).replace(spec=spec)))
        return
    pods = list(sight.plan.pods or (None,) * len(sight.plan.nodes))
    for rank, uid in sight.strangers.items():
        pods[rank] = canonical_uid(uid)
    context.do(Write(sight.plan.replace(pods=tuple(pods))))


def _release(context: Context, sight: PlanProgress, unfit: UnfitRanks) -> None:
    """Release pods: all of them when the gang is complete, later ones as they come.

    No pod is pinned to a node that may be lost, and no gang is begun while one of its nodes may be.
    """
    if sight.started or (sight.gang.complete and not unfit.doubtful):
        mark = release_mark(context.key, sight.plan.size)
        ready = (one for one in sight.gated if one[0] not in unfit.doubtful)
        context.do(*(Release(context.key, pod, node, mark) for _, pod, node in ready))


def _tell(context: Context, sight: PlanProgress) -> None:
    """Tell pods that they have nodes, and again while they are not on them.

    Those that came without the gate at once.  Released ones when kube-scheduler has tried them in vain for a while: a
    replica with old news may have refused them, and where nothing else happens it would not ask again for minutes.  At
    once where the gang has rested: meanwhile each of its pods was refused.
    """
    expires, terms, rested = sight.plan.expires, context.terms, sight.plan.comes_again
    for _, pod, node, pin in sight.unbound:
        tried = pin == node and pod.unschedulable
        if not tried and pin is not None:
            continue
        written = pod.probed_at(PLANNED)
        # conditions have whole seconds
        if rested is not None and (written is None or written < rested.replace(microsecond=0)):
            written = None
        elif written is None and tried:
            written = pod.created if expires is None else max(pod.created, expires - terms.bind)
        if written is None or written + terms.tell <= context.now:
            context.do(NotifyPod(context.key, pod, node))
        else:
            context.decision.wake_by(written + terms.tell)


def _advance(context: Context, sight: PlanProgress, unfit: UnfitRanks) -> None:
    """Write how far the gang is."""
    plan, new, bound = sight.plan, sight.plan, len(sight.bound)
    if plan.phase is PlanPhase.PLANNED and sight.gang.complete and not sight.gated:
        new = new.replace(phase=PlanPhase.RELEASED, reason="Released", message="")
        new = new.with_condition("Released", True, "Released", "", context.now)
    events: tuple[EventNote, ...] = ()
    if new.phase is not PlanPhase.BOUND and bound == plan.size:
        new = new.replace(phase=PlanPhase.BOUND, reason="Bound", message="", expires=None)
        new = new.replace(expiries=0, comes_again=None)
        new = new.with_condition("Bound", True, "Bound", "", context.now)
        events = (EventNote("Bound", f"all {counted(plan.size, 'pod')} are on their nodes"),)
    new = _with_health(context, new, sight, unfit).replace(bound_pods=bound, estimate=context.estimate)
    new = with_doubts(new, sight.gang, context.now)
    weigh = new.condition(WEIGHED) is not None and all(map(context.fleet.host, new.node_names))
    if new != plan or weigh:
        context.do(Write(new, urgent=new.phase is not plan.phase, events=events, weigh=weigh))


def _mend(context: Context, sight: PlanProgress, unfit: UnfitRanks) -> bool:
    """Move ranks off nodes that cannot be had, and return whether there are any: nothing is released meanwhile."""
    if not unfit.move:
        return False
    if not sight.started and sight.plan.phase is PlanPhase.PLANNED:
        context.give_back(sight.plan, PlanPhase.QUEUED, "NodeLost", f"{unfit.why}; planned anew")
    elif any(rank in unfit.move for rank, _, _ in sight.pods):
        context.do(RepairAction(sight.plan, nodes_of(sight.plan, unfit.move), unfit.why))
    else:
        return False
    return True


def _expire(context: Context, sight: PlanProgress) -> None:
    """Decide about pods that are not bound in time.

    When none is, all nodes are given back.  When some are, the others move that kube-scheduler has tried in vain; where
    it has not come to them, as when it was away, they get their time once more.
    """
    plan = sight.plan
    late = [(pod, node) for rank, pod, node in sight.pods if rank not in sight.bound]
    names = named(pod.name for pod, _ in late) or "none is left"
    message = f"{len(sight.bound)} of {counted(plan.size, 'pod')} were bound in time; not bound: {names}"
    if not sight.bound or sight.gang.waits or plan.expires is None:
        if not sight.bound and (refused := [pod for pod, _ in late if pod.unschedulable]):
            plan, message = _refused(context, plan, refused, message)
        context.give_back(plan, PlanPhase.EXPIRED, "Expired", message)
        return
    renewed = context.renewed(plan, sight.gang).with_condition("Bound", False, "Expired", message, context.now)
    # ranks that share a node move together, or not
    kept = {node for pod, node in late if is_stuck(pod, node)}
    kept |= {node for _, pod, node in sight.pods if pod.node == node}
    if lost := tuple(dict.fromkeys(node for pod, node in late if pod.unschedulable and node not in kept)):
        context.do(RepairAction(plan, lost, message, else_keep=renewed))
    else:
        context.do(Write(renewed, events=(EventNote("Expired", message, "Warning"),)))


def _refused(context: Context, plan: GangPlan, pods: Sequence[Pod], message: str) -> tuple[GangPlan, str]:
    """Return the plan of a gang of which kube-scheduler has bound no pod, with its rest, and what is to be said."""
    expiries = plan.expiries + 1
    rest = context.terms.rest(expiries)
    why = next((f"; {pod.name}: {clip(text)}" for pod in pods if (text := _said(pod))), "")
    until = context.now + rest
    again = (
        f"it rests until {until:%Y-%m-%dT%H:%M:%SZ}, and is queued again behind those of its priority that came before"
    )
    return plan.replace(expiries=expiries, comes_again=until), f"{message}{why}; {again}"


def _said(pod: Pod) -> str:
    """Return why kube-scheduler found no node for a pod; empty = it says nothing but what Arnold told it."""
    told = next((one.message for one in pod.status.conditions or () if one.type == "PodScheduled"), "")
    return "" if f"gang {pod.namespace}/" in told else told


def _with_health(context: Context, plan: GangPlan, sight: PlanProgress, unfit: UnfitRanks) -> GangPlan:
    """Return the plan with a condition that says what of it is not as planned."""
    reason, told = "NotAsPlanned", []
    gang = sight.gang
    if gang.problem is not None:
        told.append(str(gang.problem))
    told += map(str, gang.disputes)
    if gang.waits and plan.phase is not PlanPhase.PLANNED:
        told.append(gang.waits)
    if sight.started and (changed := _changed(context, sight)):
        told.append(f"{changed}: that counts when it is planned anew, once none of its pods runs as it was planned")
    if unfit.staying:
        ranks, why = named(map(str, unfit.staying)), next(iter(unfit.staying.values()))
        told.append(f"waiting until no pod of the gang is on the same node: rank {ranks} ({why})")
    pods = ((pod.node, context.fleet.ailing(pod.node, context.now)) for _, pod, _ in sight.pods if pod.node is not None)
    if ailing := {node: why for node, why in pods if why}:
        reason = "NodeAiling"
        told.append(f"{named(ailing)}: {next(iter(ailing.values()))}")
    if sight.misplaced or sight.off_plan:
        reason = "OffPlan"
        told += _off_plan(sight)
    old = plan.condition("Healthy")
    if told:
        return plan.with_condition("Healthy", False, reason, "; ".join(told), context.now)
    if old is None or old.status == "True":
        return plan
    return plan.with_condition("Healthy", True, "AsPlanned", "", context.now)


def _off_plan(sight: PlanProgress) -> list[str]:
    told = []
    if sight.off_plan:
        told.append(f"bound elsewhere than planned: {named(pod.name for _, pod, _ in sight.off_plan)}")
    if sight.misplaced:
        pods = named(pod.name for _, pod, _ in sight.misplaced)
        told.append(f"pinned elsewhere than planned: {pods}; to fix: delete them, so that they are made anew")
    return told


def _changed(context: Context, sight: PlanProgress) -> str:
    """Return what a gang asks now and did not when it was planned; empty = nothing."""
    job, spec = sight.gang.job, sight.plan.spec
    if not sight.matching:
        return f"the gang has {counted(len(sight.gang.members), 'rank')}, its plan {len(sight.plan.nodes)}"
    asked = spec if job is None else PlanSpec.of(job, dialect=spec.dialect, priority=spec.priority)
    # while the cluster has no level the default is that of the plan, and so it is once the gang has started
    broadest, levels = context.fleet.default_level or spec.level, context.fleet.levels or (spec.tp_level,)
    closest = levels[-1] if job is not None and job.nodes_of_tp > 1 else None
    if sight.started:
        broadest, closest = spec.level, spec.tp_level
    asked, spec = context.definitions.kept_spec(asked), context.definitions.kept_spec(spec)
    same = _ASKED(asked) == _ASKED(spec) and _same_level(asked.level, spec.level, broadest)
    same = same and _same_level(asked.tp_level, spec.tp_level, closest)
    # the plan also holds what peers ask of levels by their numbers
    holds, planned = set(asked.holds or ()), set(spec.holds or ())
    same = same and (holds <= planned if sight.gang.tiers else holds == planned)
    return "" if same else "its pods ask otherwise than before"


def _same_level(asked: str | None, planned: str | None, default: str | None) -> bool:
    """Return whether a plan has the level that is asked for; where none is named, the default of the cluster."""
    return planned in (asked, asked or default)


# -- decide_gangs --
# What to do next: a pure function of what is known and the time.
#
# Everything follows from objects in etcd, so a controller that is killed anywhere goes on where it was: each decision
# looks at what *is* and takes the next step towards a gang that is whole on its planned nodes.
#
#     no nodes    Waiting (pods missing) | Invalid (a contradiction) | unplaced: the planner says Planned or Queued
#     Planned     every pod is released as soon as the gang is complete
#     Released    no gate is left; the scheduler binds
#     Bound       all pods are, or were, on their nodes; a pod that comes anew gets its rank's node
#     Queued      for the reason Preempted: every pod that is on a node is evicted, then it waits as any other
#     Expired     time ran out before the first pod was bound: the nodes are given back, and taken again if they are
# free,
#                 after a rest when kube-scheduler had tried the pods and found no node; behind those that wait then, or
#                 while others have its nodes, it is Queued
#
# A rank *cannot have* its node when the node is lost, or others are on it, or when time ran out although other ranks
# were bound.  Then ranks that are not bound move: repaired with the fewest moves.  A pod that is pinned to the node
# before is made anew after that, as a pin cannot be taken off; while no other node can be had it is left alone.


# Reasons of plans.
PREEMPTED = "Preempted"  # its nodes were given back for another gang; as long as it says so, its pods are evicted
LOST = "PlanLost"  # it has nodes for some pods only, and no plan said so
TAKEN = "NodesTaken"  # its pods are pinned to the nodes that it gave back, and others have these now
BEHIND = "BehindOthers"  # it has rested, and others that came before go first

_NONE: Mapping[GangKey, str] = {}


def decide(
    state: ClusterCache,
    now: datetime,
    terms: Timeouts,
    *,
    keys: Iterable[GangKey] | None = None,
    unwanted: Mapping[GangKey, str] = _NONE,
) -> Decision:
    """Return what to do about gangs.

    :param now: timezone-aware.
    :param keys: the gangs to think about; ``None`` = all that have pods or a plan.
    :param unwanted: gangs that are to be stopped for another, and why; those that may not be are left alone.
    """
    decision = Decision()
    for key in sorted({*state.plans, *(gang.key for gang in state.gangs())}) if keys is None else keys:
        gang, plan = state.gang(key), state.plans.get(key)
        estimate = None if gang is None else state.prediction(gang)
        context = Context(key, state.fleet, state.plans, now, terms, decision, estimate, state.definitions)
        if gang is None or gang.over or (plan is not None and _all_done(gang, plan)):
            if plan is not None:
                named = () if gang is None else (pod for pod in gang.pods if canonical_uid(pod.uid) in plan.rank_of_pod)
                run = ended_run(plan, named, state.last_pod(key), now)
                context.do(*(() if run is None else (Learn(run),)), Forget(plan))
        elif plan is not None and plan.holding and gang.preemptible and key in unwanted:
            context.give_back(plan, PlanPhase.QUEUED, PREEMPTED, unwanted[key])
        elif plan is not None and plan.holding:
            decide_holding(context, gang, plan)
        else:
            decide_waiting(context, gang, plan)
    return decision


def _all_done(gang: Gang, plan: GangPlan) -> bool:
    """Return whether all pods of a plan have succeeded, though others that say they are of the gang have not."""
    if not plan.holding or any(canonical_uid(pod.uid) in plan.rank_of_pod for pod in gang.needed_pods):
        return False
    done = {canonical_uid(pod.uid) for pod in gang.pods if pod.status.phase == "Succeeded"}
    return done.issuperset(plan.rank_of_pod) and None not in plan.pods


def decide_waiting(context: Context, gang: Gang, plan: GangPlan | None) -> None:
    """Decide what to do about a gang without nodes."""
    released = [] if plan is None or plan.speaks_for_pods else _on_their_way(gang)
    if plan is not None and plan.expires is not None and plan.expires > context.now:
        context.decision.wake_by(plan.expires)
    if plan is not None and plan.reason == PREEMPTED and gang.preemptible and (pods := _on_nodes(gang)):
        context.do(*(Evict(context.key, pod, plan.message) for pod in pods))
    elif plan is not None and released and plan.expires is None:
        # the nodes of these pods are promised without a plan that has them: for as long as such a plan would
        context.do(Write(plan.replace(expires=context.now + context.terms.bind)))
    elif plan is not None and released and plan.expired(context.now):
        names = named(pod.name for pod in released)
        message = (
            f"{counted(len(released), 'released pod')} were not bound in time, their nodes are given back: {names}"
        )
        new = plan.replace(expires=None).with_condition("Released", False, "Expired", message, context.now)
        context.do(Write(new, events=(EventNote("Expired", message, "Warning"),)))
    elif gang.problem is not None:
        _tell_of_decide_gangs(
            context, gang, plan, phase=PlanPhase.INVALID, reason=gang.problem.reason, message=str(gang.problem)
        )
    elif gang.waits:
        if plan is None and context.now < (due := gang.created + context.terms.gather):
            context.decision.wake_by(due)
        else:
            _tell_of_decide_gangs(context, gang, plan, phase=PlanPhase.WAITING, reason="Incomplete", message=gang.waits)
    elif held := _held_by_others(gang):
        _tell_of_decide_gangs(context, gang, plan, phase=PlanPhase.WAITING, reason="OtherGates", message=held)
    elif chosen := _chosen_by_themselves(context, gang, plan):
        _tell_of_decide_gangs(context, gang, plan, phase=PlanPhase.INVALID, reason="ChoosesNodes", message=chosen)
    elif plan is not None and plan.resting(context.now):
        context.decision.wake_by(plan.comes_again or context.now)
    elif not _take_again(context, gang, plan):
        context.decision.unplaced.append(context.key)


def _on_their_way(gang: Gang) -> list[Pod]:
    """Return the pods that were released to a node and are not on it yet."""
    return [pod for pod in gang.needed_pods if pod.node is None and pod.released and pod.pin is not None]


def _on_nodes(gang: Gang) -> list[Pod]:
    """Return the gang's pods that have a node, or were pinned to one, and are not leaving."""
    return [pod for pod in gang.needed_pods if pod.node is not None or (pod.pin is not None and not pod.gated_by(GATE))]


def _held_by_others(gang: Gang) -> str:
    """Return which gates of others hold pods that wait behind ours: a quota, say.  Nodes would only lie idle."""
    waiting = [member.pod for member in gang.members if member is not None and member.pod.gated_by(GATE)]
    gates = {gate.name: None for pod in waiting for gate in pod.spec.scheduling_gates or () if gate.name != GATE}
    return f"its pods are held by other scheduling gates too: {named(gates)}" if gates else ""


def _chosen_by_themselves(context: Context, gang: Gang, plan: GangPlan | None) -> str:
    """Return which pods name a node, or are on one, that no plan gave to them; empty = none.

    Any client may write a node into a pod.  Were it taken for that of a lost plan, the gang would pass all that
    wait, and choose.  A pod that is on a node already is there, by whatever choice: kube-scheduler leaves no mark when
    it binds one without the gate.  Its plan says where it is, unless that node is promised to others, or has pods that
    a plan would not put on one node.
    """
    pods = [(rank, member.pod) for rank, member in enumerate(gang.members) if member is not None]
    there: defaultdict[str, set[int]] = defaultdict(set)  # node ranks of the pods on each node
    for rank, pod in pods:
        if pod.node is not None:
            there[pod.node].add(node_rank(rank, _sharings(context, gang, (pod.node,))[0]))
    remembered = dict(enumerate(plan.nodes)) if plan is not None else {}
    chosen = []
    for rank, pod in pods:
        node = None if pod.released or pod.gated_by(GATE) else pod.node or pod.pin
        if node is None or remembered.get(rank) == node:
            continue
        if pod.node is None or len(there[node]) > 1 or context.fleet.promised_to(node) not in (None, context.key):
            chosen.append(f"{pod.name} ({node})")
    if not chosen:
        return ""
    return (
        f"{counted(len(chosen), 'pod')} of it chose a node without a plan: {named(chosen)}\n"
        "To fix: delete them, and create them without spec.nodeName, and without metadata.name in their node affinity"
    )


def _tell_of_decide_gangs(
    context: Context, gang: Gang, plan: GangPlan | None, *, phase: PlanPhase, reason: str, message: str
) -> None:
    """Write why a gang has no nodes, if that is not what its plan says."""
    base = with_doubts(plan or GangPlan(context.key, phase), gang, context.now).replace(estimate=context.estimate)
    told = (phase, reason, message, base.estimate, base.conditions)
    if plan is not None and (plan.phase, plan.reason, plan.message, plan.estimate, plan.conditions) == told:
        return
    spec = spec_of(gang, base.spec)
    expires = None if base.speaks_for_pods or not _on_their_way(gang) else base.expires
    new = base.replace(phase=phase, reason=reason, message=message, expires=expires, bound_pods=0, spec=spec)
    events: tuple[EventNote, ...] = ()
    if phase is PlanPhase.INVALID:
        new = new.with_condition("Valid", False, reason, message, context.now)
        events = (EventNote(reason, message, "Warning"),)
    else:
        new = new.with_condition("Valid", True, "Consistent", "", context.now)
        if phase is PlanPhase.QUEUED:  # all its pods are there
            new = new.with_condition("Complete", True, "Complete", "", context.now)
            new = new.with_condition("Planned", False, reason, message, context.now)
        else:
            new = new.with_condition("Complete", False, reason, message, context.now)
    context.do(Write(new, urgent=plan is None or plan.phase is not phase, events=events))


def _take_again(context: Context, gang: Gang, plan: GangPlan | None) -> bool:
    """Take the nodes again that released or bound pods are on already: a new plan is not free to choose.

    Nodes for the others of a gang with a lost plan are new ones.  Where pods bear the mark of this gang in this size,
    it gets them before those that wait: it came through the queue as a whole, and they may wait for the nodes that it
    holds.  Without the mark none while gangs wait: a pod that is on a node can be given to any gang, by its labels, or
    be made there, and its fellows would pass the queue.  So would they by a plan that gave its nodes back, and other
    nodes to the pods.

    :returns: whether there is anything to take.
    """
    remembered = None
    if plan is not None and plan.nodes and (sight := PlanProgress(gang, plan)).matching and not sight.off_plan:
        remembered = plan
    if (base := remembered or _from_pods(context, gang, plan)) is None:
        return False
    sight = PlanProgress(gang, base)
    if not sight.matching or not sight.started:
        return False
    ours = _released_with_it(gang)
    holds = any(pod.node is not None for pod in ours)
    if not holds and (before := _before_it(context, base)):
        others = f"gang {min(before, key=_place).key}{' and others' if len(before) > 1 else ''}"
        why = f"it has rested, and comes behind {others}\nTo fix: wait: in its turn it gets its nodes again, or others"
        _tell_of_decide_gangs(context, gang, plan, phase=PlanPhase.QUEUED, reason=BEHIND, message=why)
        return True
    unfit = context.unfit_ranks(sight)
    context.watch(unfit)
    if unfit.stuck and not sight.bound:
        # Its pods cannot go anywhere else, and they are not there yet: it has no right to nodes that others have now.
        _tell_taken(context, gang, plan, next(iter(unfit.stuck.values()))[1], remembered=remembered is not None)
    elif unfit.move and remembered is None and not ours and (waiting := _in_the_queue(context)):
        those = named(str(one.key) for one in waiting)
        message = (
            f"no plan says where its pods are, {counted(len(unfit.move), 'pod')} of it have no node, and others wait: "
            f"{those}\nTo fix: wait for them, or delete all its pods to have it planned as a whole"
        )
        _tell_of_decide_gangs(context, gang, plan, phase=PlanPhase.QUEUED, reason=LOST, message=message)
    elif unfit.move:
        why = unfit.why if remembered else "no plan says where its pods are; those that have nodes keep them"
        context.do(RepairAction(base, nodes_of(base, unfit.move), why))
    else:
        note = f"the nodes of the plan before are free: {counted(len(base.nodes), 'pod')} go on"
        events = (EventNote("Planned", note),)
        context.do(Write(context.renewed(base, gang), events=events, weigh=remembered is None))
    return True


def _tell_taken(context: Context, gang: Gang, plan: GangPlan | None, taken: str, *, remembered: bool) -> None:
    """Write that others have a node to which a pod is pinned that no controller makes anew."""
    if remembered:
        why = f"its pods wait for nodes that others have now: {taken}\nTo fix: wait, or delete all its pods"
        _tell_of_decide_gangs(context, gang, plan, phase=PlanPhase.QUEUED, reason=TAKEN, message=why)
    else:
        why = f"no plan says where its pods are: {taken}\nTo fix: delete all its pods"
        _tell_of_decide_gangs(context, gang, plan, phase=PlanPhase.QUEUED, reason=LOST, message=why)


def _released_with_it(gang: Gang) -> list[Pod]:
    """Return the pods that were released as members of this very gang, when it was as large as it is."""
    mark = release_mark(gang.key, len(gang.members))
    return [member.pod for member in gang.members if member is not None and member.pod.labels.get(RELEASED) == mark]


def _before_it(context: Context, plan: GangPlan) -> list[GangPlan]:
    """Return the plans of those that wait before a gang that was refused on its nodes, and has rested."""
    if plan.comes_again is None:
        return []
    return [one for one in _in_the_queue(context) if _place(one) < _place(plan)]


def _place(plan: GangPlan) -> tuple[object, ...]:
    """Return the place of a gang among those that wait; no two have the same."""
    return -plan.spec.priority, _waits_since(plan), plan.key


def _waits_since(plan: GangPlan) -> datetime:
    complete = plan.condition("Complete")
    return plan.comes_again or (START_OF_TIME if complete is None else complete.since)


def _in_the_queue(context: Context) -> list[GangPlan]:
    """Return the plans of the other gangs that wait for nodes which they could have."""
    plans = (plan for plan in context.plans.values() if plan.key != context.key and plan.phase is PlanPhase.QUEUED)
    able = [plan for plan in plans if plan.reason not in (LOST, TAKEN, NO_PLAN)]
    return [plan for plan in able if plan.would_fit_if_empty is not False]


def _from_pods(context: Context, gang: Gang, plan: GangPlan | None) -> GangPlan | None:
    """Return a plan in place of a deleted one, read off the pods that are bound or were released.

    Other ranks are vacant, so that a repair gives them nodes.

    :returns: ``None`` where there is nothing to read, or a rank is done and it is not known where it was, or the pods
        lie as in no plan.
    """
    pods = [None if member is None else member.pod for member in gang.members]
    known = [None if pod is None else pod.node or (pod.pin if pod.released else None) for pod in pods]
    if not any(known) or None in pods:
        return None
    base = plan or GangPlan(gang.key, PlanPhase.WAITING)
    for pods_per_node in _sharings(context, gang, known):
        names = [_node_of(known, ranks) for ranks in ranks_by_node(len(pods), pods_per_node)]
        if None not in names and len(set(names)) == len(names):
            nodes = nodes_of_pods([name for name in names if name is not None], len(pods), pods_per_node)
            base = base.without_worth().replace(nodes=nodes, pods=uids_of(gang), spec=spec_of(gang, base.spec))
            return base.replace(pods_per_node=pods_per_node)
    return None


def _node_of(known: Sequence[str | None], ranks: range) -> str | None:
    """Return the node that some ranks share, vacant where none has one; ``None`` = they have several."""
    names = {name for rank in ranks if (name := known[rank]) is not None}
    if len(names) > 1:
        return None
    return names.pop() if names else Vacancy(ranks[0])


def _sharings(context: Context, gang: Gang, known: Iterable[str | None]) -> list[int]:
    """Return how many pods of a gang a node may have, as far as the nodes tell on which some are; at last, one."""
    hosts = [host for name in known if name is not None and (host := context.fleet.host(name)) is not None]
    sizes = {host.gpus for host in hosts} or {node_size.gpus for node_size in context.fleet.table.node_sizes}
    gpus = gang.job.gpus_per_node if gang.job is not None else 0
    return [*(size // gpus for size in sorted(sizes) if gpus and size > gpus and size % gpus == 0), 1]
