"""Gangs with nodes: pods are released, bound, made anew, moved, or late."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from extender.controller.actions import EventNote, NotifyPod, Recreate, Release, RepairAction, Write
from extender.controller.context import Context, PlanProgress, UnfitRanks, is_stuck, nodes_of, spec_of
from extender.controller.pod_release import release_mark
from extender.gangs.types import Gang
from extender.kubernetes_names import PLANNED
from extender.plans.gang_plan import WEIGHED, GangPlan, PlanPhase, canonical_uid, with_doubts
from extender.plans.plan_spec import PlanSpec
from extender.texts import clip, counted, named
from topology.kubernetes.pods import Pod

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
