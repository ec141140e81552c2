"""What Filter and Preempt answer."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.objects import decode_pod
from extender.plans.gang_plan import PlanPhase, canonical_uid
from extender.verbs import RefusalKind, decode_filter, decode_preempt, encode, filter_nodes, preempt
from scheduler.queue.priority import PriorityAge
from tests.case_counts import examples
from tests.extender.things import (
    NOW,
    Json,
    gang_pods,
    key,
    member_json,
    minipods,
    node,
    node_json,
    plan_all,
    pod,
    pod_json,
    state_of,
    uid,
)
from tests.facts import says
from topology.kubernetes.pods import NODE, RELEASED

POLICY = PriorityAge()
NODES = ("m0-0", "m0-1", "m0-2", "m0-3")


def planned(size: int = 2, **changes: Any) -> ClusterCache:
    """Four nodes, and a gang with a plan."""
    state = state_of(minipods(4), gang_pods("g", size))
    plan_all(state)
    state.put_plan(state.plans[key("g")].replace(**changes))
    return state


def ask(state: ClusterCache, pod: Json, names: Sequence[str] = NODES, *, now: Any = NOW) -> Json:
    """Filter by names, from bytes to JSON."""
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names)}).encode()
    answer: Json = json.loads(encode(filter_nodes(state, decode_filter(body), now, POLICY).answer))
    assert not answer["Error"]
    assert not set(answer["NodeNames"]) & set(answer["FailedAndUnresolvableNodes"])
    assert set(answer["NodeNames"]) <= set(names)
    return answer


def node_of(state: ClusterCache, rank: int) -> str:
    """The node that the plan gives to a rank."""
    return state.plans[key("g")].nodes[rank]


@pytest.mark.parametrize("phase", [PlanPhase.PLANNED, PlanPhase.RELEASED, PlanPhase.BOUND])
def test_a_member_passes_on_its_planned_node_alone(phase: PlanPhase) -> None:
    """All others fail for good, with one short reason, so that nobody is preempted there."""
    state = planned(phase=phase)
    answer = ask(state, member_json("g", 1, 2, gate=False))
    node = node_of(state, 1)
    assert answer["NodeNames"] == [node]
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(set(NODES) - {node}, f"planned on {node}")
    assert answer["FailedNodes"] == {}


def test_pods_that_share_a_node_all_pass_there() -> None:
    """Three pods of 4 GPUs on two nodes: each on that of its rank, also when the other pod is bound there already; and
    nobody else has what they leave, on the node that is filled in part neither.
    """
    state = state_of(minipods(4), gang_pods("g", 3, gpus=4))
    plan_all(state)
    nodes = state.plans[key("g")].nodes
    assert nodes[0] == nodes[1] != nodes[2]
    for rank in range(3):
        assert ask(state, member_json("g", rank, 3, gate=False, gpus=4))["NodeNames"] == [nodes[rank]]
        state.put_pod(decode_pod(member_json("g", rank, 3, gate=False, gpus=4, node=nodes[rank])))
    assert ask(state, member_json("g", 1, 3, gate=False, gpus=4), [nodes[1]])["NodeNames"] == [nodes[1]]
    answer = ask(state, pod_json("single", gpus=4))
    assert set(answer["NodeNames"]) == set(NODES) - {*nodes}
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys({*nodes}, "promised to a gang")
    assert ask_preempt(state, pod_json("single", gpus=4), {nodes[2]: ["g-2"]}) == {}
    assert ask_preempt(state, member_json("g", 0, 3, gpus=4), {nodes[0]: ["g-1"]}) == {}, "not one another"


def released_to(node: str) -> Json:
    """Rank 0 of gang g as kube-scheduler knows it: released to a node."""
    member = member_json("g", 0, 2, gate=False)
    member["metadata"]["labels"][RELEASED] = "0" * 32
    member["metadata"]["annotations"][NODE] = node
    return member


def test_a_nominated_node_is_asked_about_alone() -> None:
    """The usual question after a release."""
    state = planned()
    answer = ask(state, released_to(node_of(state, 0)), [node_of(state, 0)])
    assert (answer["NodeNames"], answer["FailedAndUnresolvableNodes"]) == ([node_of(state, 0)], {})


def test_a_rank_passes_nowhere_while_it_moves() -> None:
    """Where plan and pod name different nodes, one of them is old news: of a replica cut off from the API server, or
    of the scheduler.  The pod may neither use nor preempt on the node of either.
    """
    state = planned()
    old = next(name for name in NODES if name not in state.plans[key("g")].nodes)
    for names in (NODES, [old], [node_of(state, 0)]):
        assert says(refusal(state, released_to(old), names), old, node_of(state, 0))
    assert ask_preempt(state, released_to(old), {node_of(state, 0): ["single"]}) == {}


def refusal(state: ClusterCache, pod: Json, names: Sequence[str] = NODES, *, now: Any = NOW) -> str:
    """The one reason why no node passes."""
    answer = ask(state, pod, names, now=now)
    assert answer["NodeNames"] == []
    assert set(answer["FailedAndUnresolvableNodes"]) == set(names)
    (why,) = set(answer["FailedAndUnresolvableNodes"].values())
    return str(why)


def test_a_forged_member_gets_nowhere() -> None:
    """The labels of a gang with another UID: the plan names pods by UID."""
    why = refusal(planned(), member_json("g", 1, 2, name="forged"))
    assert says(why, "team/g", "another pod has its rank")


def test_a_member_of_another_namespace_gets_nowhere() -> None:
    """UIDs are unique, so this takes a forged plan."""
    raw = member_json("g", 1, 2)
    raw["metadata"]["namespace"] = "other"
    assert "another namespace" in refusal(planned(), raw)


def test_the_pod_is_known_by_its_uid_whatever_its_labels_say() -> None:
    """Someone took the label off: the node is still its node, and no other is."""
    state = planned()
    raw = pod_json("g-1")
    assert ask(state, raw)["NodeNames"] == [node_of(state, 1)]


def kind(state: ClusterCache, pod: Json, names: Sequence[str] = NODES) -> RefusalKind | None:
    """Of what kind the refusal is; ``None`` = some node passes."""
    body = json.dumps({"Pod": pod, "NodeNames": list(names)}).encode()
    refusal = filter_nodes(state, decode_filter(body), NOW, POLICY).refusal
    return None if refusal is None else refusal.kind


def test_every_refusal_is_of_a_kind() -> None:
    """A label of the metric must not follow from the words of a sentence, which quote gangs and messages."""
    member = member_json("g", 0, 2)
    assert kind(planned(), member) is None
    assert kind(planned(), member_json("promised", 0, 2)) is RefusalKind.NO_PLAN
    assert kind(planned(), member_json("g", 1, 2, name="forged")) is RefusalKind.NOT_IN_PLAN
    assert kind(planned(), member, []) is RefusalKind.NOT_OFFERED
    assert kind(planned(phase=PlanPhase.EXPIRED), member) is RefusalKind.PLAN_EXPIRED
    assert kind(planned(phase=PlanPhase.WAITING), member) is RefusalKind.GANG_WAITING
    assert kind(planned(phase=PlanPhase.QUEUED, message="its nodes are promised"), member) is RefusalKind.GANG_QUEUED
    assert kind(planned(phase=PlanPhase.INVALID), member) is RefusalKind.GANG_INVALID
    assert kind(planned(4), pod_json("single")) is RefusalKind.NODE_PROMISED
    assert kind(planned(), pod_json("single", gpus=9)) is RefusalKind.NODE_PROMISED
    assert kind(planned(), pod_json("single"), []) is RefusalKind.NO_ROOM
    assert kind(planned(), pod_json("odd", gpus="many")) is RefusalKind.OTHER
    flagged = node("bad", annotations={"arnold.dev/slowdown": "faulty"})
    assert kind(state_of([flagged]), pod_json("single"), ["bad"]) is RefusalKind.NODE_AILING


def test_a_gang_without_a_plan_waits() -> None:
    """Ungated members of a gang that nobody planned yet."""
    state = state_of(minipods(4), gang_pods("g", 2))
    assert says(refusal(state, member_json("g", 0, 2, gate=False)), "team/g", "no plan yet")


def test_the_reason_of_the_plan_is_the_reason_of_the_pod() -> None:
    """So that kubectl describe pod says why."""
    state = state_of(minipods(4), gang_pods("g", 6))
    plan_all(state)
    assert says(refusal(state, member_json("g", 0, 6)), "team/g", "Queued", "6 free nodes")


def test_an_expired_plan_lets_nobody_pass() -> None:
    """Once the leader has written so: the clocks of other replicas may go wrong."""
    state = planned(expires=NOW)
    assert ask(state, member_json("g", 0, 2), now=NOW + timedelta(minutes=10))["NodeNames"] == [node_of(state, 0)]
    state = planned(phase=PlanPhase.EXPIRED)
    assert "Expired" in refusal(state, member_json("g", 0, 2))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"ready": "False"}, "not Ready"),
        ({"annotations": {"arnold.dev/slowdown": "faulty"}}, "flagged faulty"),
        ({"conditions": [{"type": "GPUMissing", "status": "True"}]}, "GPUMissing"),
    ],
)
def test_a_node_that_went_bad_lets_nobody_pass(more: Json, words: str) -> None:
    """Between plan and bind."""
    state = planned()
    name = node_of(state, 0)
    state.put_node(node(name, "mp0", "mp0r0", **more))
    why = refusal(state, member_json("g", 0, 2))
    assert words in why
    assert name in why


def test_a_node_that_is_gone_lets_nobody_pass() -> None:
    """The scheduler's cache may still have it."""
    state = planned()
    state.drop_node(node_of(state, 0))
    assert "the node is gone" in refusal(state, member_json("g", 0, 2))


def test_a_planned_node_that_is_not_among_those_asked_about() -> None:
    """The scheduler's own plugins refused it; naming it anyway would be an error of the protocol."""
    state = planned()
    others = [name for name in NODES if name != node_of(state, 0)]
    assert says(refusal(state, member_json("g", 0, 2), others), "not among those")


def test_of_two_plans_with_one_node_one_alone_lets_pass() -> None:
    """A forged or torn plan cannot make two gangs meet on a node."""
    state = planned()
    forged = state.plans[key("g")].replace(key=key("a"), pods=(canonical_uid("x"), canonical_uid("y")))
    state.put_plan(forged)
    thief, victim = pod_json("x"), member_json("g", 0, 2)
    thief["metadata"]["uid"] = "x"
    passing = [raw for raw in (thief, victim) if ask(state, raw)["NodeNames"]]
    assert passing == [thief]
    assert "is promised to gang team/a" in refusal(state, victim)


def test_a_recreated_pod_passes_once_the_plan_names_it() -> None:
    """Its index's node."""
    state = planned()
    raw = member_json("g", 1, 2, name="again")
    assert "does not name this pod" in refusal(state, raw)
    before = state.plans[key("g")]
    state.put_plan(before.replace(pods=(before.pods[0], uid("again"), *before.pods[2:])))
    assert ask(state, raw)["NodeNames"] == [node_of(state, 1)]


def test_pods_without_gpus_are_none_of_our_business() -> None:
    """They pass everywhere, on promised nodes too."""
    assert ask(planned(), pod_json("web", gpus=0))["NodeNames"] == list(NODES)


def test_singles_never_get_promised_gpus() -> None:
    """And no preemption would help them there; the others go to whom nothing is promised."""
    state = planned()
    answer = ask(state, pod_json("single"))
    promised = {node_of(state, 0), node_of(state, 1)}
    assert set(answer["NodeNames"]) == set(NODES) - promised
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(promised, "promised to a gang")


def test_gpus_that_are_no_number_pass_nowhere() -> None:
    """And the pod is told why."""
    assert "not a number of GPUs" in refusal(planned(), pod_json("odd", gpus="many"))


def test_whole_nodes_for_whole_nodes() -> None:
    """Without nodeCacheCapable: those that pass come back as they were sent, names stay null."""
    state = planned()
    items = [node_json(name, extra=1) for name in NODES]
    body = json.dumps({"Pod": member_json("g", 1, 2), "Nodes": {"items": items}, "NodeNames": None}).encode()
    answer = json.loads(encode(filter_nodes(state, decode_filter(body), NOW, POLICY).answer))
    wanted = node_of(state, 1)
    assert answer["Nodes"]["items"] == [item for item in items if item["metadata"]["name"] == wanted]
    assert answer["NodeNames"] is None
    assert set(answer["FailedAndUnresolvableNodes"]) == set(NODES) - {wanted}


def test_no_node_asked_about_no_node_passes() -> None:
    """Both lists null, or an empty one."""
    state = planned()
    body = json.dumps({"Pod": member_json("g", 1, 2), "Nodes": None, "NodeNames": None}).encode()
    answer = json.loads(encode(filter_nodes(state, decode_filter(body), NOW, POLICY).answer))
    assert (answer["NodeNames"], answer["FailedAndUnresolvableNodes"]) == ([], {})


QUESTIONS = st.tuples(
    st.sampled_from(
        [
            member_json("g", 0, 2),
            member_json("g", 1, 2),
            member_json("g", 1, 2, name="forged"),
            member_json("h", 0, 9),
            pod_json("single"),
            pod_json("small", gpus=2),
            pod_json("web", gpus=0),
        ]
    ),
    st.permutations(NODES).flatmap(lambda names: st.integers(0, 4).map(lambda n: names[:n])),
)


@given(st.lists(QUESTIONS, min_size=1, max_size=8), st.integers(0, 7))
@examples(100)
def test_filter_is_a_pure_read(questions: list[Any], again: int) -> None:
    """Asked in any order, any number of times, replayed and reverted: the same answer, and the state is as it was."""
    state = planned()
    pod_raw, names = questions[again % len(questions)]
    first = ask(state, pod_raw, names)
    facts = (dict(state.plans), state.fleet.version, state.fleet.occupancy.free.tolist(), set(state.pods))
    for other, others in questions:
        ask(state, other, others)
    assert ask(state, pod_raw, names) == first
    assert (dict(state.plans), state.fleet.version, state.fleet.occupancy.free.tolist(), set(state.pods)) == facts


def ask_preempt(state: ClusterCache, pod: Json, victims: dict[str, list[str]]) -> dict[str, list[str]]:
    """Preempt by UIDs; candidates are node -> pods."""
    candidates = {
        name: {"Pods": [{"UID": uid(one)} for one in pods], "NumPDBViolations": 0} for name, pods in victims.items()
    }
    body = json.dumps({"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": candidates}).encode()
    answer = json.loads(encode(preempt(state, decode_preempt(body), NOW, POLICY)))["NodeNameToMetaVictims"]
    for name, left in answer.items():
        assert left == candidates[name]
    return {name: victims[name] for name in answer}


def test_a_member_may_preempt_on_its_own_node_alone() -> None:
    """There is no use in making room where its plan does not put it."""
    state = planned()
    mine, other = node_of(state, 0), next(name for name in NODES if name not in state.plans[key("g")].nodes)
    assert ask_preempt(state, member_json("g", 0, 2), {mine: ["stranger"], other: ["stranger"]}) == {mine: ["stranger"]}


def test_members_of_planned_gangs_are_never_victims_of_one_another() -> None:
    """Neither of the same gang nor of another."""
    state = state_of(minipods(4), [*gang_pods("g", 2), *gang_pods("h", 2)])
    plan_all(state)
    mine = node_of(state, 0)
    assert ask_preempt(state, member_json("g", 0, 2), {mine: ["h-1"]}) == {}
    assert ask_preempt(state, member_json("g", 0, 2), {mine: ["stranger", "g-1"]}) == {}


def test_a_member_without_a_place_preempts_nobody() -> None:
    """Its gang waits; preemption is decided for gangs, not for pods."""
    state = planned()
    assert ask_preempt(state, member_json("g", 1, 2, name="forged"), {"m0-3": ["stranger"]}) == {}
    state.put_plan(state.plans[key("g")].replace(phase=PlanPhase.EXPIRED))
    assert ask_preempt(state, member_json("g", 0, 2), {node_of(state, 0): ["stranger"]}) == {}


def test_singles_do_not_preempt_on_promised_nodes() -> None:
    """Filter would refuse them there afterwards, and somebody would have died for nothing."""
    state = planned()
    promised, free = node_of(state, 0), next(name for name in NODES if name not in state.plans[key("g")].nodes)
    assert ask_preempt(state, pod_json("single"), {promised: ["x"], free: ["y"]}) == {free: ["y"]}


def test_pods_without_gpus_preempt_as_ever() -> None:
    """None of our business."""
    state = planned()
    victims = {name: ["x"] for name in NODES}
    assert ask_preempt(state, pod_json("web", gpus=0), victims) == victims


def test_whole_victims_are_answered_by_uid() -> None:
    """Without nodeCacheCapable whole pods are sent; the answer is the same."""
    state = planned()
    free = next(name for name in NODES if name not in state.plans[key("g")].nodes)
    victims = {free: {"Pods": [pod_json("y")], "NumPDBViolations": 2}}
    body = json.dumps({"Pod": pod_json("single"), "NodeNameToVictims": victims}).encode()
    answer = json.loads(encode(preempt(state, decode_preempt(body), NOW, POLICY)))
    assert answer == {"NodeNameToMetaVictims": {free: {"Pods": [{"UID": uid("y")}], "NumPDBViolations": 2}}}


def used(name: str, on: str, gpus: int) -> Any:
    """A pod that runs."""
    return pod(name, gpus=gpus, node=on, phase="Running")


def test_a_small_pod_goes_where_it_fits_tightest() -> None:
    """2 GPUs: 3 left is tighter than 5 left; nodes that are idle stay so."""
    state = state_of(minipods(4), [used("a", "m0-1", 5), used("b", "m0-2", 3)])
    assert ask(state, pod_json("small", gpus=2))["NodeNames"] == ["m0-1"]
    assert ask(state, pod_json("small", gpus=4))["NodeNames"] == ["m0-2"]


def test_an_idle_node_stays_idle_though_it_would_fit_tighter() -> None:
    """2 GPUs of an idle node of 4 would leave 2, of the one in use 4: a whole node is worth more than a tight fit."""
    state = state_of([*minipods(1), node("half", "mp0", "mp0r0", gpus=4)], [used("a", "m0-0", 2)])
    assert ask(state, pod_json("small", gpus=2), ["m0-0", "half"])["NodeNames"] == ["m0-0"]


def test_an_idle_node_is_broken_into_where_fewest_are_left() -> None:
    """Minipod 1 has one idle node left of three, minipod 0 all of its four: large free domains stay whole."""
    state = state_of(minipods(4, 3), [used("a", "m1-0", 8), used("b", "m1-1", 8)])
    names = [*NODES, "m1-0", "m1-1", "m1-2"]
    assert ask(state, pod_json("small", gpus=1), names)["NodeNames"] == ["m1-2"]
    assert ask(state, pod_json("whole"), names)["NodeNames"] == ["m1-2"]


def test_among_domains_alike_the_closer_level_decides() -> None:
    """Two minipods with 5 idle nodes each; the racks have 4 and 1."""
    state = state_of(minipods(5, 5))
    names = [f"m{m}-{i}" for m in range(2) for i in range(5)]
    assert ask(state, pod_json("whole"), names)["NodeNames"] == ["m0-4", "m1-4"]


def test_singles_never_get_a_node_flagged_faulty() -> None:
    """The scheduler does not know our flags; until they end."""
    flag = {"arnold.dev/slowdown": "faulty", "arnold.dev/slowdown-until": "2026-11-21T13:00:00Z"}
    state = state_of([node("bad", annotations=flag)])
    answer = ask(state, pod_json("single"), ["bad"])
    assert (answer["NodeNames"], list(answer["FailedAndUnresolvableNodes"])) == ([], ["bad"])
    assert ask(state, pod_json("single"), ["bad"], now=NOW + timedelta(hours=1))["NodeNames"] == ["bad"]


def test_a_node_that_we_have_not_seen_yet_is_not_given_away() -> None:
    """It might be promised by the time we have."""
    assert ask(state_of(minipods(1)), pod_json("single"), ["m0-0", "new"])["NodeNames"] == ["m0-0"]


SINGLES = st.lists(
    st.tuples(st.sampled_from([f"m{m}-{i}" for m in range(2) for i in range(3)]), st.integers(1, 8)), max_size=6
)


@given(SINGLES, st.integers(1, 8), st.integers(0, 3))
@examples(100)
def test_singles_get_only_what_fits_and_is_nobodys(running: list[tuple[str, int]], gpus: int, size: int) -> None:
    """Whatever runs: enough GPUs are left, nothing is promised; an idle node is opened only when no other fits."""
    pods = [used(f"p{i}", on, count) for i, (on, count) in enumerate(running)]
    state = state_of(minipods(3, 3), [*pods, *(gang_pods("g", size) if size else ())])
    plan_all(state)
    names = [f"m{m}-{i}" for m in range(2) for i in range(3)]
    free = {name: 8 - min(8, state.fleet.held.gpus_on(name)) for name in names if state.fleet.promised_to(name) is None}
    fitting = {name for name, left in free.items() if left >= gpus}
    chosen = set(ask(state, pod_json("single", gpus=gpus), names)["NodeNames"])
    assert chosen <= fitting
    assert bool(chosen) == bool(fitting)
    if any(free[name] < 8 for name in fitting):
        assert all(free[name] < 8 for name in chosen)


def test_decoding_keeps_what_recognising_needs() -> None:
    """The pod in a request is read as the one from the watch: a member is one by either."""
    state = planned()
    body = json.dumps({"Pod": member_json("g", 1, 2), "NodeNames": []}).encode()
    assert state.recognise(decode_filter(body).pod) == state.recognise(decode_pod(member_json("g", 1, 2)))
