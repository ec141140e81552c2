"""Constraints of gangs at second hierarchies, which labels of the nodes say: ``--domains power=LABEL``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.objects import decode_pod
from extender.planner.question import repair_question
from extender.planner.solve import answer_to, by_cell
from extender.plans.gang_plan import GangPlan, PlanPhase
from scheduler.objective import evaluate
from scheduler.placement.types import Limits
from tests.case_counts import examples
from tests.extender.things import MINIPOD, NOW, RACK, gang_pods, key, member_json, node, plan_all
from tests.facts import says
from topology.kubernetes.objects import NodeObject
from topology.kubernetes.pods import Pod

FEED = "example.com/feed"
HELD = {
    "arnold.dev/parallelism": "tp=8,dp=2,pp=2",
    "arnold.dev/alpha": "0.3",
    "arnold.dev/constraints": "[{family: pp, within: '@power'}]",
}


def fed(feeds: Sequence[str], per_minipod: int = 4) -> list[NodeObject]:
    """Nodes n0, n1, ... by their power feed, empty = no label; so many to a minipod, each a rack of its own."""
    return [
        node(
            f"n{i}",
            labels={MINIPOD: f"mp{i // per_minipod}", RACK: f"r{i}"} | ({FEED: feed} if feed else {}),
        )
        for i, feed in enumerate(feeds)
    ]


def state_with(nodes: Iterable[NodeObject], pods: Iterable[Pod] = ()) -> ClusterCache:
    """What the cache knows of a cluster with second hierarchies."""
    state = ClusterCache([MINIPOD, RACK], domains={"@power": FEED})
    for one in nodes:
        state.put_node(one)
    for pod in pods:
        state.put_pod(pod)
    return state


def groups(plan: GangPlan) -> list[list[str]]:
    """The pipelines of HELD: two replicas of two stages, ranks r and r + 2."""
    return [[plan.nodes[0], plan.nodes[2]], [plan.nodes[1], plan.nodes[3]]]


def test_a_group_is_held_on_one_feed() -> None:
    """One minipod of four nodes on four feeds, two of two nodes on one feed each and one alone.  Without the constraint
    the first minipod costs 1.0.  Held on one feed, each pipeline fills the pair of a minipod of its own:
    0.3 x 2 + 0.7 x 1 = 1.3.
    """
    feeds = ["a", "b", "c", "d", "e", "e", "f", "g", "h", "h", "i", "k"]
    feed_of = {f"n{i}": feed for i, feed in enumerate(feeds)}
    free = {name: text for name, text in HELD.items() if "constraints" not in name}
    assert plan_all(state_with(fed(feeds), gang_pods("g", 4, free)))["g"].plan.objective == 1.0
    plan = plan_all(state_with(fed(feeds), gang_pods("g", 4, HELD)))["g"].plan
    assert (plan.phase, plan.spread, plan.objective) == (PlanPhase.PLANNED, (2, 1), pytest.approx(1.3))
    assert all(len({feed_of[name] for name in group}) == 1 for group in groups(plan))


def test_soft_constraints_count_there() -> None:
    """Two stages of one node each: two in mp0 share no feed, two in mp1 do; at weight 0.5 the second is chosen."""
    notes = {
        "arnold.dev/parallelism": "tp=8,pp=2",
        "arnold.dev/alpha": "0.3",
        "arnold.dev/constraints": "[{family: pp, level: '@power', weight: 0.5}]",
    }
    plan = plan_all(state_with(fed(["a", "b", "c", "c"], 2), gang_pods("g", 2, notes)))["g"].plan
    assert ({*plan.nodes}, plan.objective) == ({"n2", "n3"}, pytest.approx(1.5))


def test_nodes_without_the_label_are_in_no_domain() -> None:
    """They share a feed with no other, as nothing says that they do; a gang that names none uses them."""
    feeds = ["a", "", "", "", "b", "b", "c", "c"]
    plan = plan_all(state_with(fed(feeds), gang_pods("g", 4, HELD)))["g"].plan
    assert {*plan.nodes} == {"n4", "n5", "n6", "n7"}
    dp_alone = plan_all(state_with(fed(["", "", "", ""]), gang_pods("g", 4, {"arnold.dev/parallelism": "tp=8,dp=4"})))
    assert dp_alone["g"].placed


def held_in(name: str) -> dict[str, str]:
    """The annotation that holds pipelines in a domain of that name."""
    return {"arnold.dev/constraints": f"[{{family: pp, within: '{name}'}}]"}


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        (
            {"arnold.dev/constraints": "[{family: pp, within: '@powr'}]"},
            "no level '@powr'\nTo fix: did you mean '@power'?",
        ),
        (
            {"arnold.dev/constraints": "[{family: pp, within: '@failure'}]"},
            f"levels of this cluster: {MINIPOD}, {RACK}, @power",
        ),
        ({"arnold.dev/level": "@power"}, "the cluster has no level '@power'"),
    ],
)
def test_what_may_name_it(notes: dict[str, str], words: str) -> None:
    """Constraints may, by a name that there is; spread counts at a level of the tree."""
    answer = plan_all(state_with(fed(["a"] * 4), gang_pods("g", 4, HELD | notes)))["g"]
    assert not answer.placed
    assert words in answer.plan.message


def test_a_label_that_changes_is_heeded_by_the_next_plan() -> None:
    """Two of four nodes are moved to another feed: the gang that found no room does."""
    state = state_with(fed(["a", "b", "c", "d"]), gang_pods("g", 4, HELD))
    refused = plan_all(state)["g"]
    assert not refused.placed
    assert "@power" in refused.plan.message
    for one in fed(["a", "a", "d", "d"]):
        state.put_node(one)
    assert plan_all(state)["g"].placed


def test_what_an_operator_should_mend() -> None:
    """A label that no node carries, and a name that is taken: said, and the gangs that name no such domain go on."""
    state = ClusterCache([MINIPOD, "rack"], domains={"@power": "example.com/fed", "@rack": FEED, "@failure": FEED})
    for i, feed in enumerate("aabb"):
        state.put_node(node(f"n{i}", labels={MINIPOD: "mp", "rack": f"r{i}", FEED: feed}))
    problems = [problem for problem in state.fleet.problems if problem.reason == "UnknownDomains"]
    assert all(problem.fix for problem in problems)
    label, name = (problem.message for problem in problems)
    assert says(label, "@power", "left out", "'example.com/fed'")
    assert says(name, "@rack", "left out", "'rack'")
    assert state.fleet.second_levels == ("@failure",)
    assert state.fleet.table.sentence.endswith(f"; second hierarchies: @failure by {FEED}")


@pytest.mark.parametrize(("spares", "found"), [(["c", "b", "", "a"], True), (["c"], False), ([""], False)])
def test_a_lost_node_is_replaced_on_its_feed(spares: list[str], *, found: bool) -> None:
    """Pipelines of two on feeds a and b; a node of a is gone for good.  A spare on a will do, and no other."""
    feeds = ["a", "a", "b", "b", *spares]
    state = state_with(fed(feeds[:4]), gang_pods("g", 4, HELD))
    plan = plan_all(state)["g"].plan.replace(phase=PlanPhase.BOUND)
    state.put_plan(plan)
    for rank, name in enumerate(plan.nodes):
        state.put_pod(decode_pod(member_json("g", rank, 4, HELD, gate=False, node=name, phase="Running")))
    for one in fed(feeds)[4:]:
        state.put_node(one)
    rank = next(rank for rank, name in enumerate(plan.nodes) if name in ("n0", "n1"))
    state.drop_node(plan.nodes[rank])
    answer = answer_to(repair_question(state, plan, [plan.nodes[rank]], NOW), Limits(seconds=5.0))
    assert answer.placed is found
    if found:
        assert (answer.moved, answer.plan.nodes[rank]) == ((rank,), f"n{3 + len(spares)}")
    else:
        assert "@power" in answer.plan.message


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=4, max_size=8))
@examples(40, deadline=None)
def test_plans_are_what_the_evaluator_says(feeds: list[str]) -> None:
    """On any feeds: a plan is valid and worth what it says; what is refused finds no two pairs of nodes on one feed."""
    state = state_with(fed(feeds), gang_pods("g", 4, HELD))
    answer = plan_all(state)["g"]
    shared = defaultdict[str, int](int)
    for feed in feeds:
        shared[feed] += feed != ""
    assert answer.placed == (sum(count // 2 for count in shared.values()) >= 2)
    if answer.placed:
        tree, job = state.fleet.table.tree, answer.plan.spec.job(str(key("g")))
        assert tree is not None
        assert job is not None
        worth = evaluate(tree, job, by_cell(tree, job, answer.plan.nodes))
        assert (worth.spread.dp, worth.spread.pp) == answer.plan.spread
        assert worth.objective == answer.plan.objective
