"""What to do next: a pure function of what is known and the time.

Everything follows from objects in etcd, so a controller that is killed anywhere goes on where it was: each decision
looks at what *is* and takes the next step towards a gang that is whole on its planned nodes.

    no nodes    Waiting (pods missing) | Invalid (a contradiction) | unplaced: the planner says Planned or Queued
    Planned     every pod is released as soon as the gang is complete
    Released    no gate is left; the scheduler binds
    Bound       all pods are, or were, on their nodes; a pod that comes anew gets its rank's node
    Queued      for the reason Preempted: every pod that is on a node is evicted, then it waits as any other
    Expired     time ran out before the first pod was bound: the nodes are given back, and taken again if they are free

A rank *cannot have* its node when the node is lost, or others are on it, or when time ran out although other ranks were
bound.  Then ranks that are not bound move: repaired with the fewest moves.  A pod that is pinned to the node before is
made anew after that, as a pin cannot be taken off; while no other node can be had it is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from extender.cluster_cache import ClusterCache
from extender.controller.actions import Decision, Forget
from extender.controller.context import Context
from extender.controller.planned_gangs import decide_holding
from extender.controller.timeouts import Timeouts
from extender.controller.unplanned_gangs import PREEMPTED, decide_waiting
from extender.gangs.types import GangKey
from extender.plans.gang_plan import PlanPhase

_NOBODY: Mapping[GangKey, str] = {}


def decide(
    state: ClusterCache,
    now: datetime,
    terms: Timeouts,
    *,
    keys: Iterable[GangKey] | None = None,
    unwanted: Mapping[GangKey, str] = _NOBODY,
) -> Decision:
    """Return what to do about gangs.

    :param now: timezone-aware.
    :param keys: the gangs to think about; ``None`` = all that have pods or a plan.
    :param unwanted: gangs that are to be stopped for another, and why; those that may not be are left alone.
    """
    decision = Decision()
    for key in sorted({*state.plans, *(gang.key for gang in state.gangs())}) if keys is None else keys:
        context = Context(key, state.fleet, state.plans, now, terms, decision)
        gang, plan = state.gang(key), state.plans.get(key)
        if gang is None or gang.over:
            if plan is not None:
                context.do(Forget(plan))
        elif plan is not None and plan.holding and gang.preemptible and key in unwanted:
            context.give_back(plan, PlanPhase.QUEUED, PREEMPTED, unwanted[key])
        elif plan is not None and plan.holding:
            decide_holding(context, gang, plan)
        else:
            decide_waiting(context, gang, plan)
    return decision
