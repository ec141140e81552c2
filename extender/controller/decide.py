"""Decisions about gangs: what to do next, a pure function of what is known and the time.

Everything follows from objects in etcd, so a controller that is killed anywhere goes on where it was: each decision
looks at what *is* and takes the next step towards a gang that is whole on its planned nodes.

    no nodes    Waiting (pods missing) | Invalid (a contradiction) | unplaced: the planner says Planned or Queued
    Planned     every pod is released as soon as the gang is complete
    Released    no gate is left; the scheduler binds
    Bound       all pods are, or were, on their nodes; a pod that comes anew gets its rank's node
    Queued      with nodes and victims: those give back theirs, then it is Planned, and then all their pods are evicted
    Expired     time ran out before the first pod was bound: the nodes are given back, and taken again if they are free,
                after a rest when kube-scheduler had tried the pods and found no node; behind those that wait then, or
                while others have its nodes, it is Queued

A rank *cannot have* its node when the node is lost, or others are on it, or when time ran out although other ranks were
bound.  Then ranks that are not bound move: repaired with the fewest moves; released pods are told of their new nodes.
While no other node can be had they are left alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import NamedTuple

from extender.cluster_cache import ClusterCache, key_of_pod
from extender.controller import actions as act
from extender.controller.pacing import Timeouts
from extender.fleet.fleet import Fleet
from extender.fleet.hosts import Demand, Host, demands_of
from extender.gangs.job import nodes_of_pods, ranks_by_node
from extender.gangs.pod_rules import host_chosen
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import GATE, PLANNED
from extender.planner.solve import by_cell
from extender.plans.definitions import Definitions
from extender.plans.gang_history import EndedRun
from extender.plans.gang_plan import (
    ASKED,
    NO_PLAN,
    WEIGHED,
    GangPlan,
    PlanPhase,
    PlanSpec,
    canonical_uid,
    uids_of,
    with_doubts,
)
from extender.texts import clip, named
from ground.errors import ArnoldError, few
from ground.quantities import plural
from scheduler.job import Family, Job
from scheduler.objective import spread_by_level
from scheduler.queue.run_times import Prediction
from topology.cluster import Level
from topology.kubernetes.objects import START_OF_TIME
from topology.kubernetes.pods import RELEASED, Pod

# Reasons of plans.
PREEMPTED = "Preempted"  # another's plan names it as a victim; as long as that has its nodes, its pods are evicted
PREEMPTING = "Preempting"  # it has its nodes as soon as others have left them
LOST = "PlanLost"  # it has nodes for some pods only, and no plan said so
BEHIND = "BehindOthers"  # it has rested, and others that came before go first
GROWING = "Growing"  # of condition Healthy: it is to have more ranks, and all is as planned but for these


def decide(
    state: ClusterCache, now: datetime, terms: Timeouts, *, keys: Iterable[GangKey] | None = None
) -> act.Decision:
    """Return what to do about gangs.

    :param now: timezone-aware.
    :param keys: the gangs to think about; ``None`` = all that have pods or a plan.
    """
    decision = act.Decision()
    for key in sorted({*state.plans, *state.gang_keys}) if keys is None else keys:
        gang, plan = state.gang(key), state.plans.get(key)
        estimate = None if gang is None else state.prediction(gang)
        victims: Mapping[str, Pod] = {}
        if plan is not None and plan.preempting:
            going = [victim for victim in plan.victim_keys if (it := state.gang(victim)) is None or _yields(it, plan)]
            victims = state.pods_on_nodes(going)
        context = Context(key, state.fleet, state.plans, now, terms, decision, estimate, state.definitions, victims)
        ended = gang is None or gang.over
        if gang is not None and plan is not None and plan.holding and not ended:
            # or all pods of its plan have succeeded, though others that say they are of the gang have not
            succeeded = {canonical_uid(pod.uid) for pod in gang.pods if pod.status.phase == "Succeeded"}
            ended = plan.rank_of_pod.keys() <= succeeded and None not in plan.pods
        if gang is None or ended:
            if plan is not None:
                pods = () if gang is None else (pod for pod in gang.pods if canonical_uid(pod.uid) in plan.rank_of_pod)
                run = ended_run(plan, pods, state.last_pod.get(key), now)
                context.do(*(() if run is None else (act.Learn(run),)), act.Forget(plan))
        elif (preemptor := state.preemptor(key)) is not None and _yields(gang, preemptor):
            decide_preempted(context, gang, plan, preemptor)
        elif plan is not None and plan.preempting and not plan.holding:
            decide_preempting(context, gang, plan, waits=any(map(state.holding_plan, plan.victim_keys)))
        elif plan is not None and plan.holding:
            decide_holding(context, gang, plan)
        else:
            decide_waiting(context, gang, plan)
    return decision


def ended_run(plan: GangPlan, pods: Iterable[Pod], last: Pod | None, now: datetime) -> EndedRun | None:
    """Return how long the gang of a plan ran that has ended, from what the API server says; ``None`` = not known.

    A run begins with the first binding of a pod of the plan, and ends when the last of its containers did; where pods
    were deleted, when that is seen.  It counts however it ended: a queue cannot know which run will fail.  One that was
    stopped for another gang, or never was whole on its nodes, does not; nor does one that ended while no controller saw
    it, since it is not known when.

    :param pods: what is left of the gang's pods, all ended.
    :param last: where none is left, the pod that went last; ``None`` = that was not seen.
    """
    left = tuple(pods) or (() if last is None else (last,))
    # Pods of an earlier gang of the same name are none of the plan's.
    planned = [pod for pod in left if canonical_uid(pod.uid) in plan.rank_of_pod]
    on_nodes = [pod for pod in planned if pod.node is not None]
    bound = plan.condition("Bound")
    was_whole = bound is not None and bound.status == "True"
    if not plan.holding or not plan.spec.gpus or not left or not (was_whole or len(on_nodes) == plan.size):
        return None
    # A pod says itself when it was bound, but not when it was made.
    begins = [max(pod.bound_at, pod.created) for pod in on_nodes]
    if bound is not None and was_whole:
        begins.append(bound.since)
    # Where some are gone, or do not say when they ended, it is over since just now.
    finished = [end for pod in planned if pod.terminal and (end := pod.finished) is not None]
    ended = min(max(finished), now) if len(finished) == plan.size else now
    return EndedRun(plan.key, plan.uid, plan.spec.gpus, (ended - min(begins)).total_seconds())


@dataclass(frozen=True, slots=True)
class Context:
    """One gang, the plans of all, and what was decided so far about any."""

    key: GangKey
    fleet: Fleet
    plans: Mapping[GangKey, GangPlan]
    now: datetime
    terms: Timeouts
    decision: act.Decision
    estimate: Prediction | None = None  # how long the gang will run, as ended ones tell
    definitions: Definitions = field(default_factory=Definitions)  # of plans in the cluster
    victims: Mapping[str, Pod] = field(default_factory=dict)  # by UID, pods on nodes of those that are stopped for it

    def do(self, *actions: act.Action) -> None:
        """Decide on actions, but for writes of which nothing would be kept that is not stored already."""
        for action in actions:
            if not isinstance(action, act.Write):
                self.decision.actions.append(action)
            elif (plan := self.definitions.kept(action.plan)) != self.plans.get(self.key) or action.weigh:
                self.decision.actions.append(replace(action, plan=plan))

    def unfit_ranks(self, progress: PlanProgress) -> UnfitRanks:
        """Return the ranks that are not bound and cannot have their node, or perhaps not; watch over them.

        Ranks that share a node move together: while a pod of one is there, all stay.  Where pods select their hosts, a
        rank goes where its pod says, and nowhere else.  It is decided again when the next node will be lost.
        """
        move, staying, lost_at, held = dict[int, str](), dict[int, str](), dict[int, datetime](), dict[int, str]()
        pods = {place.rank: place.pod for place in progress.pods}
        selecting = any(host_chosen(pod) for pod in pods.values())
        obstacles = Obstacles(self.fleet, progress.gang, progress.plan, self.now, self.terms.lost, self.victims)
        cut = cut_groups(self.fleet, progress.plan)
        apart = {} if selecting else apart_ranks(cut, progress.plan, progress.bound)
        for ranks in progress.plan.ranks_by_node:
            if progress.bound.issuperset(ranks):
                continue
            node, waiting = progress.plan.nodes[ranks[0]], [rank for rank in ranks if rank not in progress.bound]
            here = [pods[rank] for rank in waiting if rank in pods]
            if gates := other_gates(here):
                held |= dict.fromkeys(waiting, f"held by other scheduling gates: {named(gates)}")
                continue
            chosen = {self.fleet.node_called(host) for pod in here if (host := host_chosen(pod)) is not None}
            if chosen or not selecting:
                wanted = min(chosen, default=node)
            else:  # its pod, which is to come, will say
                continue
            if wanted is None:
                move |= dict.fromkeys(waiting, "no plan gives it a node")
                continue
            why, until = obstacles.at(wanted, pods=len(ranks))
            why = why or apart.get(ranks[0], "")
            if wanted != node and any(pod.node == wanted for pod in pods.values()):
                why = f"node {wanted}, which another rank has"
            if until is not None:
                lost_at |= dict.fromkeys(waiting, until)
            if why or wanted != node:
                kind = held if why and chosen and progress.started else move
                kind = staying if any(rank in pods and pods[rank].node == node for rank in ranks) else kind
                kind |= dict.fromkeys(waiting, f"its pod selects {why or f'node {wanted}'}" if chosen else why)
        if lost_at:
            self.decision.wake_by(min(lost_at.values()))
        return UnfitRanks(move, staying, held, lost_at.keys() | staying.keys() | held.keys(), cut)

    def renewed(self, plan: GangPlan, gang: Gang) -> GangPlan:
        """Return the plan with its time to bind once more."""
        new = plan.replace(phase=PlanPhase.PLANNED, reason="Planned", message="")
        # a gang that is to grow has more
        new = new.replace(pods=uids_of(gang)[: len(plan.nodes)], expires=self.now + self.terms.bind)
        return self._undone(new, "Planned", "").with_condition("Planned", True, "Planned", "", self.now)

    def give_back(self, plan: GangPlan, phase: PlanPhase, reason: str, message: str) -> None:
        """Promise the nodes no more; an expired plan remembers them."""
        new = plan.replace(phase=phase, reason=reason, message=message, expires=None)
        if phase is PlanPhase.QUEUED:
            new = new.without_nodes()
        new = self._undone(new, reason, message).with_condition("Planned", False, reason, message, self.now)
        self.do(act.Write(new, events=(act.EventNote(reason, message, "Warning"),)))

    def _undone(self, plan: GangPlan, reason: str, message: str) -> GangPlan:
        """Return a plan that does not say any more that its pods are released or bound."""
        for kind in ("Released", "Bound"):
            if plan.condition(kind) is not None:
                plan = plan.with_condition(kind, False, reason, message, self.now)
        return plan


# Gangs without nodes: why they wait, and the nodes that their pods are on already


def decide_waiting(context: Context, gang: Gang, plan: GangPlan | None) -> None:
    """Decide what to do about a gang without nodes."""
    released = [] if plan is None or plan.speaks_for_pods else _on_their_way(gang)
    if plan is not None and plan.expires is not None and plan.expires > context.now:
        context.decision.wake_by(plan.expires)
    # pods that wait behind our gate and behind another, a quota say: nodes would only lie idle
    gates = other_gates(member.pod for member in gang.members if member is not None)
    if plan is not None and released and plan.expires is None:
        # the nodes of these pods are promised without a plan that has them: for as long as such a plan would
        context.do(act.Write(plan.replace(expires=context.now + context.terms.bind)))
    elif plan is not None and released and plan.expired(context.now):
        names = named(pod.name for pod in released)
        message = f"{plural(len(released), 'released pod')} were not bound in time, their nodes are given back: {names}"
        new = plan.replace(expires=None).with_condition("Released", False, "Expired", message, context.now)
        context.do(act.Write(new, events=(act.EventNote("Expired", message, "Warning"),)))
    elif gang.problem is not None:
        _explain(context, gang, plan, phase=PlanPhase.INVALID, reason=gang.problem.reason, message=str(gang.problem))
    elif gang.waits:
        if plan is None and context.now < (due := gang.created + context.terms.gather):
            context.decision.wake_by(due)
        else:
            _explain(context, gang, plan, phase=PlanPhase.WAITING, reason="Incomplete", message=gang.waits)
    elif gates:
        message = f"its pods are held by other scheduling gates too: {named(gates)}"
        _explain(context, gang, plan, phase=PlanPhase.WAITING, reason="OtherGates", message=message)
    elif chosen := _chosen_by_themselves(context, gang, plan):
        _explain(context, gang, plan, phase=PlanPhase.INVALID, reason="ChoosesNodes", message=chosen)
    elif plan is not None and plan.resting(context.now):
        context.decision.wake_by(plan.comes_again or context.now)
    elif not _take_again(context, gang, plan):
        context.decision.unplaced.append(context.key)


def other_gates(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the names of the gates that hold pods beside ours."""
    gated = (pod.spec.scheduling_gates or () for pod in pods if pod.gated_by(GATE))
    return tuple(dict.fromkeys(gate.name for gates in gated for gate in gates if gate.name != GATE))


def _on_their_way(gang: Gang) -> list[Pod]:
    """Return the pods that were released to a node and are not on it yet."""
    return [pod for pod in gang.needed_pods if pod.node is None and pod.released_to is not None]


def _explain(
    context: Context, gang: Gang, plan: GangPlan | None, *, phase: PlanPhase, reason: str, message: str
) -> None:
    """Write why a gang has no nodes, if that is not what its plan says."""
    base = with_doubts(plan or GangPlan(context.key, phase), gang, context.now).replace(estimate=context.estimate)
    news = (phase, reason, message, base.estimate, base.conditions)
    if plan is not None and (plan.phase, plan.reason, plan.message, plan.estimate, plan.conditions) == news:
        return
    expires = None if base.speaks_for_pods or not _on_their_way(gang) else base.expires
    new = base.replace(phase=phase, reason=reason, message=message, expires=expires, bound_pods=0)
    new = new.replace(spec=spec_of(gang, base.spec))
    events: tuple[act.EventNote, ...] = ()
    if phase is PlanPhase.INVALID:
        new = new.with_condition("Valid", False, reason, message, context.now)
        events = (act.EventNote(reason, message, "Warning"),)
    else:
        new = new.with_condition("Valid", True, "Consistent", "", context.now)
        if phase is PlanPhase.QUEUED:  # all its pods are there
            new = new.with_condition("Complete", True, "Complete", "", context.now)
            new = new.with_condition("Planned", False, reason, message, context.now)
        else:
            new = new.with_condition("Complete", False, reason, message, context.now)
    context.do(act.Write(new, urgent=plan is None or plan.phase is not phase, events=events))


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
            there[pod.node].add(rank // _sharings(context, gang, (pod.node,))[0])
    remembered = plan.node_of_rank if plan is not None else {}
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
        f"{plural(len(chosen), 'pod')} of it chose a node without a plan: {named(chosen)}\n"
        "To fix: delete them, and create them without spec.nodeName, and without metadata.name in their node affinity"
    )


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
    if plan is not None and plan.nodes and (progress := PlanProgress(gang, plan)).matching and not progress.off_plan:
        remembered = plan
    if (base := remembered or _read_off_pods(context, gang, plan)) is None:
        return False
    progress = PlanProgress(gang, base)
    if not progress.matching or not progress.started:
        return False
    mark = act.release_mark(gang.key, len(gang.members))
    marked = [member.pod for member in filter(None, gang.members) if member.pod.labels.get(RELEASED) == mark]
    in_queue = (
        other
        for other in context.plans.values()
        if other.key != context.key and other.phase is PlanPhase.QUEUED and other.reason not in (LOST, NO_PLAN)
    )
    waiting = [other for other in in_queue if other.would_fit_if_empty is not False]
    # a gang that was refused on its nodes and has rested comes behind those that wait before it
    before = [] if base.comes_again is None else [other for other in waiting if _place(other) < _place(base)]
    if before and not any(pod.node is not None for pod in marked):
        others = f"gang {min(before, key=_place).key}{' and others' if len(before) > 1 else ''}"
        why = f"it has rested, and comes behind {others}\nTo fix: wait: in its turn it gets its nodes again, or others"
        _explain(context, gang, plan, phase=PlanPhase.QUEUED, reason=BEHIND, message=why)
        return True
    unfit = context.unfit_ranks(progress)
    # while none of its pods is on a node, it has no right to others in place of its own before those that wait
    taken = not progress.bound and not base.node_of_rank.keys().isdisjoint(unfit.move)
    if taken and remembered is not None:
        if smaller := 0 < (gang.size or 0) < gang.planned:  # that plan alone gives those beyond a rank
            context.give_back(remembered, PlanPhase.QUEUED, "GangChanged", "it is to have fewer pods; planned anew")
        return smaller
    if unfit.move and remembered is None and waiting and (taken or not marked):
        message = (
            f"no plan says where its pods are, {plural(len(unfit.move), 'pod')} of it have no node, and others wait: "
            f"{named(str(other.key) for other in waiting)}\n"
            "To fix: wait for them, or delete all its pods to have it planned as a whole"
        )
        _explain(context, gang, plan, phase=PlanPhase.QUEUED, reason=LOST, message=message)
    elif unfit.move:
        why = unfit.why if remembered else "no plan says where its pods are; those that have nodes keep them"
        context.do(act.RepairAction(base, nodes_of(base, unfit.move), why))
    else:
        note = f"the nodes of the plan before are free: {plural(len(base.nodes), 'pod')} go on"
        events = (act.EventNote("Planned", note),)
        context.do(act.Write(context.renewed(base, gang), events=events, weigh=remembered is None))
    return True


def _place(plan: GangPlan) -> tuple[object, ...]:
    """Return the place of a gang among those that wait; no two have the same."""
    complete = plan.condition("Complete")
    return -plan.spec.priority, (plan.comes_again or (START_OF_TIME if complete is None else complete.since)), plan.key


def _read_off_pods(context: Context, gang: Gang, plan: GangPlan | None) -> GangPlan | None:
    """Return a plan in place of a deleted one, read off the pods that are bound or were released.

    Other ranks are vacant, so that a repair gives them nodes; those that are done keep the name of theirs,
    if it is known.

    :returns: ``None`` where there is nothing to read, or the pods lie as in no plan.
    """
    pods = [None if member is None else member.pod for member in gang.members]
    given_back = plan is not None and plan.speaks_for_pods
    nodes = [None if pod is None else pod.node or (None if given_back else pod.released_to) for pod in pods]
    if not any(nodes) or any(pod is None and rank not in gang.done for rank, pod in enumerate(pods)):
        return None
    base = plan or GangPlan(gang.key, PlanPhase.WAITING)
    # where none wants another node, what the nodes have by now does not matter
    together = () if None in nodes else (max(Counter(nodes).values()),)
    for pods_per_node in (*_sharings(context, gang, nodes), *together):
        # the nodes that ranks have which share one, in no plan several; a node of several groups is in no plan either;
        # pods may have ended on a node that their ranks, or others, have moved from or to since
        groups = []
        for ranks in ranks_by_node(len(pods), pods_per_node):
            ended = sorted({node for rank in ranks if (node := gang.done.get(rank)) is not None and node not in nodes})
            groups.append({nodes[rank] for rank in ranks} - {None} or {*ended[:1]})
        names = [name for group in groups for name in group]
        if all(len(group) <= 1 for group in groups) and len({*names}) == len(names):
            by_pod = nodes_of_pods([next(iter(group), None) for group in groups], len(pods), pods_per_node)
            base = base.without_worth().replace(nodes=by_pod, pods=uids_of(gang), pods_per_node=pods_per_node)
            base = base.replace(ended=tuple(sorted(gang.done)))
            return base.replace(spec=spec_of(gang, base.spec))
    return None


def _sharings(context: Context, gang: Gang, nodes: Iterable[str | None]) -> list[int]:
    """Return how many pods of a gang a node may have, as far as the nodes tell on which some are; at last, one."""
    hosts = [host for name in nodes if name is not None and (host := context.fleet.host(name)) is not None]
    sizes = {host.gpus for host in hosts} or {size.gpus for size in context.fleet.table.node_sizes}
    gpus = gang.job.gpus_per_node if gang.job is not None else 0
    return [*(size // gpus for size in sorted(sizes) if gpus and size > gpus and size % gpus == 0), 1]


# Gangs of which one takes the nodes of others


def taking(plan: GangPlan, victims: Sequence[GangKey], now: datetime, terms: Timeouts) -> GangPlan:
    """Return a plan whose nodes others have, as it is while they are stopped for it: whom, all else follows from it."""
    message = f"has its nodes as soon as others have left them, which are stopped for it: {few(map(str, victims))}"
    plan = plan.replace(phase=PlanPhase.QUEUED, reason=PREEMPTING, message=message, expires=now + terms.bind)
    plan = plan.replace(victims=tuple(map(str, victims)))
    return plan.with_condition("Planned", False, PREEMPTING, message, now)


def _yields(gang: Gang, preemptor: GangPlan) -> bool:
    """Return whether a gang may be stopped for another: as all its pods say so, or for a higher priority."""
    return gang.preemptible or (gang.priority < preemptor.spec.priority and not gang.protected)


def decide_preempted(context: Context, gang: Gang, plan: GangPlan | None, preemptor: GangPlan) -> None:
    """Decide about a gang that is stopped for another: it is told, gives its nodes back, and goes when that has them.

    Until then it runs, and no third can have them; when the other is gone before, it takes them again.
    """
    if plan is None or plan.reason != PREEMPTED or plan.holding:
        why = f"{_makes_room(preemptor)}: evicted at {context.now:%Y-%m-%dT%H:%M:%SZ}"
        context.give_back(plan or GangPlan(context.key), PlanPhase.QUEUED, PREEMPTED, why)
    elif preemptor.holding:
        context.do(*(act.Evict(pod, plan.message) for pod in gang.needed_pods if pod.node is not None))


def decide_preempting(context: Context, gang: Gang, plan: GangPlan, *, waits: bool) -> None:
    """Decide about a gang that is to have nodes of others; it waits while any of these are promised theirs.

    When the gang, or one of its nodes, is not what it was, nobody has been evicted, and all have their nodes again.
    """
    progress, late = PlanProgress(gang, plan), plan.expired(context.now)
    if late or not gang.complete or progress.strangers or _why_outdated(context, progress) or progress.started:
        context.give_back(plan, PlanPhase.QUEUED, "GangChanged", "it is not what it was: nobody is stopped for it")
    elif not waits:
        if why := context.unfit_ranks(progress).why:
            context.give_back(plan, PlanPhase.QUEUED, "NodeLost", f"{why}; planned anew")
            return
        new = plan.with_condition("Planned", True, PREEMPTING, plan.message, context.now)
        context.do(act.Write(new.replace(phase=PlanPhase.PLANNED, expires=None)))
    elif plan.expires is not None:
        context.decision.wake_by(plan.expires)


def _makes_room(plan: GangPlan) -> str:
    return f"makes room for gang {plan.key}, of priority {plan.spec.priority}"


# Gangs with nodes: pods are released, bound, made anew, moved, or late


def decide_holding(context: Context, gang: Gang, plan: GangPlan) -> None:
    """Decide what to do about a gang with nodes."""
    progress = PlanProgress(gang, plan)
    if plan.expires is not None and plan.expires > context.now:
        context.decision.wake_by(plan.expires)
    if not progress.started and (gang.complete or progress.matching) and (changed := _why_outdated(context, progress)):
        context.give_back(plan, PlanPhase.QUEUED, "GangChanged", f"{changed}; planned anew")
    elif progress.strangers and not progress.started and plan.phase is not PlanPhase.PLANNED:
        # all its pods are new: it begins again
        context.do(act.Write(context.renewed(plan, gang).replace(spec=spec_of(gang, plan.spec))))
    elif revived := {*plan.ended} - {*progress.ended}:
        # pods came anew whose ranks had ended: others may have their nodes by now
        context.do(act.Write(plan.vacated(revived)))
    elif progress.strangers:
        # those that came in the place of pods that are gone get their ranks
        pods = list(plan.pods or (None,) * len(plan.nodes))
        for rank, uid in progress.strangers.items():
            pods[rank] = canonical_uid(uid)
        context.do(act.Write(plan.replace(pods=tuple(pods))))
    elif plan.expired(context.now) and len(progress.bound) < plan.size:
        _expire(context, progress)
    elif (smaller := _shrunk(context, progress)) is not None:
        count = f"{len(plan.nodes)} to {plural(len(smaller.nodes), 'pod')}"
        events = (act.EventNote("Shrunk", f"it shrinks from {count}: the nodes of the others are given back"),)
        context.do(act.Write(smaller, events=events, weigh=True))
    else:
        _go_on(context, progress)


def _shrunk(context: Context, progress: PlanProgress) -> GangPlan | None:
    """Return the plan of a gang that runs with fewer ranks, once none of the others has a pod; ``None`` = as it is."""
    gang, plan = progress.gang, progress.plan
    ranks = gang.size or 0
    if not 0 < ranks < gang.planned == len(plan.nodes) or not _only_resized(context, progress):
        return None
    kept = [*range(ranks)]
    if beyond := [member for member in gang.members[ranks:] if member is not None]:
        # the last stay: those that several numbers put in order may go anywhere, and the others move up
        kept = [rank for rank, member in enumerate(gang.members) if member is not None]
        one_number = any(len(member.index or ()) < 2 for member in beyond)
        if one_number or len(kept) != ranks or plan.ended or gang.done or plan.pods_per_node > 1:
            return None
    nodes, pods = (tuple(by_rank[rank] for rank in kept if by_rank) for by_rank in (plan.nodes, plan.pods))
    ended = tuple(rank for rank in plan.ended if rank < ranks)
    return plan.replace(nodes=nodes, pods=pods, ended=ended, spec=spec_of(gang, plan.spec)).without_worth()


def _grown(context: Context, progress: PlanProgress) -> GangPlan | None:
    """Return the plan of a gang that runs with more ranks, these vacant, once all have pods; ``None`` = as it is."""
    gang, plan = progress.gang, progress.plan
    if not gang.planned == len(plan.nodes) < len(gang.members) or not _only_resized(context, progress):
        return None
    ranks, by_node = len(gang.members), [*plan.nodes_by_rank]
    # new ranks that share the last node with ranks that are there have that node
    for group in [*ranks_by_node(ranks, plan.pods_per_node)][len(by_node) :]:
        # pods that never left theirs, as the plan was lost while it shrank, keep these
        there = {member.pod.node for rank in group if (member := gang.members[rank]) is not None} - {None, *by_node}
        node = there.pop() if len(there) == 1 else None
        by_node.append(node if node is None or context.fleet.promised_to(node) in (None, gang.key) else None)
    nodes = nodes_of_pods(by_node, ranks, plan.pods_per_node)
    return plan.replace(nodes=nodes, pods=uids_of(gang), spec=spec_of(gang, plan.spec)) if gang.complete else None


def _only_resized(context: Context, progress: PlanProgress) -> bool:
    """Return whether nothing but another number of replicas is asked; other words count when it is planned anew."""
    return progress.gang.job is not None and not _why_outdated(context, progress)


def _go_on(context: Context, progress: PlanProgress) -> None:
    """Take the next step towards a gang that is whole on its planned nodes."""
    gang, plan, terms = progress.gang, progress.plan, context.terms
    unfit = context.unfit_ranks(progress)
    # Ranks move off nodes that cannot be had, and nothing is released meanwhile.
    if unfit.move and not progress.started and plan.phase is PlanPhase.PLANNED:
        context.give_back(plan, PlanPhase.QUEUED, "NodeLost", f"{unfit.why}; planned anew")
        return
    if plan.preempting:
        # of the single pods on its nodes each is evicted; gangs go whole, wherever their pods are
        singles = [pod for pod in context.victims.values() if str(key_of_pod(pod)) in plan.victims]
        context.do(*(act.Evict(pod, _makes_room(plan)) for pod in singles if not pod.leaving))
        there = {*plan.node_names}
        if all(pod.leaving and pod.node not in there for pod in context.victims.values()):
            context.do(act.Write(context.renewed(plan, gang).replace(victims=())))
        return
    if any(place.rank in unfit.move for place in progress.pods):
        context.do(act.RepairAction(plan, nodes_of(plan, unfit.move), unfit.why))
        return
    # All are released when the gang is complete, later ones as they come.  None is sent to a node that may be lost,
    # and no gang is begun while one of its nodes may be.
    if progress.started or (gang.complete and not unfit.doubtful):
        mark = act.release_mark(context.key, plan.size)
        for place in progress.gated:
            if place.rank not in unfit.doubtful and place.node is not None:
                context.do(act.Release(place.pod, place.node, mark))
    # They are told that they have nodes, and again while they are on none.  At once those that move, or came without a
    # gate and were refused when the gang had no nodes.  Others after a while: one that kube-scheduler has not come to
    # finds its node by itself, and a released one may have been refused by a replica with old news, and would not be
    # asked about for minutes.  At once, too, where the gang has rested: each of its pods was refused.
    for place in progress.unbound:
        pod, node, rested = place.pod, place.node, plan.comes_again
        moves, tried = pod.released and pod.released_to != node, pod.unschedulable
        if node is None or place in progress.misplaced or (pod.released and not moves and not tried):
            continue
        written = pod.probed_at(PLANNED)
        # conditions have whole seconds
        if rested is not None and (written is None or written < rested.replace(microsecond=0)):
            written = None
        elif written is None and tried is pod.released:
            written = pod.created if plan.expires is None else max(pod.created, plan.expires - terms.bind)
        if moves or written is None or written + terms.tell <= context.now:
            context.do(act.NotifyPod(pod, node))
        else:
            context.decision.wake_by(written + terms.tell)
    grown = _grown(context, progress)
    _advance(context, progress, unfit, grown=grown)
    if grown is not None and not context.decision.actions:
        if None in grown.nodes:
            context.do(act.RepairAction(grown, (), _growth(plan, grown)))
        else:
            context.do(act.Write(grown.without_worth(), weigh=True))


def _growth(plan: GangPlan, grown: GangPlan) -> str:
    return f"it grows from {len(plan.nodes)} to {plural(len(grown.nodes), 'pod')}"


def _advance(context: Context, progress: PlanProgress, unfit: UnfitRanks, *, grown: GangPlan | None) -> None:
    """Write how far the gang is, and what of it is not as planned.

    :param grown: the plan that it would have with the ranks that it is to have besides; ``None`` = none.
    """
    gang, plan, new, bound = progress.gang, progress.plan, progress.plan, len(progress.bound)
    if plan.phase is PlanPhase.PLANNED and gang.complete and not progress.gated:
        new = new.replace(phase=PlanPhase.RELEASED, reason="Released", message="")
        new = new.with_condition("Released", True, "Released", "", context.now)
    events: tuple[act.EventNote, ...] = ()
    if new.phase is not PlanPhase.BOUND and bound == plan.size:
        new = new.replace(phase=PlanPhase.BOUND, reason="Bound", message="", expires=None)
        new = new.replace(expiries=0, comes_again=None)
        new = new.with_condition("Bound", True, "Bound", "", context.now)
        events = (act.EventNote("Bound", f"all {plural(plan.size, 'pod')} are on their nodes"),)
    reason, ills = "NotAsPlanned", list[str]()
    if gang.problem is not None:
        ills.append(str(gang.problem))
    ills += map(str, gang.disputes)
    if gang.waits and new.phase is not PlanPhase.PLANNED:
        ills.append(gang.waits)
    if progress.started and (changed := _why_outdated(context, progress)):
        ills.append(f"{changed}: that counts when it is planned anew, once none of its pods runs as it was planned")
    if unfit.staying:
        ranks, why = named(map(str, unfit.staying)), next(iter(unfit.staying.values()))
        ills.append(f"waiting until no pod of the gang is on the same node: rank {ranks} ({why})")
    waiting = {place.rank: place for place in progress.pods if place.pod.node is None}
    for why in dict.fromkeys(unfit.held.values()):
        ranks = named(str(rank) for rank, reason in unfit.held.items() if reason == why)
        ills.append(f"rank {ranks}: {why}")
    if doubtful := [rank for rank in unfit.doubtful if rank in waiting and rank not in {**unfit.staying, **unfit.held}]:
        why = context.fleet.ailing(waiting[doubtful[0]].node or "", context.now)
        ills.append(f"waiting until its node is fine again, or lost: rank {named(map(str, doubtful))} ({why})")
    refused = [place for place in progress.unbound if place.pod.unschedulable]
    if refused and new.phase is PlanPhase.BOUND:
        ills.append(f"kube-scheduler has not bound it yet: rank {named(str(place.rank) for place in refused)}")
    nodes = [place.pod.node for place in progress.pods if place.pod.node is not None]
    if ailing := {node: why for node in nodes if (why := context.fleet.ailing(node, context.now))}:
        reason = "NodeAiling"
        ills.append(f"{named(ailing)}: {next(iter(ailing.values()))}")
    if broken := [*apart_ranks(unfit.cut, plan, frozenset()).values()] if progress.started else []:
        ills.append(f"labels of nodes have changed, and a constraint does not hold any more: {named(broken)}")
    if progress.misplaced or progress.off_plan:
        reason = "OffPlan"
    if progress.off_plan:
        ills.append(f"bound elsewhere than planned: {named(place.pod.name for place in progress.off_plan)}")
    if progress.misplaced:
        pods = named(place.pod.name for place in progress.misplaced)
        ills.append(f"pinned elsewhere than planned: {pods}; to fix: delete them, so that they are made anew")
    old = new.condition("Healthy")
    if grown is not None:
        reason = reason if ills else GROWING
        # as long as it has no room the condition says why, where nothing else is wrong
        ills.append(old.message if old is not None and old.reason == reason == GROWING else _growth(plan, grown))
    if ills:
        new = new.with_condition("Healthy", False, reason, "; ".join(ills), context.now)
    elif old is not None and old.status != "True":
        new = new.with_condition("Healthy", True, "AsPlanned", "", context.now)
    new = new.replace(bound_pods=bound, ended=progress.ended, estimate=context.estimate)
    new = with_doubts(new, gang, context.now)
    weigh = new.condition(WEIGHED) is not None and all(map(context.fleet.host, new.node_names))
    if new.phase is PlanPhase.BOUND and not unfit.cut:
        weigh = weigh or new.spread not in (None, spread_now(context.fleet, new))
    if new != plan or weigh:
        urgent = new.phase is not plan.phase or new.ended != plan.ended
        context.do(act.Write(new, urgent=urgent, events=events, weigh=weigh))


def _expire(context: Context, progress: PlanProgress) -> None:
    """Decide about pods that are not bound in time.

    When none is, all nodes are given back; those that kube-scheduler has refused on them rest.  When some are, the
    others move that it has tried in vain; where it has not come to them, as when it was away, they get their time once
    more.
    """
    plan = progress.plan
    late = [place for place in progress.pods if place.rank not in progress.bound]
    names = named(place.pod.name for place in late) or "none is left"
    message = f"{len(progress.bound)} of {plural(plan.size, 'pod')} were bound in time; not bound: {names}"
    if not progress.bound or progress.gang.waits or plan.expires is None:
        if not progress.bound and (refused := [place.pod for place in late if place.pod.unschedulable]):
            until = context.now + context.terms.rest(plan.expiries + 1)
            plan = plan.replace(expiries=plan.expiries + 1, comes_again=until)
            for pod in refused:
                conditions = pod.status.conditions or ()
                reason = next((condition.message for condition in conditions if condition.type == "PodScheduled"), "")
                if reason and f"gang {pod.namespace}/" not in reason:  # else it repeats what Arnold told it
                    message += f"; {pod.name}: {clip(reason)}"
                    break
            message += (
                f"; it rests until {until:%Y-%m-%dT%H:%M:%SZ}, and is queued again behind those of its priority that "
                "came before"
            )
        context.give_back(plan, PlanPhase.EXPIRED, "Expired", message)
        return
    renewed = context.renewed(plan, progress.gang).with_condition("Bound", False, "Expired", message, context.now)
    # ranks that share a node move together, or not
    kept = {place.node for place in progress.pods if place.pod.node == place.node}
    if lost := [place.rank for place in late if place.pod.unschedulable and place.node not in kept]:
        context.do(act.RepairAction(plan, nodes_of(plan, lost), message, else_keep=renewed))
    else:
        context.do(act.Write(renewed, events=(act.EventNote("Expired", message, "Warning"),)))


def _why_outdated(context: Context, progress: PlanProgress) -> str:
    """Return what a gang asks now and did not when it was planned; empty = nothing."""
    job, spec = progress.gang.job, progress.plan.spec
    if not progress.matching:
        return f"the gang has {plural(len(progress.gang.members), 'rank')}, its plan {len(progress.plan.nodes)}"
    wanted = spec if job is None else PlanSpec.of(job, dialect=spec.dialect, priority=spec.priority)
    if progress.started and spec.more_replicas(wanted):
        wanted = wanted.replace(parallelism=spec.parallelism)
    # while the cluster has no level the default is that of the plan, and so it is once the gang has started
    broadest, levels = context.fleet.default_level or spec.level, context.fleet.levels or (spec.tp_level,)
    closest = levels[-1] if job is not None and job.nodes_of_tp > 1 else None
    if progress.started:
        broadest, closest = spec.level, spec.tp_level
    wanted, spec = context.definitions.kept_spec(wanted), context.definitions.kept_spec(spec)
    # a plan has the level that is asked for; where none is named, the default of the cluster
    same = _ASKED(wanted) == _ASKED(spec) and spec.level in (wanted.level, wanted.level or broadest)
    same = same and spec.tp_level in (wanted.tp_level, wanted.tp_level or closest)
    # the plan also holds what peers ask of levels by their numbers
    holds, planned = set(wanted.holds or ()), set(spec.holds or ())
    same = same and (holds <= planned if progress.gang.tiers else holds == planned)
    return "" if same else "its pods ask otherwise than before"


# what a gang's pods ask, but for its levels and holds
_ASKED = attrgetter("gpus_per_pod", "parallelism", "order", *ASKED)


# What decisions look at


class PodAtRank(NamedTuple):
    """A pod of a gang with a plan."""

    rank: int
    pod: Pod
    node: str | None  # that the plan gives to its rank; None = the rank is vacant


@dataclass(frozen=True)
class PlanProgress:
    """One gang with a plan that has nodes.

    A rank is *done* when its pod has succeeded, or failed for good: it counts as bound and wants nothing.
    """

    gang: Gang
    plan: GangPlan

    @cached_property
    def matching(self) -> bool:
        """Whether the gang's ranks are known and are as many as the plan has nodes, or will be when it is resized."""
        return len(self.plan.nodes) in (len(self.gang.members), self.gang.planned)

    @cached_property
    def pods(self) -> tuple[PodAtRank, ...]:
        """Each rank that has a pod.

        While the gang's ranks cannot be told (a pod too many, or one missing), those of the pods that the plan names.
        """
        nodes = self.plan.nodes
        if self.matching:
            members = enumerate(self.gang.members[: len(nodes)])
            return tuple(PodAtRank(rank, member.pod, nodes[rank]) for rank, member in members if member is not None)
        ranks = ((self.plan.rank_of_pod.get(canonical_uid(pod.uid)), pod) for pod in self.gang.needed_pods)
        return tuple(PodAtRank(rank, pod, nodes[rank]) for rank, pod in ranks if rank is not None and rank < len(nodes))

    @cached_property
    def strangers(self) -> dict[int, str]:
        """Ranks that have another pod than the plan says, and its UID."""
        if not self.matching:
            return {}
        planned = self.plan.pods or (None,) * len(self.plan.nodes)
        return {rank: pod.uid for rank, pod, _ in self.pods if planned[rank] != canonical_uid(pod.uid)}

    @cached_property
    def gated(self) -> tuple[PodAtRank, ...]:
        """Pods that still wait behind our gate."""
        return tuple(place for place in self.pods if place.pod.node is None and place.pod.gated_by(GATE))

    @cached_property
    def bound(self) -> frozenset[int]:
        """Ranks with a pod on a node, or done."""
        return self.done | {place.rank for place in self.pods if place.pod.node is not None}

    @cached_property
    def done(self) -> frozenset[int]:
        """Ranks of the plan whose pod has succeeded, or failed for good."""
        return frozenset(self.gang.done.keys() & {*range(len(self.plan.nodes))}) if self.matching else frozenset()

    @cached_property
    def ended(self) -> tuple[int, ...]:
        """Ranks that need no node any more, also those whose pod, which had ended, is gone."""
        return tuple(sorted({*self.done, *self.plan.ended} - {place.rank for place in self.pods}))

    @cached_property
    def started(self) -> bool:
        """Whether a pod was released or bound: a new plan would not be free to choose its node."""
        return any(pod.node is not None or (pod.released and not pod.gated_by(GATE)) for _, pod, _ in self.pods)

    @cached_property
    def unbound(self) -> tuple[PodAtRank, ...]:
        """Pods without our gate that are not bound."""
        return tuple(place for place in self.pods if place.pod.node is None and not place.pod.gated_by(GATE))

    @cached_property
    def misplaced(self) -> tuple[PodAtRank, ...]:
        """Pods that came without the gate and are pinned to another node than planned, and not bound."""
        return tuple(it for it in self.unbound if not it.pod.released and it.pod.pin not in (None, it.node))

    @cached_property
    def off_plan(self) -> tuple[PodAtRank, ...]:
        """Pods that are bound to another node than planned."""
        return tuple(place for place in self.pods if place.pod.node not in (None, place.node))


@dataclass(frozen=True, slots=True)
class UnfitRanks:
    """Ranks that are not bound, by what is wrong with their nodes."""

    move: Mapping[int, str]  # ranks to be moved, each with the reason
    # ranks that cannot have their node and do not move, as another pod of the gang is on it
    staying: Mapping[int, str]
    held: Mapping[int, str]  # ranks whose pod has another gate, or selects a node that it cannot have, and why
    doubtful: AbstractSet[int]  # ranks on nodes that are not Ready and not lost yet, or that stay, or are held
    cut: Sequence[CutGroup]  # groups that are held in one domain and lie in several

    @property
    def why(self) -> str:
        """The first of the reasons to move."""
        return next(iter(self.move.values()), "")


class CutGroup(NamedTuple):
    """A group that a constraint of a plan holds in one domain of a level, and whose nodes lie in several: labels of
    nodes change.
    """

    family: Family
    level: Level
    domain_of: Mapping[int, int]  # its ranks of nodes, and the domain of each


@lru_cache(maxsize=256)  # bound gangs are looked at in every decision; a job of 2,048 nodes takes 0.4 MB
def _job_on_nodes(spec: PlanSpec, gpus_per_node: int) -> Job | None:
    """Return the job of a plan, a cell for each node; ``None`` while the gang is not understood, or where nodes that
    are smaller by now, or somebody, made of the plan what no job can be.
    """
    with suppress(ArnoldError):
        job = spec.job("gang")
        job = None if job is None else job.replace(gpus_per_node=gpus_per_node)
        return job if job is not None and job.grid.cells else None  # or they cut into no such nodes
    return None


def cut_groups(fleet: Fleet, plan: GangPlan) -> list[CutGroup]:
    """Return those of a plan on the labels of now; nodes that the cluster has not any more lie nowhere."""
    tree, job, index_of = fleet.table.tree, _job_on_nodes(plan.spec, plan.gpus_per_node), fleet.table.index_of
    if tree is None or job is None or not (job.holds or job.tp_level):
        return []
    try:
        holds = [(hold.family, tree.level(hold.level)) for hold in job.holds_on(tree)]
    except ArnoldError:  # the cluster has not these levels any more
        return []
    names = [name or "" for name in plan.nodes_by_rank]  # no node is called so
    node_rank, cut = job.grid.node_rank.ravel().tolist(), list[CutGroup]()
    for family, level in holds if job.grid.cells == len(names) else ():
        domain_of = {i: int(level.domain_of[index_of[name]]) for i, name in enumerate(names) if name in index_of}
        for cells in job.grid.groups[family].members if len({*domain_of.values()}) > 1 else ():
            group = {rank: domain_of[rank] for cell in cells if (rank := node_rank[cell]) in domain_of}
            if len({*group.values()}) > 1:
                cut.append(CutGroup(family, level, group))
    return cut


def spread_now(fleet: Fleet, plan: GangPlan) -> tuple[int, int] | None:
    """Return the spread of a plan on the labels of now; ``None`` = nobody knows it of one of its nodes, or they are not
    as many as its job has.
    """
    tree, job = fleet.table.tree, _job_on_nodes(plan.spec, plan.gpus_per_node)
    if tree is None or job is None or not all(name in fleet.table.index_of for name in plan.nodes_by_rank):
        return None
    if job.grid.cells != len(plan.nodes_by_rank):
        return None
    with suppress(ArnoldError):  # the cluster has not this level any more
        of_level = spread_by_level(tree, job.grid, by_cell(tree, job, plan.node_names))[tree.level(job.level).name]
        return of_level["dp"], of_level["pp"]
    return None


def apart_ranks(cut: Iterable[CutGroup], plan: GangPlan, bound: AbstractSet[int]) -> dict[int, str]:
    """Return the first rank of each node that lies apart from the others of such a group, and why: a pod that comes
    anew is not sent where the plan would not have.

    It is apart from those of its group with bound pods, or from most of a group without any; where those with bound
    pods lie apart themselves, no node is better than another.
    """
    pods, apart = [*plan.ranks_by_node], dict[int, str]()
    for family, level, domain_of in cut:
        there = {rank for rank in domain_of if not bound.isdisjoint(pods[rank])}
        known = Counter(domain_of[rank] for rank in there)
        if len(known) > 1:
            continue
        (home, _), *_ = (known or Counter(domain_of.values())).most_common(1)
        for rank, domain in domain_of.items():
            if rank not in there and domain != home:
                here, others = level.domains[domain], level.domains[home]
                why = f"node {plan.nodes_by_rank[rank]} is in {here} now, its {family} group in {others}"
                apart.setdefault(pods[rank][0], why)
    return apart


@dataclass(frozen=True)
class Obstacles:
    """What stands between a gang and the nodes of its plan."""

    fleet: Fleet
    gang: Gang
    plan: GangPlan
    now: datetime
    lost: timedelta  # how long a node may be not Ready before it is lost
    victims: Mapping[str, Pod] = field(default_factory=dict)  # by UID, pods of others that leave for the gang

    def at(self, node: str, *, pods: int | None = None) -> tuple[str, datetime | None]:
        """Return why ranks not bound cannot have a node, empty = they can, and when a node not Ready will be lost.

        :param pods: of the gang that are to be there; ``None`` = as many as the plan says.
        """
        pods = self._pods_on[node] if pods is None else pods
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
        held = self.fleet.held.gpus_on(node)
        others = held and held - self._own_gpus[node]
        # of a node that they fill in part the pods want fewer GPUs than it has
        if host is not None and host.allocatable - others < pods * self.plan.spec.gpus_per_pod:
            in_use = f"{plural(others, 'GPU')} in use by pods that are not of the gang"
            left = in_use if others else f"{plural(host.allocatable, 'GPU')} allocatable"
            return f"node {node}: {left}", None
        if lacks := self.fleet.lacking(node, self._demands, pods=pods, own=self._own_pods[node]):
            return f"node {node}: {lacks}", None
        return "", until

    @cached_property
    def _demands(self) -> frozenset[Demand]:
        return demands_of(member.pod for member in self.gang.members if member is not None)

    @cached_property
    def _pods_on(self) -> Counter[str | None]:
        """Pods of the gang on each node of the plan."""
        return Counter(self.plan.nodes)

    @cached_property
    def _own_pods(self) -> defaultdict[str | None, list[str]]:
        """UIDs of the gang's own pods, and of those that leave for it, by node."""
        pods: defaultdict[str | None, list[str]] = defaultdict(list)
        for pod in (*self.gang.pods, *self.victims.values()):
            pods[pod.node].append(pod.uid)
        return pods

    @cached_property
    def _own_gpus(self) -> Counter[str]:
        """GPUs of the gang's own pods, earlier ones among them, and of those that leave for it, by node."""
        held: Counter[str] = Counter()
        uids = (*(pod.uid for pod in self.gang.pods), *self.victims)
        for tenant in filter(None, map(self.fleet.held.holders.get, uids)):
            held[tenant.node] += tenant.request.gpus
        return held


def repelling_taint(host: Host, demands: Iterable[Demand]) -> str | None:
    """Return the key of a taint that keeps some pods away; those of Kubernetes itself repeat conditions."""
    taints = [taint for taint in host.repelling if not taint.key.startswith("node.kubernetes.io/")]
    pods = tuple(demands) if taints else ()
    return next((taint.key for taint in taints if not all(demand.tolerates(taint) for demand in pods)), None)


def spec_of(gang: Gang, before: PlanSpec) -> PlanSpec:
    """Return what is asked now; while it cannot be understood, as much as can be told."""
    if gang.job is not None:
        return PlanSpec.of(gang.job, dialect=gang.dialect, priority=gang.priority)
    return PlanSpec(dialect=gang.dialect, size=gang.size or before.size, priority=gang.priority)


def nodes_of(plan: GangPlan, ranks: Iterable[int]) -> tuple[str, ...]:
    """Return the nodes of some ranks, each once; none of vacant ones."""
    return tuple(dict.fromkeys(plan.node_of_rank[rank] for rank in ranks if rank in plan.node_of_rank))
