"""Planning: one gang on one state, and who comes first."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.objects import decode_pod
from extender.planner.outlook import outlook_question
from extender.planner.question import Asked, question_of, repair_question
from extender.planner.round import PlanningRound
from extender.planner.solve import Answer, answer_to, solve
from extender.plans.gang_plan import GangPlan, PlanPhase, canonical_uid
from scheduler.objective import evaluate
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits
from scheduler.queue.priority import PriorityAge
from tests.case_counts import examples
from tests.extender.things import (
    GRID,
    LIMITS,
    MINIPOD,
    NOW,
    RACK,
    Json,
    gang_of,
    gang_pods,
    key,
    member_json,
    minipods,
    node,
    plan_all,
    pod,
    state_of,
    uid,
)
from tests.facts import says
from topology.kubernetes.objects import NodeObject
from topology.kubernetes.pods import Pod


def test_a_gang_lands_where_place_puts_it() -> None:
    """The same solver on the same cluster: spread, objective, bound and gap are those of ``arnold place``.

    Eight nodes, two minipods of four: each of the two stages of four fits one minipod, so S = 1 and R = 2, which costs
    0.7 + 0.3 x 2; pipelines inside minipods (S = 2, R = 1) cost 1.7, and all in one minipod does not fit.
    """
    state = state_of(minipods(4, 4), gang_pods("g", 8, GRID))
    answer = plan_all(state)["g"]
    question = question_of(state_of(minipods(4, 4), gang_pods("g", 8, GRID)), gang_of(state, "g"), NOW)
    assert question.cluster is not None
    assert question.job is not None
    proposal = Exact().place(question.cluster, question.job, LIMITS)
    assert proposal.nodes is not None
    worth = evaluate(question.cluster, question.job, proposal.nodes)
    plan = answer.plan
    assert (answer.placed, plan.phase, plan.spread, plan.gap) == (True, PlanPhase.PLANNED, (worth.dp, worth.pp), 0.0)
    assert (plan.spread, plan.objective, plan.bound) == ((1, 2), pytest.approx(1.3), pytest.approx(1.3))
    assert plan.pods == tuple(canonical_uid(uid(f"g-{rank}")) for rank in range(8))


def test_a_gang_lies_on_one_type_of_gpu() -> None:
    """Two minipods of four, in which H100 and A100 alternate: four ranks go to the H100s or the A100s, two and two.

    In one minipod they would cost 1; of one type a stage of two lies in each (S = 1, R = 2): 0.7 + 0.3 x 2.
    """
    types = ["NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"] * 4
    nodes = [
        node(one.name, labels=one.labels | {"nvidia.com/gpu.product": gpu})
        for one, gpu in zip(minipods(4, 4), types, strict=True)
    ]
    plan = plan_all(state_of(nodes, gang_pods("g", 4, GRID | {"arnold.dev/parallelism": "tp=8,pp=2,dp=2"})))["g"].plan
    kind = {one.name: one.labels["nvidia.com/gpu.product"] for one in nodes}
    assert (plan.spread, plan.objective, plan.gap) == ((1, 2), pytest.approx(1.3), 0.0)
    assert len({kind[name] for name in plan.nodes}) == 1


@pytest.mark.parametrize(
    ("asked", "message", "pair"),
    [
        (None, "on GPUs of the type A100", (1, 1)),
        ("H100", "on GPUs of the type H100", (1, 2)),
        ("[H100, H200]", "on GPUs of the type H100", (1, 2)),
        ("any", "on GPUs of the type A100", (1, 1)),
        ("H10", "no GPUs of the type 'H10'\nTo fix: did you mean 'H100'?", None),
    ],
)
def test_a_gang_says_on_which_types_it_may_be(asked: str | None, message: str, pair: tuple[int, int] | None) -> None:
    """Four A100 nodes in one minipod, two H100 nodes in each of two others: only the A100s give both spreads 1.

    Nodes of H200 are still to come, and H10 is a slip.
    """
    where = {"a": "A100", "b": "H100", "c": "H100"}
    names = [("a", i) for i in range(4)] + [(minipod, i) for minipod in "bc" for i in range(2)]
    nodes = [
        node(f"{minipod}{i}", labels={MINIPOD: minipod, RACK: minipod, "nvidia.com/gpu.product": where[minipod]})
        for minipod, i in names
    ]
    notes = GRID | {"arnold.dev/parallelism": "tp=8,pp=2,dp=2"}
    plan = plan_all(state_of(nodes, gang_pods("g", 4, notes | ({"arnold.dev/gpu-types": asked} if asked else {}))))[
        "g"
    ].plan
    assert plan.spread == pair
    assert message in plan.message
    if pair is not None:
        assert {where[name[0]] for name in plan.nodes} == {"A100" if pair == (1, 1) else "H100"}


def test_rank_r_gets_the_node_of_its_cell() -> None:
    """Ranks 0-3 are stage 0 and ranks 4-7 stage 1: with S = 1 each four share a minipod, and not the same."""
    state = state_of(minipods(4, 4), gang_pods("g", 8, GRID))
    plan = plan_all(state)["g"].plan
    pods_of = [name.split("-")[0] for name in plan.nodes]
    assert len(set(pods_of[:4])) == len(set(pods_of[4:])) == 1
    assert pods_of[0] != pods_of[4]


def test_ranks_of_another_order_have_the_groups_that_the_plan_promises() -> None:
    """A job that numbers pipelines first: rank r is stage r mod 4 of replica r div 4, 4 x 4 cells on minipods of 8 + 8.

    Counted from the ranks alone, as the job forms its groups, the spreads are those of the plan: pipelines in one
    minipod and DP groups over both, 0.3 x 2 + 0.7 = 1.3.  In Megatron's own order those would be other groups.
    """
    notes = {"parallelism": "tp=8,pp=4,dp=4", "order": "tp-pp-cp-ep-dp", "alpha": "0.3"}
    pods = gang_pods("g", 16, {f"arnold.dev/{name}": text for name, text in notes.items()})
    plan = plan_all(state_of(minipods(8, 8), pods))["g"].plan
    pod_of = [name.split("-")[0] for name in plan.nodes]
    pipelines = max(len(set(pod_of[4 * replica : 4 * replica + 4])) for replica in range(4))
    stages = max(len(set(pod_of[stage::4])) for stage in range(4))
    assert plan.spread == (stages, pipelines) == (2, 1)
    assert (plan.objective, plan.gap) == (pytest.approx(1.3), 0.0)


def test_tensor_parallel_groups_of_several_nodes() -> None:
    """TP 16 on pods of 8 GPUs: ranks 2k and 2k + 1 are a group and share a rack.  Of racks of 3 nodes two are used, so
    that 4 groups take 4 racks; a lost node is replaced in the rack of its group.
    """
    nodes = [node(f"r{rack}-{i}", "mp0", f"r{rack}") for rack in range(5) for i in range(3)]
    notes = {"arnold.dev/parallelism": "tp=16,dp=4"}
    state = state_of(nodes, gang_pods("g", 8, notes))
    plan = plan_all(state)["g"].plan
    racks = [name.split("-")[0] for name in plan.nodes]
    assert racks[::2] == racks[1::2]
    assert len(set(racks)) == 4
    assert plan.spec.tp_level == RACK
    answer = answer_to(repair_question(state, plan, [plan.nodes[3]], NOW), LIMITS)
    assert answer.moved == (3,)
    assert answer.plan.nodes[3].split("-")[0] == racks[2]


@pytest.mark.parametrize("now", [["H100", "H100", "H200", "H200"], [None, "H100", "H100", "H100"], [None] * 4])
def test_a_running_gang_is_repaired_though_the_labels_of_its_nodes_changed(now: list[str | None]) -> None:
    """What says the types of GPU comes and goes node by node; the gang lies where it lies, and gets the spare."""

    def labelled(name: str, gpu: str | None) -> NodeObject:
        return node(name, labels={MINIPOD: "m", RACK: "r"} | ({"nvidia.com/gpu.product": gpu} if gpu else {}))

    notes = {"arnold.dev/gpu-types": "H100"}
    plan = plan_all(state_of([labelled(f"n{i}", "H100") for i in range(4)], gang_pods("g", 4, notes)))["g"].plan
    lost = plan.nodes[1]
    left = [labelled(name, gpu) for name, gpu in zip(plan.nodes, now, strict=True) if name != lost]
    state = state_of([*left, labelled("spare", "H100")], gang_pods("g", 4, notes))
    assert answer_to(repair_question(state, plan, [lost], NOW), LIMITS).plan.nodes[1] == "spare"


def test_a_running_gang_of_one_type_takes_no_spare_of_another() -> None:
    """All its nodes are H100, and the job says nothing of types."""
    nodes = [node(f"n{i}", labels={MINIPOD: "m", RACK: "r", "nvidia.com/gpu.product": "H100"}) for i in range(4)]
    plan = plan_all(state_of(nodes, gang_pods("g", 4)))["g"].plan
    spare = node("spare", labels={MINIPOD: "m", RACK: "r", "nvidia.com/gpu.product": "H200"})
    left = [one for one in nodes if one.name != plan.nodes[1]]
    state = state_of([*left, spare], gang_pods("g", 4))
    assert not answer_to(repair_question(state, plan, [plan.nodes[1]], NOW), LIMITS).placed


def test_a_node_of_a_tensor_parallel_group_that_is_gone() -> None:
    """Nobody knows any more in which rack it was; it was in that of the other node of its group."""
    nodes = [node(f"r{rack}-{i}", "mp0", f"r{rack}") for rack in range(3) for i in range(3)]
    notes = {"arnold.dev/parallelism": "tp=16,dp=2"}
    plan = plan_all(state_of(nodes, gang_pods("g", 4, notes)))["g"].plan
    left = [one for one in nodes if one.name != plan.nodes[2]]
    answer = answer_to(repair_question(state_of(left, gang_pods("g", 4, notes)), plan, [plan.nodes[2]], NOW), LIMITS)
    assert answer.moved == (2,)
    assert answer.plan.nodes[2].split("-")[0] == plan.nodes[3].split("-")[0]


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"tp-level": "no/rack"}, "no level 'no/rack'"),
        ({}, "no domain of example.com/rack has more than 3 such nodes: 24 GPUs would fit"),
        ({"tp-level": MINIPOD, "level": RACK}, "where nothing could be proved"),
    ],
)
def test_tensor_parallel_groups_that_cannot_be_held(notes: dict[str, str], words: str) -> None:
    """A level of no cluster, racks of 3 nodes for groups of 4, spread counted inside groups: the plan says why."""
    nodes = [node(f"r{rack}-{i}", "mp0", f"r{rack}") for rack in range(4) for i in range(3)]
    said = {f"arnold.dev/{name}": text for name, text in {**notes, "parallelism": "tp=32,dp=2"}.items()}
    answer = plan_all(state_of(nodes, gang_pods("g", 8, said)))["g"]
    assert not answer.placed
    assert words.replace("example.com/rack", RACK) in answer.plan.message


def test_constraints_hold_and_levels_of_no_cluster_are_named() -> None:
    """Three nodes of each rack are free: a DP group of 4 held in a rack has no room, one of 3 has."""
    for size, found in ((3, True), (4, False)):
        notes = {"arnold.dev/constraints": f"[{{family: dp, within: {RACK}}}]"}
        nodes = [node(f"n{i}", "mp0", f"r{i // 3}") for i in range(6)]
        answer = plan_all(state_of(nodes, gang_pods("g", size, notes)))["g"]
        assert answer.placed is found
        if found:
            assert len({int(name[1:]) // 3 for name in answer.plan.nodes}) == 1
    for text in ("[{family: dp, within: no/rack}]", "[{family: dp, level: no/rack, weight: 1}]"):
        plan = plan_all(state_of(minipods(4), gang_pods("g", 2, {"arnold.dev/constraints": text})))["g"].plan
        assert says(plan.message, "'no/rack'")


def test_what_was_asked_is_in_the_plan() -> None:
    """With the level that counted, so that a repair counts the same."""
    plan = plan_all(state_of(minipods(4, 4), gang_pods("g", 8, {**GRID, "arnold.dev/avoid": "strict"})))["g"].plan
    assert (plan.spec.level, plan.spec.avoid, plan.spec.alpha, plan.spec.size) == (MINIPOD, "strict", 0.7, 8)
    assert {one.type: one.status for one in plan.conditions} == {"Complete": "True", "Planned": "True"}


def test_slow_nodes_are_used_only_where_asked_and_are_said_to_be() -> None:
    """Strict: the job does not fit; price: it does, and the message counts them."""
    flagged = [node("s", "mp0", "mp0r0", annotations={"arnold.dev/slowdown": "1.2"})]
    for avoid, found in (("strict", False), ("price", True)):
        answer = plan_all(state_of([*minipods(3), *flagged], gang_pods("g", 4, {"arnold.dev/avoid": avoid})))["g"]
        assert answer.placed is found
        assert ("1 flagged" in answer.plan.message) is True


def test_no_room_says_what_is_in_the_way() -> None:
    """How many nodes are free, whether an empty cluster would hold it, and what would have to leave where."""
    running = [pod(f"r{i}", node=f"m{i % 2}-{i}", phase="Running") for i in range(3)]
    answer = plan_all(state_of(minipods(4, 4), [*running, *gang_pods("g", 7)]))["g"]
    plan = answer.plan
    assert (answer.placed, plan.phase, plan.reason, plan.would_fit_if_empty) == (
        False,
        PlanPhase.QUEUED,
        "NoRoom",
        True,
    )
    assert says(plan.message, "7 free nodes of 8 GPUs", "5 of 8", "3 in use")
    assert says(plan.message, "2 nodes in use")
    assert says(plan.message, "To fix:", "wait", "fewer nodes")
    assert (plan.nodes, plan.pods) == ((), ())


def test_too_large_for_the_cluster_is_another_answer() -> None:
    """It will not help to wait."""
    plan = plan_all(state_of(minipods(4), gang_pods("g", 7)))["g"].plan
    assert (plan.reason, plan.would_fit_if_empty) == ("TooLarge", False)
    assert says(plan.message, "even if the cluster were empty", "To fix:", "fewer nodes")


def test_nodes_that_its_pods_cannot_use_are_counted() -> None:
    """A selector that few nodes match looks like a full cluster otherwise."""
    pods = gang_pods("g", 3, nodeSelector={MINIPOD: "mp1"})
    plan = plan_all(state_of(minipods(4, 2), pods))["g"].plan
    assert "the cluster has 2 of 2" in plan.message
    assert says(plan.message, "4 not selected by the pods")
    none = plan_all(state_of(minipods(4), gang_pods("g", 3, nodeSelector={"no": "where"})))["g"].plan
    assert says(none.message, "no node with GPUs", "4 not selected by the pods")


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"arnold.dev/level": "example.com/minipods"}, "the cluster has no level 'example.com/minipods'"),
        ({"kueue.x-k8s.io/podset-required-topology": "cloud/rack"}, "the cluster has no level 'cloud/rack'"),
    ],
)
def test_a_level_that_the_cluster_has_not_is_a_reason(annotations: dict[str, str], words: str) -> None:
    """With the levels that it has; nothing raises."""
    plan = plan_all(state_of(minipods(4), gang_pods("g", 2, annotations)))["g"].plan
    assert words in plan.message
    assert f"{MINIPOD}, {RACK}" in plan.message


def test_a_cluster_without_topology_is_a_reason() -> None:
    """Automatic levels found none."""
    state = ClusterCache(None)
    state.put_node(node("n", labels={}))
    for one in gang_pods("g", 1):
        state.put_pod(one)
    plan = plan_all(state)["g"].plan
    assert "no topology is known" in plan.message
    assert "--levels" in plan.message


def test_what_is_required_of_peers_is_held() -> None:
    """Kueue's required rack: all four nodes of one rack, though the other rack could give some."""
    annotations = {"kueue.x-k8s.io/podset-required-topology": RACK}
    running = [pod("r", node="m0-0", phase="Running")]
    state = state_of(minipods(8), [*running, *gang_pods("g", 4, annotations)])
    assert set(plan_all(state)["g"].plan.nodes) == {f"m0-{i}" for i in range(4, 8)}
    state = state_of(minipods(8), [*running, pod("q", node="m0-7", phase="Running"), *gang_pods("g", 4, annotations)])
    refused = plan_all(state)["g"].plan
    assert (refused.phase, refused.would_fit_if_empty) == (PlanPhase.QUEUED, True)


@pytest.mark.parametrize(("tier", "found"), [("1", False), ("2", True), ("3", True)])
def test_tiers_are_levels_from_the_closest(tier: str, found: bool) -> None:
    """Six nodes do not fit a rack of four; they fit a minipod of eight; tier 3 is above all levels."""
    annotations = {"volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": tier}
    assert plan_all(state_of(minipods(8), gang_pods("g", 6, annotations)))["g"].placed is found


def test_nodes_without_a_place_are_not_used() -> None:
    """Their domain is unknown, so a spread over them would be made up."""
    lost = [node(f"u{i}", labels={RACK: "x"}) for i in range(3)]
    plan = plan_all(state_of([*minipods(1, 1), *lost], gang_pods("g", 3)))["g"].plan
    assert (plan.phase, f"3 without the label {MINIPOD}" in plan.message) == (PlanPhase.QUEUED, True)


# The queue


def queue_of(*gangs: tuple[str, int, Json], nodes: Any, running: Any = ()) -> ClusterCache:
    """Gangs of some sizes, each a minute younger than the one before."""
    pods = [
        one
        for i, (name, size, more) in enumerate(gangs)
        for one in gang_pods(name, size, created=f"2026-11-21T11:{i:02d}:00Z", **more)
    ]
    return state_of(nodes, [*running, *pods])


def test_two_gangs_that_do_not_both_fit_one_runs_whole_and_one_waits_whole() -> None:
    """The older first; the other is told why."""
    state = queue_of(("first", 5, {}), ("second", 5, {}), nodes=minipods(8))
    answers = plan_all(state)
    assert [(name, answer.placed) for name, answer in answers.items()] == [("first", True), ("second", False)]
    assert says(answers["second"].plan.message, "3 of 8", "5 in use")


def test_a_higher_priority_goes_first_however_young() -> None:
    """Among gangs that wait."""
    state = queue_of(("old", 5, {}), ("vip", 5, {"priority": 9}), nodes=minipods(8))
    assert [(name, answer.placed) for name, answer in plan_all(state).items()] == [("vip", True), ("old", False)]


def test_a_small_gang_does_not_take_nodes_that_a_blocked_one_waits_for() -> None:
    """It would fit; but the big one lacks two nodes, and nobody knows which come free first."""
    running = [pod(f"r{i}", node=f"m0-{i}", phase="Running") for i in range(3)]
    state = queue_of(("big", 7, {}), ("small", 2, {}), nodes=minipods(8), running=running)
    answers = plan_all(state)
    assert [answer.placed for answer in answers.values()] == [False, False]
    assert answers["small"].plan.reason == "BehindOthers"
    assert says(answers["small"].plan.message, "team/big", "To fix:", "wait", "higher priority")


def test_of_many_before_it_the_first_is_named() -> None:
    """And the others counted."""
    running = [pod(f"r{i}", node=f"m0-{i}", phase="Running") for i in range(3)]
    state = queue_of(("big", 7, {}), ("next", 6, {}), ("small", 2, {}), nodes=minipods(8), running=running)
    assert says(plan_all(state)["small"].plan.message, "team/big", "1 more")


def test_a_small_gang_passes_on_nodes_that_the_blocked_one_cannot_use() -> None:
    """Nodes of four GPUs are nothing to a gang of whole nodes of eight."""
    nodes = [*minipods(4), *(node(f"h{i}", "mp9", "r9", gpus=4) for i in range(2))]
    running = [pod("r", node="m0-0", phase="Running")]
    state = queue_of(("big", 4, {}), ("small", 2, {"gpus": 4}), nodes=nodes, running=running)
    answers = plan_all(state)
    assert [answer.placed for answer in answers.values()] == [False, True]
    assert set(answers["small"].plan.nodes) == {"h0", "h1"}


def test_a_gang_that_can_never_fit_blocks_nobody() -> None:
    """Waiting does not help it, so passing does not harm it."""
    state = queue_of(("huge", 99, {}), ("small", 2, {}), nodes=minipods(4))
    assert [answer.placed for answer in plan_all(state).values()] == [False, True]


def test_a_gang_of_which_the_solver_breaks_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of ours about the first in the queue is said in its plan; the second has its nodes."""
    state = state_of(minipods(4), [*gang_pods("a", 2, priority=1), *gang_pods("b", 2)])

    def breaks(question: Asked, limits: Limits) -> Answer:
        if question.case.gang.key == key("a"):
            raise IndexError("out of range")
        return solve(question, limits)

    monkeypatch.setattr("extender.planner.solve.solve", breaks)
    answers = plan_all(state)
    assert [(name, answer.placed) for name, answer in answers.items()] == [("a", False), ("b", True)]
    assert says(answers["a"].plan.message, "IndexError")


def test_each_gang_is_asked_about_once_in_a_round() -> None:
    """Also when it stays without nodes; and one that changes meanwhile is passed over."""
    state = queue_of(("a", 9, {}), ("b", 9, {}), ("c", 1, {}), nodes=minipods(4))
    round_ = PlanningRound()
    first = round_.next(state, NOW)
    assert first is not None
    round_.tell(answer_to(first, LIMITS))
    state.drop_pod(uid("b-3"))
    second = round_.next(state, NOW)
    assert second is not None
    assert (first.case.gang.key, second.case.gang.key) == (key("a"), key("c"))
    assert round_.next(state, NOW) is None
    only = PlanningRound([key("c")]).next(state, NOW)
    assert only is not None
    assert only.case.gang.key == key("c")


def test_a_gang_of_which_nothing_came_has_another_turn() -> None:
    """Something else is done about a while it is asked: it is asked again, before those behind it, and only then b."""
    state = queue_of(("a", 2, {}), ("b", 2, {}), nodes=minipods(4))
    round_, asked = PlanningRound(), []
    for times in range(4):
        question = round_.next(state, NOW)
        assert question is not None
        asked.append(question.case.gang.key.name)
        if times < 2:
            round_.ask_again()
        else:
            round_.tell(answer_to(question, LIMITS))
    assert asked == ["a", "a", "a", "b"]
    assert round_.next(state, NOW) is None


def test_the_first_in_the_queue_is_asked_again_when_nodes_come_free() -> None:
    """Many wait behind it; it does not wait for their answers, nor do they wait for ever while the cluster changes."""
    running = [pod(f"r{i}", node=f"m0-{i}", phase="Running") for i in range(3)]
    state = queue_of(("big", 7, {}), ("b", 6, {}), ("c", 6, {}), ("d", 6, {}), nodes=minipods(8), running=running)
    round_, asked = PlanningRound(), []
    while (question := round_.next(state, NOW)) is not None:
        asked.append(question.case.gang.key.name)
        round_.tell(answer_to(question, LIMITS))
        if running:
            state.drop_pod(running.pop().uid)
    assert asked == ["big", "big", "b", "big"], "free for big: 5, 6, 7, all 8; then the others are asked anew"


POOLS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["x", "y"]), st.booleans()), min_size=2, max_size=5)
ASKS = st.tuples(st.integers(1, 5), st.sampled_from([None, "x", "y"]))


@given(POOLS, ASKS, ASKS)
@examples(40)
def test_who_passes_delays_nobody(
    pools: list[tuple[int, str, bool]], first: tuple[int, str | None], second: tuple[int, str | None]
) -> None:
    """For every order in which running pods may end: what let the first start before, lets it start still.

    Brute force over all sets of pods that may have ended; the second gang never ends.
    """
    nodes = [
        node(f"p{p}-{i}", f"mp{p}", f"r{p}", labels={MINIPOD: f"mp{p}", RACK: f"r{p}", "pool": pool})
        for p, (count, pool, _) in enumerate(pools)
        for i in range(count)
    ]
    running = [
        pod(f"run-{p}-{i}", node=f"p{p}-{i}", phase="Running")
        for p, (count, _, busy) in enumerate(pools)
        for i in range(count)
        if busy
    ]

    def asks(ask: tuple[int, str | None]) -> tuple[int, Json]:
        return ask[0], {} if ask[1] is None else {"nodeSelector": {"pool": ask[1]}}

    state = queue_of(("a", *asks(first)), ("b", *asks(second)), nodes=nodes, running=running)
    answers = plan_all(state)
    if answers["a"].placed or not answers["b"].placed:
        return
    taken = set(answers["b"].plan.nodes)
    usable = {name for name in (one.name for one in nodes) if first[1] is None or pools[int(name[1])][1] == first[1]}
    busy = {one.node for one in running}
    for count in range(len(running) + 1):
        for ended in combinations(sorted(name for name in busy if name), count):
            free = usable - (busy - set(ended))
            if len(free) >= first[0]:
                assert len(free - taken) >= first[0]


GANGS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 2), st.sampled_from([{}, {"arnold.dev/avoid": "strict"}])), max_size=5
)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), GANGS, st.sets(st.integers(0, 11), max_size=4))
@examples(40)
def test_no_node_is_ever_promised_twice(sizes: list[int], gangs: list[Any], busy: set[int]) -> None:
    """Whatever waits and runs: plans are disjoint, on idle nodes alone, one node a rank, each whole or not at all."""
    nodes = minipods(*sizes)
    running = [pod(f"r{i}", gpus=1, node=nodes[i].name, phase="Running") for i in busy if i < len(nodes)]
    asked = [(f"g{i}", size, {"priority": p, "annotations": notes}) for i, (size, p, notes) in enumerate(gangs)]
    state = queue_of(*asked, nodes=nodes, running=running)
    plan_all(state)
    taken = [name for plan in state.plans.values() for name in plan.nodes if plan.holding]
    assert len(set(taken)) == len(taken)
    assert not set(taken) & {one.node for one in running}
    for name, size, _ in asked:
        plan = state.plans[key(name)]
        assert len(plan.nodes) == (size if plan.phase is PlanPhase.PLANNED else 0)
        assert all(state.fleet.promised_to(node) == key(name) for node in plan.nodes)


# Repair


def running_gang(
    size: int, annotations: dict[str, str], *, nodes: Any, bound: bool = True
) -> tuple[ClusterCache, GangPlan]:
    """A gang on its planned nodes."""
    state = state_of(nodes, gang_pods("g", size, annotations))
    plan = plan_all(state)["g"].plan.replace(phase=PlanPhase.BOUND)
    state.put_plan(plan)
    for rank, name in enumerate(plan.nodes if bound else ()):
        state.put_pod(decode_pod(member_json("g", rank, size, annotations, gate=False, node=name, phase="Running")))
    return state, plan


def test_a_lost_node_is_replaced_and_nothing_else_moves() -> None:
    """The one rank; with a spare in the same minipod the spread stays as it was."""
    state, plan = running_gang(8, GRID, nodes=minipods(5, 5))
    state.drop_node(plan.nodes[3])
    answer = answer_to(repair_question(state, plan, [plan.nodes[3]], NOW), LIMITS)
    assert (answer.placed, answer.moved, answer.plan.spread, answer.plan.phase) == (True, (3,), (1, 2), PlanPhase.BOUND)
    assert answer.plan.nodes[3].split("-")[0] == plan.nodes[3].split("-")[0]
    assert answer.plan.nodes[:3] + answer.plan.nodes[4:] == plan.nodes[:3] + plan.nodes[4:]
    assert (answer.plan.pods, answer.plan.spec) == (plan.pods, plan.spec)


def test_several_lost_nodes_are_replaced_at_once() -> None:
    """What no peer does in one step."""
    state, plan = running_gang(8, GRID, nodes=minipods(6, 6))
    lost = [plan.nodes[0], plan.nodes[1], plan.nodes[6]]
    for name in lost:
        state.drop_node(name)
    answer = answer_to(repair_question(state, plan, lost, NOW), LIMITS)
    assert (answer.placed, answer.moved) == (True, (0, 1, 6))
    assert not set(lost) & set(answer.plan.nodes)


def test_running_ranks_on_cordoned_nodes_stay() -> None:
    """Only what is said to be lost moves, even where no new pod may come and the gang would avoid the node."""
    state, plan = running_gang(4, {"arnold.dev/avoid": "strict"}, nodes=minipods(8))
    state.put_node(node(plan.nodes[0], "mp0", "mp0r0", unschedulable=True))
    state.put_node(node(plan.nodes[1], "mp0", "mp0r0", annotations={"arnold.dev/slowdown": "1.5"}))
    answer = answer_to(repair_question(state, plan, [plan.nodes[2]], NOW), LIMITS)
    assert (answer.placed, answer.moved) == (True, (2,))


def test_a_repair_takes_no_promised_and_no_faulty_node() -> None:
    """One spare is promised to another gang, one is cordoned, one is left."""
    state, plan = running_gang(2, {}, nodes=minipods(5))
    spares = sorted({f"m0-{i}" for i in range(5)} - set(plan.nodes))
    state.put_plan(GangPlan(key("h"), PlanPhase.PLANNED, nodes=(spares[0],), pods=(uid("h"),)))
    state.put_node(node(spares[1], "mp0", "mp0r0", unschedulable=True))
    answer = answer_to(repair_question(state, plan, [plan.nodes[1]], NOW), LIMITS)
    assert answer.plan.nodes == (plan.nodes[0], spares[2])


def test_no_spare_is_a_condition_and_the_plan_stays() -> None:
    """What runs goes on; the reason is there to be read."""
    state, plan = running_gang(4, {}, nodes=minipods(4))
    answer = answer_to(repair_question(state, plan, [plan.nodes[1]], NOW), LIMITS)
    assert (answer.placed, answer.plan.nodes, answer.plan.phase) == (False, plan.nodes, PlanPhase.BOUND)
    healthy = answer.plan.condition("Healthy")
    assert healthy is not None
    assert (healthy.status, healthy.reason) == ("False", "CannotBeRepaired")
    assert "spare nodes of 8 GPUs left: 0" in healthy.message


def test_pods_that_run_are_never_moved() -> None:
    """A rack is required and full: the whole gang would have to go to the other one, so nobody goes."""
    annotations = {"kueue.x-k8s.io/podset-required-topology": RACK}
    state, plan = running_gang(4, annotations, nodes=minipods(8))
    answer = answer_to(repair_question(state, plan, [plan.nodes[0]], NOW), LIMITS)
    assert not answer.placed
    assert says(answer.plan.message, "rank 1, 2, 3")
    state, plan = running_gang(4, annotations, nodes=minipods(8), bound=False)
    answer = answer_to(repair_question(state, plan, [plan.nodes[0]], NOW), LIMITS)
    assert (answer.placed, answer.moved) == (True, (0, 1, 2, 3))


@pytest.mark.parametrize("annotations", [GRID, {**GRID, "kai.scheduler/topology-required-placement": MINIPOD}])
def test_nodes_that_were_deleted_before_we_came_are_replaced_too(annotations: dict[str, str]) -> None:
    """After a restart nothing is known of them but their names, in the plan."""
    before, plan = running_gang(8, annotations, nodes=minipods(10))
    del before
    state = state_of([one for one in minipods(10) if one.name not in plan.nodes[2:4]])
    state.put_plan(plan)
    for rank, name in enumerate(plan.nodes):
        state.put_pod(decode_pod(member_json("g", rank, 8, annotations, gate=False, node=name, phase="Running")))
    answer = answer_to(repair_question(state, plan, plan.nodes[2:4], NOW), LIMITS)
    assert (answer.placed, answer.moved) == (True, (2, 3))


def test_a_plan_that_is_not_the_gangs_any_more_is_not_repaired() -> None:
    """Forged, or of an older form: a reason, no exception."""
    state, plan = running_gang(4, {}, nodes=minipods(8))
    for broken, lost in ((plan.replace(nodes=plan.nodes[:3]), plan.nodes[0]), (plan, "elsewhere")):
        answer = answer_to(repair_question(state, broken, [lost], NOW), LIMITS)
        assert not answer.placed
        assert says(answer.plan.message, "does not fit")


@given(st.sets(st.integers(0, 7), min_size=1, max_size=4), st.sets(st.integers(0, 3), max_size=3))
@examples(25)
def test_a_repair_moves_exactly_the_lost_ranks(ranks: set[int], busy: set[int]) -> None:
    """Whatever is lost and whatever spares are in use: no more moves than losses, disjoint nodes, or a reason."""
    state, plan = running_gang(8, GRID, nodes=minipods(6, 6))
    spares = sorted({one.name for one in minipods(6, 6)} - set(plan.nodes))
    for i in busy:
        state.put_pod(pod(f"r{i}", node=spares[i], phase="Running"))
    lost = [plan.nodes[rank] for rank in sorted(ranks)]
    answer = answer_to(repair_question(state, plan, lost, NOW), LIMITS)
    assert answer.placed is (len(ranks) <= len(spares) - len(busy))
    if answer.placed:
        assert answer.moved == tuple(sorted(ranks))
        assert len(set(answer.plan.nodes)) == 8
        assert not set(answer.plan.nodes) & (set(lost) | {spares[i] for i in busy})


def test_slices_of_kueue_within_slices_lie_in_their_levels() -> None:
    """16 pods on two minipods of twelve nodes, four to a rack: each eight in a minipod, each four in a rack."""
    layers = '[{"topology": "example.com/minipod", "size": 8}, {"topology": "example.com/rack", "size": 4}]'
    notes = {"kueue.x-k8s.io/podset-slice-required-topology-constraints": layers}
    nodes = {one.name: one.metadata.labels or {} for one in minipods(12, 12)}
    plan = plan_all(state_of(minipods(12, 12), gang_pods("g", 16, notes)))["g"].plan
    for level, size in (MINIPOD, 8), (RACK, 4):
        domains = [nodes[name][level] for name in plan.node_names]
        assert [len({*domains[first : first + size]}) for first in range(0, 16, size)] == [1] * (16 // size)
    assert plan.condition("HintsRead") is None


def test_a_hard_wish_that_is_not_known_is_said_to_be_left_out() -> None:
    """Of a version of Kueue that is yet to come: placed, with the condition."""
    notes = {"kueue.x-k8s.io/podset-mirrored-topology": "example.com/rack"}
    plan = plan_all(state_of(minipods(4, 4), gang_pods("g", 4, notes)))["g"].plan
    told = plan.condition("HintsRead")
    assert told is not None
    assert (plan.phase, told.status, told.reason) == (PlanPhase.PLANNED, "False", "WishNotRead")
    assert "kueue.x-k8s.io/podset-mirrored-topology" in told.message


def hosted(gang: str, *hosts: str, gpus: int = 8) -> list[Pod]:
    """A gang whose pods select a host each, as after Kueue's topology-aware scheduling; empty text = none."""
    selectors = [{"nodeSelector": {"kubernetes.io/hostname": host}} if host else {} for host in hosts]
    parts = enumerate(selectors)
    return [decode_pod(member_json(gang, rank, len(hosts), gpus=gpus, **part)) for rank, part in parts]


def test_nodes_that_all_pods_select_are_a_given_plan() -> None:
    """Every rank gets the host that its pod says, with its worth, and that of the best: one minipod had sufficed."""
    hosts = ("m1-0", "m0-2", "m0-0", "m1-3")
    plan = plan_all(state_of(minipods(4, 4), hosted("g", *hosts)))["g"].plan
    assert (plan.phase, plan.nodes, plan.spread) == (PlanPhase.PLANNED, hosts, (2, 1))
    # 0.3 x 2 + 0.7 against 1
    assert (plan.objective, plan.bound, plan.gap) == (pytest.approx(1.3), pytest.approx(1.0), pytest.approx(0.3 / 1.3))
    assert says(plan.message, "its pods select", "spread 1/1")


def test_pods_that_share_the_node_that_they_select() -> None:
    """Two of four GPUs on each of two nodes; were they in another order, no whole nodes would be theirs."""
    plan = plan_all(state_of(minipods(4, 4), hosted("g", "m1-0", "m1-0", "m0-2", "m0-2", gpus=4)))["g"].plan
    assert (plan.phase, plan.node_names) == (PlanPhase.PLANNED, ("m1-0", "m0-2"))
    plan = plan_all(state_of(minipods(4, 4), hosted("g", "m1-0", "m0-2", "m1-0", "m0-2", gpus=4)))["g"].plan
    assert (plan.phase, plan.reason) == (PlanPhase.QUEUED, "CannotBePlanned")
    assert says(plan.message, "2 consecutive ranks", "To fix: take kubernetes.io/hostname out")


@pytest.mark.parametrize(
    ("hosts", "reason", "words"),
    [
        (("m0-0", "m0-1", "", ""), "CannotBePlanned", ("none (g-2)", "or none")),
        (("m0-0", "m0-1", "m0-2", "m0-9"), "CannotBePlanned", ("m0-9",)),
        (("m0-0", "m0-0", "m0-2", "m0-3"), "CannotBePlanned", ("m0-0", "twice")),
        (("m0-0", "m0-1", "m0-2", "m1-0"), "NoRoom", ("m1-0", "not free", "wait")),
    ],
)
def test_nodes_that_pods_select_and_cannot_have(hosts: tuple[str, ...], reason: str, words: tuple[str, ...]) -> None:
    """Some select none, a node is not there, twice, or in use; what to do about it stands in the plan."""
    state = state_of(minipods(4, 4), [*hosted("g", *hosts), pod("other", node="m1-0")])
    answer = plan_all(state)["g"]
    assert (answer.plan.phase, answer.plan.reason) == (PlanPhase.QUEUED, reason)
    assert says(answer.plan.message, *words)
    assert (answer.usable is not None) == (reason == "NoRoom")


def test_pods_that_select_different_racks_are_told_what_to_select() -> None:
    """As after Kueue's topology-aware scheduling whose lowest level is the rack."""
    racks = ({RACK: f"mp0r{rank % 2}"} for rank in range(4))
    pods = [decode_pod(member_json("g", rank, 4, nodeSelector=rack)) for rank, rack in enumerate(racks)]
    plan = plan_all(state_of(minipods(8, 8), pods))["g"].plan
    assert plan.reason == "CannotBePlanned"
    assert says(plan.message, "mp0r0 (g-0)", "mp0r1 (g-1)", "kubernetes.io/hostname")


def test_no_other_node_is_given_to_a_rank_whose_pod_selects_its_own() -> None:
    """The pod could not start there: the plan says what would help."""
    state = state_of(minipods(4, 4), hosted("g", "m0-0", "m0-1"))
    plan = plan_all(state)["g"].plan
    told = answer_to(repair_question(state, plan, ["m0-1"], NOW), LIMITS).plan.condition("Healthy")
    assert told is not None
    assert says(told.message, "its pods select their nodes", "To fix: delete all its pods")


def test_a_gang_that_waits_for_the_nodes_that_its_pods_select_waits_for_no_others() -> None:
    """Of eight pods that run two are on its nodes; to stop any other would not help it."""
    state = state_of(minipods(4, 4))
    for gang, minipod in ("a", 0), ("b", 1):
        for rank in range(4):
            state.put_pod(pod(f"{gang}-{rank}", node=f"m{minipod}-{rank}"))
    for one in hosted("g", "m1-0", "m1-1"):
        state.put_pod(one)
    asked = outlook_question(state, gang_of(state, "g"), NOW, PriorityAge(), preempts=True)
    assert asked is not None
    assert sorted(asked.cluster.names) == ["m1-0", "m1-1"]
    assert {job.name.rpartition("/")[2] for job in asked.running} == {"b-0", "b-1"}
