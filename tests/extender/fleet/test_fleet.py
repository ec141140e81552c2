"""Nodes and pods as a cluster, kept up to date object by object."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.fleet.fleet import Fleet
from extender.fleet.hosts import Demand, demand_of
from extender.fleet.table import Own
from extender.objects import decode_node
from scheduler.job import NodeSize
from tests.case_counts import examples
from tests.extender.things import MINIPOD, NOW, RACK, key, minipods, node, node_json, pod
from tests.facts import says
from topology.cluster import Cluster

ANYBODY = frozenset({Demand()})
COUNTED = frozenset({MINIPOD})


def fleet_of(*nodes: Any, levels: list[str] | None = None) -> Fleet:
    """A fleet of some nodes."""
    fleet = Fleet([MINIPOD, RACK] if levels is None else levels)
    for one in nodes:
        fleet.put_node(one)
    return fleet


def seen(fleet: Fleet, demands: frozenset[Demand] = ANYBODY, **more: Any) -> Cluster:
    """The cluster for pods that ask for nothing special."""
    cluster = fleet.view(demands, more.pop("now", NOW), counted=more.pop("counted", COUNTED), **more).cluster
    assert cluster is not None
    return cluster


def facts(cluster: Cluster | None) -> list[tuple[object, ...]]:
    """What there is to know of each node."""
    return [] if cluster is None else [(n.name, n.path, n.gpus, n.free_gpus, n.slowdown) for n in cluster]


def test_nodes_become_a_tree() -> None:
    """Levels are labels, in the order configured; nodes are sorted by name; those without GPUs are left out."""
    fleet = fleet_of(*reversed(minipods(2, 1)), node("cpu", gpus=0))
    cluster = seen(fleet)
    assert fleet.levels == (MINIPOD, RACK)
    assert facts(cluster) == [
        ("m0-0", ("mp0", "mp0r0"), 8, 8, 1.0),
        ("m0-1", ("mp0", "mp0r0"), 8, 8, 1.0),
        ("m1-0", ("mp1", "mp1r0"), 8, 8, 1.0),
    ]


def test_without_levels_those_of_the_known_preset_are_taken() -> None:
    """As for ``arnold place --cluster nodes.json``, and the sentence says which."""
    fleet = Fleet(None)
    for name in ("a", "b"):
        fleet.put_node(node(name, labels={"topology.k8s.aws/network-node-layer-1": name}))
    assert fleet.levels == ("topology.k8s.aws/network-node-layer-1",)
    assert "preset aws" in fleet.table.sentence


def test_pods_hold_gpus_until_they_have_ended_or_are_gone() -> None:
    """Running, then succeeded; a second one is deleted; one that waits holds nothing."""
    fleet = fleet_of(node("n"))
    for name in ("a", "b"):
        fleet.put_pod(pod(name, gpus=2, node="n", phase="Running"))
    fleet.put_pod(pod("waits", gpus=2))
    assert seen(fleet).free_gpus.tolist() == [4]
    fleet.put_pod(pod("a", gpus=2, node="n", phase="Succeeded"))
    assert seen(fleet).free_gpus.tolist() == [6]
    fleet.drop_pod(pod("b").uid)
    assert seen(fleet).free_gpus.tolist() == [8]


def test_pods_may_be_seen_before_their_node() -> None:
    """Two watches have no order between them."""
    fleet = fleet_of()
    fleet.put_pod(pod("a", gpus=2, node="n", phase="Running"))
    fleet.put_node(node("n"))
    assert seen(fleet).free_gpus.tolist() == [6]


def test_a_pod_on_its_way_out_still_holds_its_gpus() -> None:
    """Until the kubelet has stopped it."""
    fleet = fleet_of(node("n"))
    fleet.put_pod(pod("a", gpus=8, node="n", phase="Running", leaving=True))
    assert seen(fleet).free_gpus.tolist() == [0]


def test_promised_nodes_are_free_for_nobody() -> None:
    """Until they are given back; of two plans that claim one, always the same has it."""
    fleet = fleet_of(*minipods(3))
    fleet.promise(key("b"), {"m0-0", "m0-1"})
    fleet.promise(key("a"), {"m0-1"})
    assert seen(fleet).free_gpus.tolist() == [0, 0, 8]
    assert (fleet.promised_to("m0-0"), fleet.promised_to("m0-1"), fleet.promised_to("m0-2")) == (
        key("b"),
        key("a"),
        None,
    )
    fleet.promise(key("b"), {"m0-2"})
    assert seen(fleet).free_gpus.tolist() == [8, 0, 0]
    fleet.promise(key("a"), ())
    fleet.promise(key("b"), ())
    assert seen(fleet).free_gpus.tolist() == [8, 8, 8]


def test_whole_free_nodes_are_those_that_a_gang_could_have() -> None:
    """Of six: one is partly in use, one promised, one cordoned, one flagged faulty; two are left."""
    faulty = node("flagged", annotations={"arnold.dev/slowdown": "faulty"})
    fleet = fleet_of(*minipods(4), node("cordoned", unschedulable=True), faulty)
    fleet.put_pod(pod("a", gpus=1, node="m0-0", phase="Running"))
    fleet.promise(key("a"), {"m0-1"})
    assert fleet.whole_free_nodes(NOW) == 2


@pytest.mark.parametrize(
    ("more", "evidence"),
    [
        ({"unschedulable": True}, "cordoned"),
        ({"ready": "False"}, "not Ready"),
        ({"ready": "Unknown"}, "not Ready"),
        ({"allocatable": 7}, "1 of 8 GPUs are not allocatable"),
        ({"conditions": [{"type": "XIDErrors", "status": "True"}]}, "XIDErrors"),
        ({"annotations": {"arnold.dev/slowdown": "faulty"}}, ""),
    ],
)
def test_what_no_new_pod_may_use_is_faulty(more: dict[str, Any], evidence: str) -> None:
    """Not busy: an empty cluster would not have it either."""
    cluster = seen(fleet_of(node("bad", **more), node("good")))
    assert cluster.emptied().idle.tolist() == [False, True]
    assert cluster.flags[0].evidence == evidence


@pytest.mark.parametrize(
    ("more", "ailment"),
    [
        ({}, ""),
        ({"unschedulable": True}, ""),
        ({"taints": [{"key": "x", "effect": "NoSchedule"}]}, ""),
        ({"annotations": {"arnold.dev/slowdown": "1.5"}}, ""),
        ({"ready": "False"}, "not Ready"),
        ({"conditions": [{"type": "GPUMissing", "status": "True"}]}, "GPUMissing"),
        ({"annotations": {"arnold.dev/slowdown": "faulty"}}, "flagged faulty by annotation arnold.dev/slowdown"),
    ],
)
def test_what_endangers_pods_that_run(more: dict[str, Any], ailment: str) -> None:
    """A cordon or a taint keeps new pods away and leaves running ones alone."""
    assert fleet_of(node("n", **more)).ailing("n", NOW) == ailment


def test_a_node_that_is_gone_ails() -> None:
    """Deleted or never seen."""
    fleet = fleet_of(node("n"))
    fleet.drop_node("n")
    assert fleet.ailing("n", NOW) == "the node is gone"
    assert fleet.ailing("other", NOW) == "the node is gone"


def test_since_when_a_node_is_not_ready() -> None:
    """The last transition of its condition; for the patience of whoever asks."""
    fleet = fleet_of(node("n"), node("bad", ready="Unknown"))
    bad, good = fleet.host("bad"), fleet.host("n")
    assert bad is not None
    assert good is not None
    assert bad.ready_since is not None
    assert bad.ready_since.isoformat() == "2026-11-21T11:59:00+00:00"
    assert good.ready_since is None


def test_annotations_grade_nodes_until_they_end() -> None:
    """1.3 until noon and a minute; the view follows the clock though nothing else changed."""
    until = {"arnold.dev/slowdown": "1.3", "arnold.dev/slowdown-until": "2026-11-21T12:01:00Z"}
    fleet = fleet_of(node("n", annotations=until))
    assert seen(fleet).slowdown.tolist() == [1.3]
    assert seen(fleet, now=NOW + timedelta(minutes=1)).slowdown.tolist() == [1.0]


def test_annotations_grade_nodes_from_when_they_begin() -> None:
    """The same of 1.3 from noon and a minute on."""
    since = {"arnold.dev/slowdown": "1.3", "arnold.dev/slowdown-since": "2026-11-21T12:01:00Z"}
    fleet = fleet_of(node("n", annotations=since))
    assert seen(fleet).slowdown.tolist() == [1.0]
    assert seen(fleet, now=NOW + timedelta(minutes=1)).slowdown.tolist() == [1.3]


@pytest.mark.parametrize(
    "notes", [{"arnold.dev/slowdown": "slow"}, {"arnold.dev/slowdown": "2", "arnold.dev/slowdown-until": "x"}]
)
def test_an_annotation_that_cannot_be_read_is_a_problem_of_its_node(notes: dict[str, str]) -> None:
    """The node is used as if it were not there, and the operator is told."""
    fleet = fleet_of(node("n", annotations=notes), node("o"))
    (problem,) = fleet.problems
    assert (problem.reason, problem.node) == ("UnreadableNode", "n")
    assert problem.fix
    assert len(seen(fleet)) == 2


def test_gpus_that_are_no_number_are_a_problem_of_their_node() -> None:
    """It is left out, the others go on."""
    raw = node_json("n")
    raw["status"]["capacity"]["nvidia.com/gpu"] = "eight"
    fleet = fleet_of(decode_node(raw), node("o"))
    assert [problem.node for problem in fleet.problems] == ["n"]
    assert seen(fleet).names == ("o",)


def test_a_taint_leaves_out_what_the_pods_do_not_tolerate() -> None:
    """Pods that tolerate it use the node as any other."""
    taint = {"key": "dedicated", "value": "serving", "effect": "NoSchedule"}
    fleet = fleet_of(node("a", taints=[taint]), node("b"))
    view = fleet.view(ANYBODY, NOW, counted=COUNTED)
    assert view.cluster is not None
    assert (view.cluster.names, dict(view.left_out)) == (("b",), {"kept out by the taint dedicated=serving": 1})
    tolerant = frozenset({demand_of(pod("p", tolerations=[{"key": "dedicated", "operator": "Exists"}]))})
    assert seen(fleet, tolerant).names == ("a", "b")


def test_preferences_cost_unless_all_nodes_have_them_or_the_pods_do_not_mind() -> None:
    """PreferNoSchedule is a price of 1.05."""
    taint = {"key": "old", "effect": "PreferNoSchedule"}
    fleet = fleet_of(node("a", taints=[taint]), node("b"))
    assert seen(fleet).slowdown.tolist() == [1.05, 1.0]
    tolerant = frozenset({demand_of(pod("p", tolerations=[{"key": "old", "operator": "Exists"}]))})
    assert seen(fleet, tolerant).slowdown.tolist() == [1.0, 1.0]
    fleet.put_node(node("b", taints=[taint]))
    assert seen(fleet).slowdown.tolist() == [1.0, 1.0]


def test_of_a_price_and_a_flag_the_worse_counts() -> None:
    """They are not multiplied: the step waits for the slowest."""
    taint = {"key": "old", "effect": "PreferNoSchedule"}
    for slowdown, worse in (("1.3", 1.3), ("1.02", 1.05)):
        fleet = fleet_of(node("a", taints=[taint], annotations={"arnold.dev/slowdown": slowdown}), node("b"))
        assert seen(fleet).slowdown.tolist() == [worse, 1.0]


def test_a_selector_leaves_out_the_others() -> None:
    """All pods of the gang must be able to use a node, as any rank may come there."""
    fleet = fleet_of(*minipods(1, 1))
    demand = demand_of(pod("p", nodeSelector={MINIPOD: "mp1"}))
    view = fleet.view(frozenset({demand, Demand()}), NOW, counted=COUNTED)
    assert view.cluster is not None
    assert (view.cluster.names, dict(view.left_out)) == (("m1-0",), {"not selected by the pods": 1})
    nobody = fleet.view(frozenset({demand_of(pod("p", nodeSelector={"x": "y"}))}), NOW, counted=COUNTED)
    assert (nobody.cluster, dict(nobody.left_out)) == (None, {"not selected by the pods": 2})


def test_half_of_the_nodes_without_a_label_is_a_clear_problem() -> None:
    """They are near to nobody knows what: left out where that level counts, used where it does not."""
    placed = [node(f"a{i}", "mp0", "r0") for i in range(2)]
    lost = [node(f"b{i}", labels={RACK: "r9"}) for i in range(2)]
    fleet = fleet_of(*placed, *lost)
    (problem,) = fleet.problems
    assert problem.reason == "UnlabelledNodes"
    assert says(problem.message, "2 of 4", MINIPOD, "b0, b1")
    view = fleet.view(ANYBODY, NOW, counted=COUNTED)
    assert view.cluster is not None
    assert (view.cluster.names, dict(view.left_out)) == (("a0", "a1"), {f"without the label {MINIPOD}": 2})
    assert len(seen(fleet, counted=frozenset({RACK}))) == 4


def test_a_level_that_no_node_carries_is_a_problem_and_no_level() -> None:
    """With the one that was probably meant."""
    fleet = fleet_of(*minipods(2), levels=["example.com/minipods", RACK])
    assert fleet.levels == (RACK,)
    (problem,) = fleet.problems
    assert problem.reason == "UnknownLevel"
    assert f"did you mean '{MINIPOD}'?" in problem.fix


def test_no_known_label_is_a_problem_of_the_fleet() -> None:
    """Automatic levels find nothing; the fleet has no tree, and says so."""
    fleet = Fleet(None)
    fleet.put_node(node("n", labels={"mine": "x"}))
    assert [problem.reason for problem in fleet.problems] == ["NoTopology"]
    assert fleet.levels == ()


def test_the_default_level_is_the_broadest_that_tells_nodes_apart() -> None:
    """Nodes without a place do not make a second domain of it."""
    fleet = fleet_of(node("a", "mp0", "r0"), node("b", "mp0", "r1"), node("c", labels={RACK: "r2"}))
    assert fleet.default_level == RACK
    fleet.put_node(node("d", "mp1", "r3"))
    assert fleet.default_level == MINIPOD
    assert Fleet([MINIPOD]).default_level is None


def test_nodes_of_a_gang_are_in_its_view_in_any_case() -> None:
    """Gone, tainted, unlabelled: a repair has to see what it replaces."""
    taint = {"key": "x", "effect": "NoSchedule"}
    fleet = fleet_of(*minipods(1, 1), node("t", taints=[taint]), node("u", labels={}))
    own = Own(("t", "u", "gone"), 8, {"gone": "m1-0"})
    cluster = seen(fleet, own=own)
    assert cluster.names == ("m0-0", "m1-0", "t", "u", "gone")
    gone = cluster.node("gone")
    assert (gone.path[0], gone.free_gpus, gone.slowdown) == ("mp1", 0, math.inf)


def test_a_heartbeat_changes_nothing() -> None:
    """The kubelet writes its node every few minutes; nothing is made anew for that."""
    fleet = fleet_of(*minipods(2))
    table, version = fleet.table, fleet.version
    raw = node_json("m0-0", "mp0", "mp0r0")
    raw["metadata"]["resourceVersion"] = "77"
    raw["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-21T12:00:00Z"
    fleet.put_node(decode_node(raw))
    assert (fleet.table is table, fleet.version == version) == (True, True)


def test_what_does_not_move_nodes_keeps_the_tree() -> None:
    """Cordons, other labels, pods and promises change numbers; the tree of domains is the same object."""
    fleet = fleet_of(*minipods(2))
    table = fleet.table
    fleet.put_node(node("m0-0", "mp0", "mp0r0", unschedulable=True))
    fleet.put_pod(pod("a", node="m0-1", phase="Running"))
    fleet.promise(key("g"), {"m0-1"})
    fleet.put_node(node("m0-1", labels={MINIPOD: "mp0", RACK: "mp0r0", "other": "label"}))
    assert seen(fleet).idle.tolist() == [False, False]
    assert fleet.table is table
    fleet.put_node(node("m0-0", "mp1", "mp1r0"))
    assert fleet.table is not table


def test_equal_questions_share_a_view() -> None:
    """A hundred gangs of one kind of pods cost one view; a change that matters makes it anew."""
    fleet = fleet_of(*minipods(2))
    assert seen(fleet) is seen(fleet)
    before = seen(fleet)
    fleet.put_pod(pod("a", node="m0-1", phase="Running"))
    assert seen(fleet) is not before


NODES = st.builds(
    lambda i, m, **more: ("node", f"n{i}", node(f"n{i}", f"mp{m}", f"mp{m}r0", **more)),
    st.integers(0, 4),
    st.integers(0, 2),
    unschedulable=st.booleans(),
    gpus=st.sampled_from([0, 8]),
    ready=st.sampled_from(["True", "False"]),
)
PODS = st.builds(
    lambda i, n, **more: ("pod", f"p{i}", pod(f"p{i}", node=n, **more)),
    st.integers(0, 4),
    st.sampled_from([None, "n0", "n1", "n2"]),
    gpus=st.sampled_from([0, 2, 8]),
    phase=st.sampled_from(["Running", "Failed"]),
)
PROMISES = st.tuples(st.just("promise"), st.sampled_from("gh"), st.sets(st.sampled_from(["n0", "n1", "n9"])))
DROPS = st.tuples(st.sampled_from(["drop-node", "drop-pod"]), st.integers(0, 4), st.none())


@given(st.lists(NODES | PODS | PROMISES | DROPS, max_size=25), st.booleans())
@examples(150)
def test_updates_come_to_the_same_as_starting_anew(steps: list[tuple[str, Any, Any]], look: bool) -> None:
    """Whatever the order, and whether someone looked in between: a fleet made of the last objects is equal."""
    fleet = fleet_of()
    nodes: dict[str, Any] = {}
    pods: dict[str, Any] = {}
    promises: dict[str, Any] = {}
    for kind, name, value in steps:
        if kind == "node":
            fleet.put_node(value)
            nodes[name] = value
        elif kind == "pod":
            fleet.put_pod(value)
            pods[name] = value
        elif kind == "promise":
            fleet.promise(key(name), value)
            promises[name] = value
        elif kind == "drop-node":
            fleet.drop_node(f"n{name}")
            nodes.pop(f"n{name}", None)
        else:
            fleet.drop_pod(pod(f"p{name}").uid)
            pods.pop(f"p{name}", None)
        if look:
            fleet.view(ANYBODY, NOW, counted=COUNTED)
    anew = fleet_of(*nodes.values())
    for one in pods.values():
        anew.put_pod(one)
    for name, value in promises.items():
        anew.promise(key(name), value)
    views = [one.view(ANYBODY, NOW, counted=COUNTED) for one in (fleet, anew)]
    assert facts(views[0].cluster) == facts(views[1].cluster)
    assert views[0].left_out == views[1].left_out
    assert fleet.occupancy.idle.tolist() == anew.occupancy.idle.tolist()
    counts = [[count.tolist() for _, count in one.occupancy.idle_in_domain] for one in (fleet, anew)]
    assert counts[0] == counts[1]


def test_sizes_of_nodes_are_known_by_type() -> None:
    """Those that most nodes have come first; a node without GPUs has none."""
    kind = {MINIPOD: "mp0", RACK: "r0", "nvidia.com/gpu.product": "H100"}
    h100 = [node(f"h{i}", labels=kind) for i in range(3)]
    fleet = fleet_of(*minipods(2), *h100, node("small", gpus=4, labels=kind), node("cpu", gpus=0))
    assert fleet.table.node_sizes == (NodeSize("H100", 8), NodeSize("", 8), NodeSize("H100", 4))
    assert fleet_of().table.node_sizes == ()
