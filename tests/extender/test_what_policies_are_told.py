"""The cluster in the numbers that queue policies understand."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from typing import Any

import numpy as np

from extender.cluster_cache import ClusterCache
from extender.objects import decode_pod
from extender.plans.gang_plan import GangPlan, PlanPhase
from extender.queue_views import FleetState, UsableRows, claimed, gang_for, reservation_for, running_jobs, waiting_gang
from scheduler.queue.arnold import Arnold
from scheduler.queue.dispatch import live_candidate
from tests.extender.things import (
    NOW,
    SPACE,
    gang_of,
    gang_pods,
    key,
    member_json,
    minipods,
    node,
    plan_all,
    pod,
    pod_json,
    reserve,
    state_of,
)
from topology.kubernetes.pods import Pod

LENGTH, STOP = "arnold.dev/expected-duration", "arnold.dev/preemptible"


def bound(document: dict[str, Any], at: str) -> Pod:
    """A pod that was bound at some time."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return decode_pod({**document, "status": {"phase": "Running", "conditions": [scheduled]}})


def running(state: ClusterCache) -> dict[str, Any]:
    """All that runs, by name."""
    return {one.key.name: one for one in running_jobs(state, state.fleet.table.index_of, NOW)}


def offers(state: ClusterCache, gang: str) -> list[list[int]]:
    """What a gang must leave free under Algorithm 1, in each attempt."""
    fleet = FleetState(state, NOW)
    candidate = live_candidate(Arnold(), waiting_gang(state, gang_of(state, gang)), fleet)
    return [[0] * len(fleet.total) if keep is None else keep.tolist() for keep in candidate.offers]


def test_a_gang_runs_from_its_first_binding_on() -> None:
    """Its end is that plus what it says; its places are those of its plan, and its priority the highest of its pods."""
    state = state_of(minipods(4), gang_pods("g", 2, {LENGTH: "1h"}, priority=3))
    plan = plan_all(state)["g"].plan
    for rank, at in enumerate(("2026-11-21T11:50:00Z", "2026-11-21T11:40:00Z")):
        more: Any = {"gate": False, "node": plan.nodes[rank], "priority": 3}
        state.put_pod(bound(member_json("g", rank, 2, {LENGTH: "1h"}, **more), at))
    (one,) = running(state).values()
    began = NOW - timedelta(minutes=20)
    assert (one.started, one.ends) == (began.timestamp(), began.timestamp() + 3_600)
    rows = state.fleet.table.index_of
    assert ([*one.places], one.gpus, one.priority) == ([rows[name] for name in plan.nodes], 8, 3)


def test_a_gang_that_is_planned_begins_now() -> None:
    """Its nodes are promised, so policies count it among those that run; without a word its end is unknown."""
    state = state_of(minipods(4), gang_pods("g", 2))
    plan_all(state)
    (one,) = running(state).values()
    assert (one.started, one.ends, one.preemptible) == (NOW.timestamp(), inf, False)


def test_single_pods_run_too() -> None:
    """With their GPUs, on their node; those of other schedulers are not ours to stop, those without GPUs are none."""
    notes = {LENGTH: "600", STOP: "true"}
    theirs = pod_json("theirs", node="m0-1", annotations=notes, phase="Running")
    theirs["spec"]["schedulerName"] = "default-scheduler"
    state = state_of(
        minipods(4),
        [
            bound(pod_json("ours", node="m0-0", gpus=2, annotations=notes), "2026-11-21T11:00:00Z"),
            decode_pod(theirs),
            pod("web", node="m0-2", gpus=0, phase="Running"),
            pod("done", node="m0-3", phase="Succeeded"),
        ],
    )
    found = running(state)
    assert found.keys() == {"pod/ours", "pod/theirs"}
    ours = found["pod/ours"]
    assert (ours.gpus, ours.preemptible, ours.ends - ours.started) == (2, True, 600)
    assert not found["pod/theirs"].preemptible


def test_what_policies_see_counts_gpus() -> None:
    """What pods hold and what is promised is not free; the nodes that a blocked gang could use are a mask.

    What another gang could use was not asked: all nodes, for all that is known.
    """
    single = pod("s", node="m0-1", gpus=3, phase="Running")
    state = state_of(minipods(4), [single])
    state.put_plan(GangPlan(key("g"), PlanPhase.PLANNED, nodes=("m0-0",), pods=(None,)))
    for one in [*gang_pods("h", 1), *gang_pods("i", 1)]:
        state.put_pod(one)
    before = state_of([*minipods(4), node("gone")])
    could = np.array([name in ("m0-2", "gone") for name in before.fleet.table.index_of])
    fleet = FleetState(state, NOW, {key("h"): UsableRows(before.fleet.table, could)})
    assert fleet.total.tolist() == [8, 8, 8, 8]
    assert fleet.free.tolist() == [0, 5, 8, 8]
    assert fleet.usable(waiting_gang(state, gang_of(state, "h"))).tolist() == [False, False, True, False]
    assert fleet.usable(waiting_gang(state, gang_of(state, "i"))).all()


def test_reservations_are_those_that_are_held() -> None:
    """In the order of their arrival; a node of the zone that is gone has no number."""
    state = state_of(minipods(4))
    reserve(state, "m0-3", "gone", name="late", hours=5)
    reserve(state, "m0-1", "m0-0", name="early", hours=3)
    state.put_reservation(reserve(state, "m0-2", name="old").replace(phase="Expired"))
    found = FleetState(state, NOW).reservations
    assert [(one.name, one.zone) for one in found] == [(f"{SPACE}/early", (1, 0)), (f"{SPACE}/late", (3,))]
    assert found[0].arrives == NOW.timestamp() + 3 * 3_600
    assert found[0].announced == NOW.timestamp()


def test_a_reservation_is_for_the_gang_it_names() -> None:
    """By its own name, by another that it gives, or by labels that all pods have."""
    state = state_of(minipods(4), [*gang_pods("llm", 1), *gang_pods("x", 2, labels={"team": "a"}), *gang_pods("y", 2)])
    own = reserve(state, "m0-0")
    named = reserve(state, "m0-1", name="named", gang="y")
    chosen = reserve(state, "m0-2", name="chosen", selector={"matchLabels": {"team": "a"}})
    for reservation, gang in ((own, "llm"), (named, "y"), (chosen, "x")):
        assert reservation_for(state, gang_of(state, gang)) == reservation
        assert gang_for(state, reservation) == gang_of(state, gang)
    for one in gang_pods("z", 1):
        state.put_pod(one)
    assert reservation_for(state, gang_of(state, "z")) is None


def test_nobody_comes_into_a_zone_any_more_when_its_gang_is_there() -> None:
    """A preemptible gang that was stopped would take the first nodes of the zone that come free, again and again."""
    state = state_of(minipods(4), [*gang_pods("spare", 1, {STOP: "true"}), *gang_pods("llm", 2)[:1]])
    reservation = reserve(state, "m0-0", "m0-1")
    assert not claimed(state, reservation)
    assert offers(state, "spare") == [[0, 0, 0, 0]]
    for one in gang_pods("llm", 2):
        state.put_pod(one)
    assert claimed(state, reservation)
    assert offers(state, "spare") == [[8, 8, 0, 0]]
    assert [one.claimed for one in FleetState(state, NOW).reservations] == [True]
    # It is early: so that nobody who would end by the announced time comes in, it arrives now.
    assert [one.arrives for one in FleetState(state, NOW).reservations] == [NOW.timestamp()]
