"""Gangs whose pods share nodes, from the first release to the repair: what is there is decided upon as for any gang."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.controller.actions import Release, RepairAction
from extender.controller.decide import decide
from extender.extender_metrics import Metrics
from extender.objects import decode_node, decode_pod
from extender.plans.gang_plan import GangPlan, PlanPhase
from extender.queue_views import wanted_nodes
from extender.verbs import planned_node
from tests.case_counts import examples
from tests.extender.controller.world import TERMS, World
from tests.extender.things import MINIPOD, key, minipods, node_json, pod_json, state_of
from tests.facts import says

OWNER = ("Job", "train")


def names(size: int, gang: str = "g") -> list[str]:
    """Names of a gang's pods."""
    return [f"{gang}-{rank}" for rank in range(size)]


def released(size: int = 6, gpus: int = 4, world: World | None = None) -> World:
    """A gang whose pods are released, and not bound yet: two pods to a node, unless said."""
    world = world or World()
    world.gang("g", size, gpus=gpus, owner=OWNER)
    world.settle()
    assert world.phase("g") is PlanPhase.RELEASED
    return world


def bound(size: int = 6, gpus: int = 4) -> World:
    """A gang that runs."""
    world = released(size, gpus)
    world.bind(*names(size))
    world.settle()
    assert world.phase("g") is PlanPhase.BOUND
    return world


def set_node(world: World, name: str, **more: object) -> None:
    """A node changes; see :func:`node_json`."""
    minipod = f"mp{name[1]}"
    world.state.put_node(decode_node(node_json(name, minipod, f"{minipod}r0", **more)))


def test_each_pod_is_pinned_to_the_node_of_its_rank() -> None:
    """Five pods of 4 GPUs: two, two and one on three nodes, all promised, and the plan is bound when all pods are."""
    world = released(5)
    plan = world.plan("g")
    assert [world.node_of(name) for name in names(5)] == [plan.node_names[rank // 2] for rank in range(5)]
    assert {world.state.fleet.promised_to(name) for name in plan.node_names} == {key("g")}
    world.bind("g-0")
    world.settle()
    assert (world.phase("g"), world.plan("g").bound_pods) == (PlanPhase.RELEASED, 1)
    world.bind(*names(5)[1:])
    world.settle()
    assert (world.phase("g"), world.plan("g").bound_pods, world.plan("g").nodes) == (PlanPhase.BOUND, 5, plan.nodes)


def test_promised_nodes_are_counted_once() -> None:
    """Three nodes for five pods."""
    world = released(5)
    metrics = Metrics(plans=world.state.plans.values, leads=lambda: True, reservations=lambda: ())
    assert b"arnold_promised_nodes 3.0" in metrics.text()


def test_nodes_that_a_gang_waits_for_are_counted_as_its_pods_share_them() -> None:
    """Of eight nodes six are taken: five pods of 4 GPUs want three, of which two are free."""
    world = World()
    world.gang("large", 6)
    world.settle()
    world.gang("g", 5, gpus=4)
    world.settle()
    assert world.phase("g") is PlanPhase.QUEUED
    wanted = partial(wanted_nodes, world.state)
    metrics = Metrics(plans=world.state.plans.values, leads=lambda: True, wanted_nodes=wanted)
    assert b'arnold_gang_queued_nodes{gang="g",namespace="team",reason="NoRoom"} 3.0' in metrics.text()


def test_a_pod_that_comes_again_has_its_ranks_node() -> None:
    """The other pod of the node runs on, and its GPUs are no obstacle: they are the gang's own."""
    world = bound()
    before = world.plan("g").nodes
    world.recreate("g-3")
    world.settle()
    assert (world.node_of("g-3"), world.plan("g").nodes) == (before[3], before)


def test_strangers_on_the_rest_of_a_node_that_is_filled_in_part() -> None:
    """A pod that came past the scheduler: where it leaves room for the gang's pod that is no obstacle, else it is."""
    world = released(5)
    last = world.plan("g").nodes[4]
    world.add(pod_json("stranger", gpus=4, node=last, phase="Running"))
    world.settle()
    assert world.plan("g").nodes[4] == last
    world.add(pod_json("another", gpus=1, node=last, phase="Running"))
    world.settle()
    assert world.plan("g").nodes[4] == world.node_of("g-4") != last


# Nodes that are lost


def test_all_ranks_of_a_node_that_died_move_together() -> None:
    """Both pods are made anew: both ranks have the same other node, the rest stays."""
    world = bound()
    before = world.plan("g").nodes
    world.state.drop_node(before[2])
    world.recreate("g-2")
    world.recreate("g-3")
    world.settle()
    after = world.plan("g").nodes
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, False, True, True]
    assert after[2] == after[3] == world.node_of("g-2") == world.node_of("g-3")


@pytest.mark.parametrize("how", ["cordoned", "dead"])
def test_a_rank_waits_for_the_others_of_its_node(how: str) -> None:
    """One pod came anew, one is still bound there: none is moved or released, it is said why, and both go together."""
    world = bound()
    before = world.plan("g").nodes
    if how == "cordoned":
        set_node(world, before[2], unschedulable=True)
    else:
        set_node(world, before[2], ready="Unknown")
        world.later(31)
    world.recreate("g-3")
    decision = world.decide()
    assert not [one for one in decision.actions if isinstance(one, RepairAction | Release)]
    world.settle()
    plan = world.plan("g")
    assert (plan.nodes, world.gated("g-3")) == (before, True)
    healthy = plan.condition("Healthy")
    assert healthy is not None
    assert healthy.status == "False"
    assert says(healthy.message, "rank 3", f"node {before[2]}")
    world.recreate("g-2")
    world.settle()
    after = world.plan("g").nodes
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, False, True, True]
    assert after[2] == after[3] == world.node_of("g-2") == world.node_of("g-3")


def test_a_node_that_comes_back_while_a_rank_waits() -> None:
    """It goes where the other pod of the node is, and all is as planned."""
    world = bound()
    before = world.plan("g").nodes
    set_node(world, before[2], unschedulable=True)
    world.recreate("g-3")
    world.settle()
    set_node(world, before[2])
    world.settle()
    assert (world.plan("g").nodes, world.node_of("g-3")) == (before, before[3])
    world.bind("g-3")
    world.settle()
    healthy = world.plan("g").condition("Healthy")
    assert healthy is not None
    assert healthy.status == "True"


def test_bare_pods_of_a_lost_node_move_together() -> None:
    """Two released pods share a lost node: both go to another."""
    world = World()
    world.gang("g", 4, gpus=4)
    world.settle()
    before = world.plan("g").nodes
    world.state.drop_node(before[0])
    world.settle()
    after = world.plan("g").nodes
    assert (after[0], after[2:]) == (after[1], before[2:])
    assert after[0] != before[0]
    assert [world.node_of(f"g-{rank}") for rank in range(4)] == list(after)


def test_pods_that_are_not_bound_in_time() -> None:
    """One pod of a node is bound, the other was tried in vain: neither moves; a node with no bound pod is given up."""
    world = released()
    before = world.plan("g").nodes
    world.bind("g-0", "g-2", "g-3")
    world.refuse("g-1", "g-4", "g-5")
    world.later(301)
    (repair,) = world.decide().actions
    assert isinstance(repair, RepairAction)
    assert repair.lost == (before[4],)
    world.settle()
    after = world.plan("g").nodes
    assert (after[:4], after[4] == after[5] != before[4]) == (before[:4], True)


def test_a_rank_that_has_succeeded_moves_with_its_node() -> None:
    """It needs nothing any more; the other goes to another node."""
    world = bound()
    before = world.plan("g").nodes
    world.change("g-2", lambda pod: pod["status"].update(phase="Succeeded"))
    world.state.drop_node(before[2])
    world.recreate("g-3")
    world.settle()
    assert world.plan("g").nodes[3] == world.node_of("g-3") != before[3]


# Plans that are lost, and restarts


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_deleted_plan_is_read_off_the_pods(count: int) -> None:
    """Those that are bound keep their nodes, and their ranks' fellows go there too."""
    world = released(5)
    before = world.plan("g").nodes
    world.bind(*names(count))
    world.state.drop_plan(key("g"))
    world.settle()
    plan = world.plan("g")
    assert (plan.nodes, plan.pods_per_node, plan.spec.gpus_per_pod) == (before, 2, 4)


def test_a_deleted_plan_of_pods_on_a_node_that_lost_a_gpu() -> None:
    """Two pods run on a node that is too small for two by now: that is where they are, and no other is promised."""
    world = bound(2)
    before = world.plan("g")
    set_node(world, before.node_names[0], gpus=7)
    world.state.drop_plan(key("g"))
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, plan.nodes, plan.pods_per_node) == (PlanPhase.BOUND, before.nodes, 2)


def test_a_deleted_plan_of_pods_of_which_the_node_cuts_a_group_by_now() -> None:
    """On five GPUs of six a pod of three is alone, and three is no whole number of groups of two: it keeps its node."""
    world = World(minipods(4, gpus=6))
    notes = {"arnold.dev/parallelism": "tp=2,dp=3", "arnold.dev/constraints": f"[{{family: dp, within: {MINIPOD}}}]"}
    world.gang("g", 2, notes, gpus=3, owner=OWNER)
    world.settle()
    world.bind("g-0")
    world.recreate("g-1")
    (node,) = world.plan("g").node_names
    set_node(world, node, gpus=5)
    world.state.drop_plan(key("g"))
    world.settle()
    assert (world.phase("g"), world.plan("g").reason) == (PlanPhase.QUEUED, "NoSpare")
    assert world.state.fleet.promised_to(node) == key("g")


def test_pins_are_promises_while_the_plan_is_lost() -> None:
    """Of two pods to a node one waits for its gate: whole nodes stay promised, until a plan has nodes."""
    world = released(5)
    before = world.plan("g").node_names
    world.bind("g-0")
    world.recreate("g-1")  # its fellow, bound, keeps their node
    world.recreate("g-4")  # alone on its node: nothing keeps it
    fleet = world.state.fleet
    world.state.drop_plan(key("g"))
    assert [fleet.promised_to(name) for name in before] == [key("g"), key("g"), None]
    world.change("g-2", lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-21T12:00:00Z"))
    assert fleet.promised_to(before[1]) == key("g"), "rank 3 was released there too"
    world.delete("g-2", "g-3")
    assert fleet.promised_to(before[1]) is None
    assert not fleet.occupancy.promised[fleet.table.index_of[before[1]]]
    world.write(GangPlan(key("g"), PlanPhase.QUEUED))
    assert fleet.promised_to(before[0]) == key("g"), "that plan says nothing of nodes"
    world.write(GangPlan(key("g"), PlanPhase.PLANNED, nodes=(before[2],)))
    assert fleet.promised_to(before[0]) is None


def test_a_gang_whose_plan_is_lost_keeps_its_nodes_from_a_repair() -> None:
    """Two gangs have all eight nodes; one loses a node just when the plan of the other is gone: it gets none."""
    world = World()
    world.gang("g", 8, gpus=4, owner=OWNER)
    world.gang("h", 3, gpus=8, owner=OWNER)
    world.settle()
    before, lost = world.plan("g"), world.plan("h").nodes[0]
    world.add(pod_json("stranger", node=next(n for n in NODES if n not in {*before.nodes, *world.plan("h").nodes})))
    world.state.drop_plan(key("g"))
    set_node(world, lost, unschedulable=True)
    world.do(decide(world.state, world.now, TERMS, keys=(key("h"),)))
    world.settle()
    assert (world.plan("g").nodes, world.plan("h").nodes[0]) == (before.nodes, lost)


def test_a_deleted_plan_of_pods_without_mark_or_pin() -> None:
    """Without the gate only bound pods tell where they are; the fellow of the one joins it, others go where best."""
    world = World()
    world.gang("g", 5, gate=False, gpus=4, owner=OWNER)
    world.settle()
    before = world.plan("g").nodes
    world.bind("g-2", node=before[2])
    world.state.drop_plan(key("g"))
    world.settle()
    after = world.plan("g").nodes
    assert after[2] == after[3] == before[2]
    assert len({*after}) == 3


def jumper(*nodes: str) -> GangPlan:
    """The plan of a gang without the gate, each of whose pods of 4 GPUs came with one of these nodes."""
    world, notes = World(), {"arnold.dev/gang-size": str(len(nodes))}
    for rank, where in enumerate(nodes):
        labels = {"scheduling.x-k8s.io/pod-group": "jumper", "arnold.dev/rank": str(rank)}
        world.add(pod_json(f"jumper-{rank}", gpus=4, labels=labels, annotations=notes, owner=OWNER, node=where))
    world.settle()
    return world.plan("jumper")


def test_pods_that_bound_themselves_as_no_plan_would() -> None:
    """Ranks 0 and 2 on one node, where a plan puts 0 and 1: it is said that they chose, and nothing is promised."""
    plan = jumper("m0-0", "m0-1", "m0-0", "m0-1")
    assert (plan.phase, plan.reason, plan.nodes) == (PlanPhase.INVALID, "ChoosesNodes", ())


def test_pods_that_bound_themselves_as_a_plan_would() -> None:
    """Ranks 0 and 1 on one node, 2 and 3 on another: the plan says so.  One on each node is where it is, too."""
    plan = jumper("m0-0", "m0-0", "m0-1", "m0-1")
    assert (plan.phase, plan.node_names, plan.pods_per_node) == (PlanPhase.BOUND, ("m0-0", "m0-1"), 2)
    plan = jumper("m0-0", "m0-1", "m0-2", "m0-3")
    assert (plan.phase, plan.node_names, plan.pods_per_node) == (PlanPhase.BOUND, plan.nodes, 1)


def test_a_gang_of_other_pods_is_planned_anew() -> None:
    """Before it starts its pods are replaced by as many of twice the GPUs: it asks otherwise, with a node for each."""
    world = World()
    world.gang("g", 4, gpus=4, owner=OWNER)
    world.do(world.decide())
    assert len(world.plan("g").node_names) == 2
    world.delete(*names(4))
    world.gang("g", 4, gpus=8, owner=OWNER)
    world.settle()
    plan = world.plan("g")
    assert (plan.phase, len(plan.node_names), plan.pods_per_node) == (PlanPhase.RELEASED, 4, 1)


def test_an_expired_plan_is_taken_again() -> None:
    """No pod was bound in time; the nodes are still free: the same nodes, the same two pods on each."""
    world = released(5)
    before = world.plan("g")
    world.later(301)
    world.do(world.decide())
    assert world.phase("g") is PlanPhase.EXPIRED
    world.settle()
    after = world.plan("g")
    assert (after.nodes, after.pods_per_node) == (before.nodes, 2)


# Whatever happens

GANGS = {"a": (5, 4), "b": (6, 2), "c": (2, 8)}  # pods of each gang, and GPUs of each pod
PODS = [f"{gang}-{rank}" for gang, (size, _) in GANGS.items() for rank in range(size)]
NODES = [one.name for one in minipods(4, 4)]
EVENTS = st.one_of(
    st.tuples(st.just("bind"), st.sampled_from(PODS)),
    st.tuples(st.just("bind"), st.sampled_from(PODS)),
    st.tuples(st.just("recreate"), st.sampled_from(PODS)),
    st.tuples(st.just("refuse"), st.sampled_from(PODS)),
    st.tuples(st.sampled_from(["cordon", "lose", "mend"]), st.sampled_from(NODES)),
    st.tuples(st.just("forget"), st.sampled_from(list(GANGS))),
    st.tuples(st.just("later"), st.sampled_from(["31", "301"])),
    st.tuples(st.just("restart"), st.just("")),
)


def admitted(world: World, about: str) -> bool:
    """Whether the scheduler would bind a pod: Filter lets it pass on its node, and there is room."""
    pod = decode_pod(copy.deepcopy(world.pods[about]))
    found, node = world.state.plan_of_pod(pod.uid), world.node_of(about)
    if found is None or planned_node(world.state, pod, *found, world.now) != node:
        return False
    return world.state.fleet.held.gpus_on(node) + pod.gpus <= 8


def happen(world: World, event: str, about: str) -> None:
    """One thing happens, if it can."""
    match event:
        case "bind":
            if not world.gated(about) and "nodeName" not in world.pods[about]["spec"] and admitted(world, about):
                world.bind(about)
        case "recreate":
            world.recreate(about)
        case "refuse":
            if not world.gated(about) and "nodeName" not in world.pods[about]["spec"]:
                world.refuse(about)
        case "cordon":
            set_node(world, about, unschedulable=True)
        case "lose":
            set_node(world, about, ready="Unknown")
        case "mend":
            set_node(world, about)
        case "forget":
            forget(world, about)
        case "later":
            world.now += timedelta(seconds=int(about))
        case "restart":
            restart(world)


def forget(world: World, gang: str) -> None:
    """A plan is deleted, and all other gangs are thought of first: none is given a node of a released pod."""
    holders = {node: other.key for other in world.state.plans.values() if other.holding for node in other.nodes}
    world.state.drop_plan(key(gang))
    released = [name for name in world.pods if name.startswith(f"{gang}-") and not world.gated(name)]
    # nodes of a plan that expired may be another gang's already, by its plan
    kept = {node for node in map(world.node_of, released) if holders.get(node, key(gang)) == key(gang)}
    assert {world.state.fleet.promised_to(node) for node in kept} <= {key(gang)}
    settle(world, [other for other in GANGS if other != gang])
    taken = {node for other in world.state.plans.values() if other.holding for node in other.nodes}
    assert not taken & kept


def restart(world: World) -> None:
    """The process ends, and another reads all there is: nodes, pods and plans."""
    hosts = [world.state.fleet.host(name) for name in NODES]
    before, world.state = world.state, state_of([])
    for name, host in zip(NODES, hosts, strict=True):
        assert host is not None
        set_node(world, name, unschedulable=host.cordoned, ready="Unknown" if host.ailment else "True")
    for name in world.pods:
        world._see(name)
    for plan in before.plans.values():
        world.state.put_plan(plan)


def settle(world: World, gangs: Iterable[str] = GANGS) -> None:
    """Decide about one gang after the other, and do it, as the controller does, until there is nothing left to do."""
    for _ in range(20):
        before = (dict(world.state.plans), copy.deepcopy(world.pods))
        for gang in gangs:
            world.do(decide(world.state, world.now, TERMS, keys=(key(gang),)))
        if before == (dict(world.state.plans), world.pods):
            return
    raise AssertionError("still something to do after 20 turns")


def check(world: World) -> None:
    """No node has two gangs, each rank's pod is released to and bound on the node of its node rank, nodes hold them."""
    owners: dict[str, str] = {}
    for gang, (size, gpus) in GANGS.items():
        plan = world.state.plans.get(key(gang))
        if plan is None or not plan.holding:
            continue
        assert len(plan.nodes) == size
        assert plan.nodes == tuple(plan.node_names[rank * gpus // 8] for rank in range(size))
        assert len({*plan.node_names}) == len(plan.node_names) == -(-size * gpus // 8)
        for name in plan.node_names:
            assert owners.setdefault(name, gang) == gang
        for rank in range(size):
            about = world.pods[f"{gang}-{rank}"]
            assert about["spec"].get("nodeName", plan.nodes[rank]) == plan.nodes[rank]
            if not world.gated(f"{gang}-{rank}") and not plan.expired(world.now):
                assert world.node_of(f"{gang}-{rank}") == plan.nodes[rank]
    used = Counter[str]()
    for pod in world.pods.values():
        used[pod["spec"].get("nodeName", "")] += int(
            pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
        )
    assert all(gpus <= 8 for name, gpus in used.items() if name)


@given(st.lists(EVENTS, max_size=25))
@examples(120)
def test_whatever_happens_plans_and_pods_agree(events: list[tuple[str, str]]) -> None:
    """Three gangs of small and of large pods fill eight nodes but one; pods and nodes come, go and fail, plans are
    deleted, time passes, the extender is restarted: after each, when it has settled, all is in order.  A gang whose
    plan was deleted at any moment has lost no node of a released pod to another by the time it is thought of.
    """
    world = World()
    for gang, (size, gpus) in GANGS.items():
        world.gang(gang, size, gpus=gpus, owner=("Job", gang))
    settle(world)
    for event, about in events:
        happen(world, event, about)
        settle(world)
        check(world)
