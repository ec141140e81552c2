"""The zone of a reservation: what the solver would choose on the empty cluster, chosen once."""

from __future__ import annotations

from extender.cluster_cache import ClusterCache
from extender.planner.solve import find_zone, zone_question
from extender.plans.reservation import Reservation, decode_reservation
from tests.extender.things import (
    LIMITS,
    MINIPOD,
    NOW,
    Json,
    gang_pods,
    minipods,
    node,
    plan_all,
    pod,
    reservation_json,
    reserve,
    state_of,
)
from tests.facts import says

GRID: Json = {"parallelism": "tp=8,pp=2,dp=4", "alpha": 0.7}


def announced(**spec: object) -> Reservation:
    """A reservation without a zone."""
    return decode_reservation(reservation_json(**spec))


def zone(state: ClusterCache, reservation: Reservation, *lost: str) -> Reservation:
    """The reservation with what the solver finds for it."""
    return find_zone(zone_question(state, reservation, lost, NOW), LIMITS)


def test_the_zone_is_the_placement_on_the_empty_cluster() -> None:
    """Whatever runs: stages of four in a minipod each, S = 1, R = 2, 0.7 + 0.3 x 2 = 1.3; on what is free none fits.

    The same gang on the same nodes, empty, is planned for the same objective.
    """
    busy = [pod(f"r{i}", node=f"m0-{i}", phase="Running") for i in range(3)]
    found = zone(state_of(minipods(4, 4), busy), announced(**GRID))
    assert (len(found.zone), found.spread, round(found.objective or 0, 9), found.gap) == (8, (1, 2), 1.3, 0.0)
    notes = {"arnold.dev/parallelism": "tp=8,pp=2,dp=4", "arnold.dev/alpha": "0.7"}
    plan = plan_all(state_of(minipods(4, 4), gang_pods("llm", 8, notes)))["llm"].plan
    assert (plan.spread, plan.objective) == (found.spread, found.objective)


def test_the_zone_is_in_the_order_of_ranks() -> None:
    """With S = 1 the first four ranks share a minipod: so a lost node is replaced in the right one."""
    found = zone(state_of(minipods(4, 4)), announced(**GRID))
    assert len({name.split("-")[0] for name in found.zone[:4]}) == 1


def test_zones_do_not_overlap() -> None:
    """What was reserved before is taken."""
    state = state_of(minipods(4, 4))
    reserve(state, "m0-0", "m0-1", name="first")
    found = zone(state, announced(nodes=6))
    assert not {"m0-0", "m0-1"} & set(found.zone)
    none = zone(state, announced(nodes=7))
    assert (none.zone, none.spread) == ((), None)
    assert says(none.message, "7 free nodes of 8 GPUs", "6 of 8")


def test_of_a_zone_only_what_is_lost_is_replaced() -> None:
    """The others may have been emptied with patience; the one that comes in is of the same minipod."""
    state = state_of(minipods(5, 5))
    before = zone(state, announced(**GRID))
    gone = before.zone[2]
    state.drop_node(gone)
    after = zone(state, before, gone)
    assert [rank for rank in range(8) if after.zone[rank] != before.zone[rank]] == [2]
    assert after.zone[2].split("-")[0] == gone.split("-")[0]
    assert after.spread == before.spread


def test_a_lost_node_for_which_there_is_no_other_is_no_zone() -> None:
    """With the reason."""
    state = state_of(minipods(4, 4))
    before = zone(state, announced(**GRID))
    state.drop_node(before.zone[0])
    after = zone(state, before, before.zone[0])
    assert (after.zone, "the job needs 8 free nodes" in after.message) == ((), True)


def test_only_nodes_that_the_pods_may_use_are_in_it() -> None:
    """By labels and taints, as the reservation says its pods will ask; broken nodes are never in it."""
    nodes = [
        *(node(f"a{i}", labels={MINIPOD: "mp0", "example.com/rack": "r", "pool": "a"}) for i in range(3)),
        *(node(f"b{i}", taints=[{"key": "x", "effect": "NoSchedule"}]) for i in range(3)),
        *(node(f"c{i}", ready="False") for i in range(3)),
        node("d"),
    ]
    state = state_of(nodes)
    assert set(zone(state, announced(nodes=3, nodeSelector={"pool": "a"})).zone) == {"a0", "a1", "a2"}
    tolerant = announced(nodes=7, tolerations=[{"key": "x", "operator": "Exists"}])
    assert set(zone(state, tolerant).zone) == {"a0", "a1", "a2", "b0", "b1", "b2", "d"}
    assert "2 of" not in zone(state, announced(nodes=5)).message
    assert zone(state, announced(nodes=5)).zone == ()


def test_what_cannot_be_asked_is_a_reason() -> None:
    """A level that the cluster has not; no node that may be used; no topology."""
    assert "no level 'cloud/rack'" in zone(state_of(minipods(2)), announced(nodes=1, level="cloud/rack")).message
    nowhere = zone(state_of(minipods(2)), announced(nodes=1, nodeSelector={"no": "where"}))
    assert says(nowhere.message, "no node with GPUs", "2 not selected by the pods")
    bare = ClusterCache(None)
    bare.put_node(node("n", labels={}))
    assert "no topology is known" in zone(bare, announced(nodes=1)).message
