"""Filter and Preempt: pure functions of state, request and time.  Nothing is remembered of a question.

A member of a gang may use the one node that its gang's plan gives to it; all others go to
``FailedAndUnresolvableNodes``, or kube-scheduler would look for pods to preempt there.  A pod with GPUs and without a
gang gets what is promised to nobody (:mod:`scheduler.extender.singles`).  A pod without GPUs is none of our business.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.extender.gangs import GangKey
from scheduler.extender.objects import Pod
from scheduler.extender.plan import Phase, Plan
from scheduler.extender.protocol import FilterArgs, FilterResult, NodeList, PreemptArgs, PreemptResult
from scheduler.extender.singles import tightest
from scheduler.extender.state import State

MAY_BIND = frozenset({Phase.PLANNED, Phase.RELEASED, Phase.BOUND})
"""Phases in which a pod may go to its node: released by us, or come without a gate."""


def filter_nodes(state: State, args: FilterArgs, now: datetime) -> FilterResult:
    """Which of the nodes asked about a pod may use.

    :raises InvalidInput: a node without a name.
    """
    pod, names = args.pod, args.names
    found = state.plan_of_pod(pod.uid)
    if found is not None:
        plan, rank = found
        node, refusal = planned_node(state, pod, plan, rank, now)
        if not refusal and node not in names:
            refusal = f"gang {plan.key}: rank {rank} belongs on node {node}, which is not among those that fit it"
        return _none(args, names, refusal) if refusal else _only(args, names, node)
    member = state.recognise(pod)
    if member is not None:
        return _none(args, names, _unplanned(state, member.key))
    try:
        gpus = pod.gpus
    except ValueError as error:
        return _none(args, names, str(error))
    if not gpus:
        return _answer(args, names, names, {})
    passed, promised = tightest(state.fleet, names, gpus, now)
    return _answer(args, names, passed, promised)


def planned_node(state: State, pod: Pod, plan: Plan, rank: int, now: datetime) -> tuple[str, str]:
    """The node that a plan gives to a pod which it names, and why it may not go there; one of the two is empty."""
    key = plan.key
    if pod.namespace != key.namespace:
        return "", f"gang {key}: the plan's pod of rank {rank} is in another namespace"
    if plan.phase not in MAY_BIND or rank >= len(plan.nodes):
        return "", _waiting(plan)
    if plan.expired(now):
        return "", f"gang {key}: its plan has expired and is about to be made again"
    node = plan.nodes[rank]
    owner = state.fleet.promised_to(node)
    if owner != key:
        return "", f"gang {key}: node {node} of rank {rank} is promised to gang {owner}"
    if ailment := state.fleet.ailing(node, now):
        return "", f"gang {key}: node {node} of rank {rank} cannot be used: {ailment}"
    return node, ""


def preempt(state: State, args: PreemptArgs, now: datetime) -> PreemptResult:
    """On which of the nodes pods may be preempted for a pod.

    For a member of a planned gang: on its own node alone, and never another member of a planned gang.  For other pods
    with GPUs: not on promised nodes, which Filter would refuse them.
    """
    candidates = args.candidates
    found = state.plan_of_pod(args.pod.uid)
    if found is not None:
        node, _ = planned_node(state, args.pod, *found, now)
        victims = candidates.get(node)
        if victims is None or any(state.plan_of_pod(victim.uid) for victim in victims.pods or ()):
            return PreemptResult({})
        return PreemptResult({node: victims})
    if state.recognise(args.pod) is not None:
        return PreemptResult({})
    try:
        gpus = args.pod.gpus
    except ValueError:
        return PreemptResult({})
    if not gpus:
        return PreemptResult(candidates)
    promised_to = state.fleet.promised_to
    return PreemptResult({node: victims for node, victims in candidates.items() if promised_to(node) is None})


def _unplanned(state: State, key: GangKey) -> str:
    """Why a pod of a gang that no plan names has to wait."""
    plan = state.plans.get(key)
    if plan is None:
        return f"gang {key} has no plan yet"
    if plan.phase in MAY_BIND:
        return f"gang {key}: the plan does not name this pod (another pod has its rank)"
    return _waiting(plan)


def _waiting(plan: Plan) -> str:
    return f"gang {plan.key} is {plan.phase.value}" + (f": {plan.message}" if plan.message else "")


def _only(args: FilterArgs, names: Sequence[str], node: str) -> FilterResult:
    refused = dict.fromkeys(names, f"planned on {node}")
    del refused[node]
    return _answer(args, names, (node,), refused)


def _none(args: FilterArgs, names: Sequence[str], why: str) -> FilterResult:
    return _answer(args, names, (), dict.fromkeys(names, why))


def _answer(args: FilterArgs, names: Sequence[str], passed: Sequence[str], refused: dict[str, str]) -> FilterResult:
    """The answer in the form of the question: names for names, nodes for nodes."""
    if args.nodes is None:
        return FilterResult(node_names=passed, failed_and_unresolvable_nodes=refused)
    wanted = frozenset(passed)
    items = [raw for raw, name in zip(args.nodes.items or (), names, strict=True) if name in wanted]
    return FilterResult(nodes=NodeList(items), failed_and_unresolvable_nodes=refused)
