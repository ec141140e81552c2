"""Planning of gangs whose pods have fewer GPUs than the nodes: several of consecutive ranks on each node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.objects import decode_pod
from extender.planner.question import question_of, repair_question
from extender.planner.solve import answer_to, by_cell
from extender.plans.gang_plan import GangPlan, PlanPhase, decode_plan, encode_plan
from extender.queue_views import FleetState, waiting_gang
from scheduler.objective import evaluate
from scheduler.queue.arnold import Arnold
from tests.case_counts import examples
from tests.extender.things import (
    GRID,
    LIMITS,
    MINIPOD,
    NOW,
    RACK,
    gang_of,
    gang_pods,
    key,
    member_json,
    minipods,
    node,
    plan_all,
    pod,
    reserve,
    state_of,
)
from tests.facts import says
from topology.kubernetes.objects import NodeObject


def plan_of(state: ClusterCache, name: str = "g") -> GangPlan:
    """The plan that the gang gets."""
    return plan_all(state)[name].plan


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_it_lands_where_a_gang_of_whole_nodes_would(gpus: int) -> None:
    """The same job in smaller pods: the same cells on the same nodes, worth the same, 8 / g pods on each in turn."""
    whole = plan_of(state_of(minipods(4, 4), gang_pods("g", 8, GRID)))
    pods = 64 // gpus
    plan = plan_of(state_of(minipods(4, 4), gang_pods("g", pods, GRID, gpus=gpus)))
    assert (plan.phase, plan.spread, plan.objective, plan.gap) == (PlanPhase.PLANNED, (1, 2), whole.objective, 0.0)
    assert (plan.node_names, plan.pods_per_node) == (whole.nodes, 8 // gpus)
    assert plan.nodes == tuple(plan.node_names[rank * gpus // 8] for rank in range(pods))
    assert (len(plan.pods), plan.size, plan.spec.size, plan.spec.gpus_per_pod) == (pods, pods, pods, gpus)
    assert says(plan.message, f"{8 // gpus} pods", "8 GPUs")
    assert decode_plan(encode_plan(plan)) == plan


def test_the_last_node_is_filled_in_part_and_taken_whole() -> None:
    """Five pods of 4 GPUs take three nodes of 8: what is left of the third is nobody's, neither gang's nor pod's, and
    the plan says so; as of degrees of parallelism that leave GPUs of a pod idle.
    """
    state = state_of(minipods(4), [*gang_pods("g", 5, gpus=4), *gang_pods("h", 1, gpus=4)])
    plans = plan_all(state)
    g, h = plans["g"].plan, plans["h"].plan
    assert [g.nodes.count(name) for name in g.node_names] == [2, 2, 1]
    assert (len(g.node_names), len(h.node_names)) == (3, 1)
    assert not {*g.nodes} & {*h.nodes}
    assert says(g.message, "the last of the 3 nodes", "4 of its 8 GPUs")
    idle = plan_of(state_of(minipods(4), gang_pods("i", 2, {"arnold.dev/parallelism": "tp=4,dp=3"})), "i")
    assert says(idle.message, "the last of the 2 nodes", "4 of its 8 GPUs")
    assert (
        plan_of(state_of(minipods(3), [*gang_pods("g", 5, gpus=4), *gang_pods("h", 1, gpus=4)]), "h").reason == "NoRoom"
    )


def test_a_tensor_parallel_group_may_take_several_pods() -> None:
    """Groups of 16 GPUs are four pods of 4 on two nodes, which lie in one rack: ``tp_level`` is the closest level."""
    notes = {"arnold.dev/parallelism": "tp=16,dp=2"}
    plan = plan_of(state_of(minipods(8), gang_pods("g", 8, notes, gpus=4)))
    assert (plan.phase, len(plan.node_names), plan.spec.tp_level) == (PlanPhase.PLANNED, 4, RACK)
    inside = plan_of(state_of(minipods(8), gang_pods("g", 4, {"arnold.dev/parallelism": "tp=8,dp=2"}, gpus=4)))
    assert (len(inside.node_names), inside.spec.tp_level) == (2, None), "two pods of a group fill one node"


def test_pods_that_do_not_fill_a_node() -> None:
    """Three of 8 GPUs: the plan says what, where, and what to do; the gang holds nobody up."""
    state = state_of(minipods(4), [*gang_pods("a", 4, gpus=3), *gang_pods("b", 4)])
    plans = plan_all(state)
    plan = plans["a"].plan
    assert (plan.phase, plan.reason) == (PlanPhase.QUEUED, "CannotBePlanned")
    assert says(plan.message, "the GPUs in the resources of its pods", "3 GPUs", "have 8", "To fix:", "1, 2, 4, 8")
    assert plans["b"].placed


def test_too_little_room_is_told_in_nodes() -> None:
    """Ten pods of 4 GPUs need five nodes."""
    plan = plan_of(state_of(minipods(4), gang_pods("g", 10, gpus=4)))
    assert (plan.reason, plan.would_fit_if_empty) == ("TooLarge", False)
    assert says(plan.message, "5 free nodes of 8 GPUs", "4 of 4")


# Nodes that differ


def mixed(*, small: int, large: int, types: bool = False) -> list[NodeObject]:
    """A minipod of nodes of 4 GPUs and one of nodes of 8, perhaps of a type each."""

    def labels(minipod: str, kind: str) -> dict[str, str]:
        return {MINIPOD: minipod, RACK: f"{minipod}r"} | ({"nvidia.com/gpu.product": kind} if types else {})

    fours = [node(f"small-{i}", gpus=4, labels=labels("mp0", "L4")) for i in range(small)]
    return [*fours, *(node(f"large-{i}", gpus=8, labels=labels("mp1", "H100")) for i in range(large))]


def busy(*names: str) -> list[Any]:
    """A pod of one GPU on each node."""
    return [pod(f"on-{name}", gpus=1, node=name, phase="Running") for name in names]


@pytest.mark.parametrize("types", [False, True])
def test_nodes_that_pods_fill_alone_and_nodes_that_they_share(types: bool) -> None:
    """Four pods of 4 GPUs: on four nodes of 4, or on two of 8, whichever are free; never on some of both."""
    pods = gang_pods("g", 4, gpus=4)
    alone = plan_of(state_of(mixed(small=4, large=2, types=types), [*busy("large-0"), *pods]))
    assert ({*alone.nodes}, alone.pods_per_node) == ({f"small-{i}" for i in range(4)}, 1)
    shared = plan_of(state_of(mixed(small=4, large=2, types=types), [*busy("small-0"), *pods]))
    assert (shared.node_names, shared.pods_per_node) == (("large-0", "large-1"), 2)
    full = plan_of(state_of(mixed(small=4, large=2, types=types), [*busy("small-0", "large-0"), *pods]))
    assert (full.reason, full.would_fit_if_empty) == ("NoRoom", True)
    of_types = [" of the type L4", " of the type H100"] if types else ["", ""]
    assert says(full.message, f"4 free nodes of 4 GPUs{of_types[0]}", "3 of 6")
    assert says(full.message, f"2 free nodes of 8 GPUs{of_types[1]}", "1 of 6")
    assert says(full.message, "1 nodes in use")


def test_the_better_size_is_taken() -> None:
    """Six pods of 4 GPUs: on nodes of 4 over two minipods, or on three nodes of 8 in one, which is proved best."""
    fours = [node(f"small-{i}", f"mp{i % 2}", f"r{i % 2}", gpus=4) for i in range(6)]
    eights = [node(f"large-{i}", "mp2", "r2") for i in range(3)]
    plan = plan_of(state_of([*fours, *eights], gang_pods("g", 6, gpus=4)))
    assert ({*plan.nodes}, plan.spread, plan.gap) == ({"large-0", "large-1", "large-2"}, (1, 1), 0.0)


def test_pods_of_8_take_no_nodes_of_4() -> None:
    """As ever."""
    plan = plan_of(state_of(mixed(small=4, large=2), gang_pods("g", 3)))
    assert plan.reason == "TooLarge"
    assert "4 with another number of GPUs" in plan.message


# Whatever waits and runs

GANGS = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from([1, 2, 3, 4, 8]), st.integers(0, 2)), min_size=1, max_size=5
)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 3), GANGS, st.sets(st.integers(0, 11)))
@examples(60)
def test_no_node_gets_two_gangs(
    sizes: list[int], fours: int, gangs: list[tuple[int, int, int]], used: set[int]
) -> None:
    """Gangs of small and of large pods: plans are disjoint, on idle nodes, rank k on node k * g // G, whole or not.

    And what a plan says it is worth is what the evaluator says of its nodes.
    """
    nodes = [*minipods(*sizes), *(node(f"four-{i}", "mp9", "r9", gpus=4) for i in range(fours))]
    running = busy(*(nodes[i].name for i in sorted(used) if i < len(nodes)))
    pods = [
        one
        for i, (size, gpus, first) in enumerate(gangs)
        for one in gang_pods(f"g{i}", size, gpus=gpus, priority=first)
    ]
    state = state_of(nodes, [*running, *pods])
    before = {f"g{i}": question_of(state, gang_of(state, f"g{i}"), NOW) for i in range(len(gangs))}
    plan_all(state)
    owner: dict[str, str] = {one.node: "busy" for one in running if one.node}
    for i, (size, gpus, _) in enumerate(gangs):
        plan = state.plans[key(f"g{i}")]
        assert len(plan.nodes) == (size if plan.holding else 0)
        for rank, name in enumerate(plan.nodes):
            host = state.fleet.host(name)
            assert host is not None
            assert plan.nodes[rank] == plan.node_names[rank * gpus // host.gpus]
            assert owner.setdefault(name, plan.key.name) == plan.key.name
        if plan.holding:
            question = before[f"g{i}"]
            assert question.cluster is not None
            assert question.job is not None
            job = question.job.replace(gpus_per_node=plan.gpus_per_node, node_sizes=())
            worth = evaluate(question.cluster, job, by_cell(question.cluster, job, plan.node_names))
            assert plan.spread == (worth.dp, worth.pp)
        else:
            assert gpus == 3 or plan.reason in ("NoRoom", "TooLarge", "BehindOthers")


# Repair


def running_gang(
    size: int, gpus: int, nodes: Iterable[NodeObject], *, bound: Iterable[int]
) -> tuple[ClusterCache, GangPlan]:
    """A gang some of whose ranks are on their planned nodes."""
    state = state_of(nodes, gang_pods("g", size, gpus=gpus))
    plan = plan_of(state).replace(phase=PlanPhase.BOUND)
    state.put_plan(plan)
    for rank in bound:
        raw = member_json("g", rank, size, gate=False, node=plan.nodes[rank], phase="Running", gpus=gpus)
        state.put_pod(decode_pod(raw))
    return state, plan


@given(st.sets(st.integers(0, 3), min_size=1, max_size=3), st.sets(st.integers(0, 3), max_size=3), st.integers(7, 8))
@examples(25)
def test_all_ranks_of_a_lost_node_move_together(lost: set[int], used: set[int], pods: int) -> None:
    """Seven or eight pods of 4 on four of eight nodes: exactly the ranks of the lost nodes, two or one of each."""
    state, plan = running_gang(pods, 4, minipods(4, 4), bound=range(pods))
    spares = sorted({one.name for one in minipods(4, 4)} - {*plan.nodes})
    for one in busy(*(spares[i] for i in used)):
        state.put_pod(one)
    gone = [plan.node_names[i] for i in sorted(lost)]
    for name in gone:
        state.drop_node(name)
    answer = answer_to(repair_question(state, plan, gone, NOW), LIMITS)
    assert answer.placed is (len(lost) <= 4 - len(used))
    if answer.placed:
        after = answer.plan
        assert answer.moved == tuple(rank for rank in range(pods) if plan.nodes[rank] in gone)
        assert after.nodes == tuple(after.node_names[rank // 2] for rank in range(pods))
        assert len({*after.node_names}) == 4
        assert not {*after.nodes} & ({*gone} | {spares[i] for i in used})
        assert (after.pods, after.spec, after.pods_per_node) == (plan.pods, plan.spec, 2)


def test_a_plan_whose_ranks_do_not_share_nodes_as_it_says_is_not_repaired() -> None:
    """Forged: a reason, no exception."""
    state, plan = running_gang(4, 4, minipods(4), bound=())
    forged = plan.replace(nodes=("m0-0", "m0-1", "m0-2", "m0-3"))
    answer = answer_to(repair_question(state, forged, ["m0-0"], NOW), LIMITS)
    assert not answer.placed
    assert says(answer.plan.message, "does not fit")


# What queue policies are told


def test_a_waiting_gang_counts_its_nodes() -> None:
    """Five pods of 4 GPUs want three nodes of 8; of 3 GPUs, which no node will do for, one each."""
    state = state_of(minipods(4), [*gang_pods("g", 5, gpus=4), *gang_pods("odd", 5, gpus=3)])
    job = waiting_gang(state, gang_of(state, "g"))
    assert (job.nodes, job.gpus) == (3, 8)
    odd = waiting_gang(state, gang_of(state, "odd"))
    assert (odd.nodes, odd.gpus) == (5, 3)


@pytest.mark.parametrize("planned", [True, False])
def test_a_running_gang_holds_its_nodes(planned: bool) -> None:
    """Whole, as long as its plan promises them; without a plan, as its pods leave, what these have on a node."""
    state, plan = running_gang(5, 4, minipods(4), bound=range(5))
    if not planned:
        state.drop_plan(plan.key)
    (running,) = FleetState(state, NOW).running
    assert (len(running.places), running.gpus) == (3, 8)


def test_it_gets_the_zone_that_was_reserved_for_it() -> None:
    """A reservation says nodes: two of 8 GPUs are the room of four pods of 4."""
    state = state_of(minipods(4, 4), gang_pods("llm", 4, gpus=4))
    reserve(state, "m1-2", "m1-3", hours=0.0)
    plan = plan_all(state, policy=Arnold())["llm"].plan
    assert {*plan.nodes} == {"m1-2", "m1-3"}
    assert np.unique([plan.nodes.count(name) for name in plan.node_names]).tolist() == [2]
