"""Caps of power domains on Kubernetes: a gang whose peak does not fit waits, and never is a cap exceeded."""

from __future__ import annotations

import pytest

from extender.cluster_cache import ClusterCache
from extender.controller.actions import release_mark, release_patch
from extender.objects import decode_pod
from extender.planner.question import repair_question
from extender.planner.solve import answer_to
from extender.plans.gang_plan import PlanPhase
from extender.service.settings import parse_power_caps
from ground.errors import InvalidInput
from scheduler.placement.types import Limits
from tests.extender.fake_cluster import merged
from tests.extender.planner.test_second_hierarchies import FEED, fed
from tests.extender.things import MINIPOD, NOW, RACK, gang_pods, key, member_json, plan_all, pod, uid
from tests.facts import says
from topology.kubernetes.pods import RELEASED

FEEDS = ["a", "b", "a", "b", "a", "b", "a", "b"]


def asking(watts: str) -> dict[str, str]:
    """Annotations of a data-parallel gang whose pods draw so much."""
    return {"arnold.dev/peak-watts": watts}


def capped(watts: float) -> ClusterCache:
    """Two minipods of four nodes, two on each feed of either, and a cap of both feeds."""
    state = ClusterCache([MINIPOD, RACK], domains={"@power": FEED}, power_caps={"@power": watts})
    for one in fed(FEEDS):
        state.put_node(one)
    return state


def test_a_gang_without_power_waits() -> None:
    """Feeds with power for three pods each: of three gangs of two the first and one more fit a cap of 2 + 1 pods.

    Four nodes draw 40 kW, 20 kW a feed; two more fit below 30 kW, two further ones do not, though nodes are free.
    """
    state = capped(30_000)
    for gang, size in (("g1", 4), ("g2", 2), ("g3", 2)):
        for one in gang_pods(gang, size, asking("10000")):
            state.put_pod(one)
    answers = plan_all(state)
    phases = [answers[name].plan.phase for name in ("g1", "g2", "g3")]
    assert phases == [PlanPhase.PLANNED, PlanPhase.PLANNED, PlanPhase.QUEUED]
    assert says(str(answers["g3"].plan), "2 whose power domain")
    for one in gang_pods("g1", 4, asking("10000")):
        state.drop_pod(one.uid)
    state.drop_plan(key("g1"))
    assert plan_all(state)["g3"].placed


def test_released_pods_of_a_lost_plan_count() -> None:
    """Feeds with power for three pods: two of the first gang are released on each, and its GangPlan is gone."""
    state = capped(30_000)
    for gang, size in (("g1", 4), ("g2", 4)):
        for one in gang_pods(gang, size, asking("10000")):
            state.put_pod(one)
    plan = plan_all(state)["g1"].plan
    for rank, node in enumerate(plan.nodes):
        member = member_json("g1", rank, 4, asking("10000"), labels={RELEASED: release_mark(key("g1"), 4)})
        change = release_patch(decode_pod(member), node, release_mark(key("g1"), 4), version="1")
        state.put_pod(decode_pod(merged(member, change)))
    state.drop_plan(key("g1"))
    state.drop_pod(uid("g1-3"))
    # three pods of g1 are on their way, so at most three of the four pods of g2 have power
    assert not plan_all(state)["g2"].placed


def test_pods_that_run_count() -> None:
    """A pod of others that says 25 kW leaves a feed of 30 kW no room for 10 kW; one that says nothing draws nothing."""
    state = capped(30_000)
    state.put_pod(pod("other", node="n0", annotations=asking("25000"), gpus=1))
    for one in gang_pods("g", 3, asking("10000")):
        state.put_pod(one)
    plan = plan_all(state)["g"].plan
    assert {*plan.nodes} <= {f"n{i}" for i, feed in enumerate(FEEDS) if feed == "b"}
    free = capped(30_000)
    for one in gang_pods("g", 8):
        free.put_pod(one)
    assert plan_all(free)["g"].placed


def test_a_repair_keeps_the_cap() -> None:
    """A gang of two on feed b, which has power for two, loses a node: the other takes one of b again, not of a."""
    state = capped(20_000)
    state.put_pod(pod("other", node="n0", annotations=asking("15000"), gpus=1))
    for one in gang_pods("g", 2, asking("10000")):
        state.put_pod(one)
    plan = plan_all(state)["g"].plan
    answer = answer_to(repair_question(state, plan, plan.nodes[:1], NOW), Limits(seconds=1.0, workers=1))
    assert answer.moved == (0,)
    assert answer.plan.nodes[0] in {"n1", "n3", "n5", "n7"} - {*plan.nodes}


@pytest.mark.parametrize("watts", ["-5", "many", "1e5", ""])
def test_unreadable_watts(watts: str) -> None:
    """They are a problem of the gang, with what to write: a cap that is not kept would be worse."""
    state = capped(30_000)
    for one in gang_pods("g", 2, asking(watts)):
        state.put_pod(one)
    gang = state.gang(key("g"))
    assert gang is not None
    assert gang.problem is not None
    assert (gang.problem.reason, gang.problem.where) == ("InvalidPeakWatts", "arnold.dev/peak-watts")


def test_the_option() -> None:
    """Names are those of --domains; what is none, or no watts, is refused with what to write."""
    assert parse_power_caps("power=600000, @cooling=5e5".replace("5e5", "500000"), ["@power", "@cooling"]) == {
        "@power": 600_000.0,
        "@cooling": 500_000.0,
    }
    assert parse_power_caps(None, []) == {}
    for text in ("power=-1", "power=", "feed=5", "power=nan", "power"):
        with pytest.raises(InvalidInput, match="watts") as caught:
            parse_power_caps(text, ["@power"])
        assert caught.value.where == "--power-caps"
