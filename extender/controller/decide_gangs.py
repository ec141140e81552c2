"""What to do next: a pure function of what is known and the time.

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

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from extender.cluster_cache import ClusterCache
from extender.controller.actions import Decision, EventNote, Evict, Forget, Learn, RepairAction, Write
from extender.controller.context import Context, PlanProgress, Vacancy, nodes_of, spec_of
from extender.controller.ended_runs import ended_run
from extender.controller.pacing import Timeouts
from extender.controller.planned_gangs import decide_holding
from extender.controller.pod_release import release_mark
from extender.gangs.pods_on_nodes import node_rank, nodes_of_pods, ranks_by_node
from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import GATE
from extender.plans.gang_plan import NO_PLAN, GangPlan, PlanPhase, canonical_uid, uids_of, with_doubts
from extender.texts import counted, named
from topology.kubernetes.objects import START_OF_TIME
from topology.kubernetes.pods import RELEASED, Pod

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
        _tell(context, gang, plan, phase=PlanPhase.INVALID, reason=gang.problem.reason, message=str(gang.problem))
    elif gang.waits:
        if plan is None and context.now < (due := gang.created + context.terms.gather):
            context.decision.wake_by(due)
        else:
            _tell(context, gang, plan, phase=PlanPhase.WAITING, reason="Incomplete", message=gang.waits)
    elif held := _held_by_others(gang):
        _tell(context, gang, plan, phase=PlanPhase.WAITING, reason="OtherGates", message=held)
    elif chosen := _chosen_by_themselves(context, gang, plan):
        _tell(context, gang, plan, phase=PlanPhase.INVALID, reason="ChoosesNodes", message=chosen)
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


def _tell(context: Context, gang: Gang, plan: GangPlan | None, *, phase: PlanPhase, reason: str, message: str) -> None:
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
        _tell(context, gang, plan, phase=PlanPhase.QUEUED, reason=BEHIND, message=why)
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
        _tell(context, gang, plan, phase=PlanPhase.QUEUED, reason=LOST, message=message)
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
        _tell(context, gang, plan, phase=PlanPhase.QUEUED, reason=TAKEN, message=why)
    else:
        why = f"no plan says where its pods are: {taken}\nTo fix: delete all its pods"
        _tell(context, gang, plan, phase=PlanPhase.QUEUED, reason=LOST, message=why)


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
    sizes = {host.gpus for host in hosts} or {one.gpus for one in context.fleet.table.node_sizes}
    gpus = gang.job.gpus_per_node if gang.job is not None else 0
    return [*(size // gpus for size in sorted(sizes) if gpus and size > gpus and size % gpus == 0), 1]
