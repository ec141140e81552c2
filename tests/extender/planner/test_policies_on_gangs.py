"""The shared queue policies over gangs: who passes whom, and who may use a zone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.objects import decode_pod
from extender.planner.question import repair_question
from extender.planner.round import PlanningRound
from extender.planner.solve import answer_to
from extender.plans.gang_history import EndedRun, GangHistory
from extender.plans.gang_plan import PlanPhase
from scheduler.queue.arnold import Arnold, NoJct, NoReserve
from scheduler.queue.fifo_and_backfill import Fifo, FifoBackfill, ShortestFirst
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityPreempt
from tests.case_counts import examples
from tests.extender.things import (
    LIMITS,
    NOW,
    SPACE,
    Json,
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
    uid,
)
from tests.facts import says

LENGTH, STOP = "arnold.dev/expected-duration", "arnold.dev/preemptible"


def queue_of(*gangs: tuple[str, int, Json], nodes: int, running: Any = ()) -> ClusterCache:
    """Gangs of some sizes, each a minute younger than the one before, on one minipod."""
    pods = [
        one
        for i, (name, size, notes) in enumerate(gangs)
        for one in gang_pods(name, size, notes, created=f"2026-11-21T11:{i:02d}:00Z")
    ]
    return state_of(minipods(nodes), [*running, *pods])


def found(state: ClusterCache, policy: QueuePolicy) -> dict[str, bool]:
    """Which gangs get nodes, in the order in which they are asked."""
    return {name: answer.placed for name, answer in plan_all(state, policy=policy).items()}


def running_pod(name: str, on: str, seconds: int | None = None) -> Any:
    """A single pod that has run since 11:00, with what it says about its length."""
    return pod(name, node=on, phase="Running", annotations={} if seconds is None else {LENGTH: str(seconds)})


def test_strict_fifo_lets_nobody_pass() -> None:
    """Not even on nodes of another size, which the first could not use."""
    state = queue_of(("big", 4, {}), ("small", 1, {}), nodes=3)
    for i in range(5):
        state.put_node(node(f"n{i}", "mp1", "mp1r0"))
    state.put_node(node("half", "mp1", "mp1r0", gpus=4))
    for one in gang_pods("other", 1, gpus=4, created="2026-11-21T11:30:00Z"):
        state.put_pod(one)
    for one in gang_pods("huge", 8, created="2026-11-21T10:00:00Z"):
        state.put_pod(one)
    state.put_pod(pod("r", node="m0-0", phase="Running"))
    assert found(state, Fifo()) == {"huge": False, "big": False, "small": False, "other": False}
    told = state.plans[key("other")].message
    assert says(told, "team/huge", "To fix:", "wait")


@pytest.mark.parametrize(("seconds", "passes"), [("1700", True), ("1900", False), (None, False)])
def test_backfilling_knows_when_pods_end(seconds: str | None, passes: bool) -> None:
    """The first needs all three nodes, the last of which is given back at 12:30; who is gone by then may pass.

    The pod has run since 11:00 and says 5,400 s, so 1,800 s are left at 12:00.
    """
    small: Json = {} if seconds is None else {LENGTH: seconds}
    state = queue_of(("big", 3, {}), ("small", 1, small), nodes=3, running=[running_pod("r", "m0-0", 5_400)])
    assert found(state, FifoBackfill()) == {"big": False, "small": passes}


def test_backfilling_takes_what_the_first_leaves() -> None:
    """Two of four nodes are enough for the first, which gets one of them at 12:30: one is left for whoever comes."""
    running = [running_pod("a", "m0-0", 5_400), running_pod("b", "m0-1", 5_400)]
    state = queue_of(("big", 3, {}), ("small", 1, {}), nodes=4, running=running)
    assert found(state, FifoBackfill()) == {"big": False, "small": True}


def test_the_shortest_is_asked_first() -> None:
    """Those that say nothing come last; nobody passes."""
    state = queue_of(("unknown", 1, {}), ("long", 2, {LENGTH: "2h"}), ("short", 1, {LENGTH: "1h"}), nodes=2)
    assert list(plan_all(state, policy=ShortestFirst())) == ["short", "long", "unknown"]
    assert [name for name in ("short", "long", "unknown") if state.plans[key(name)].holding] == ["short"]


def ended(*runs: tuple[str, float]) -> GangHistory:
    """Five gangs of one node each that ended, of each pattern and length in seconds."""
    history = GangHistory(namespace=SPACE)
    for name, seconds in runs:
        for i in range(5):
            history = history.learnt(EndedRun(key(f"{name}-{i}"), uid(f"{name} {i}"), 8, seconds))
    return history


def test_what_ended_gangs_tell_stands_for_what_gangs_do_not_say() -> None:
    """The shortest first, by the word of one and by the past of two."""
    state = queue_of(("eval-9", 1, {}), ("llm-9", 1, {}), ("said", 1, {LENGTH: "1h"}), nodes=1)
    state.put_history(ended(("llm", 7_200.0), ("eval", 600.0)))
    assert list(plan_all(state, policy=ShortestFirst())) == ["eval-9", "said", "llm-9"]


@pytest.mark.parametrize(("seconds", "passes"), [(1_700.0, True), (1_900.0, False)])
def test_backfilling_takes_the_past_for_the_future(seconds: float, passes: bool) -> None:
    """As above, but the small gang says nothing, and its like ran so long."""
    state = queue_of(("big", 3, {}), ("small", 1, {}), nodes=3, running=[running_pod("r", "m0-0", 5_400)])
    state.put_history(ended(("small", seconds)))
    assert found(state, FifoBackfill()) == {"big": False, "small": passes}


# Zones


@pytest.mark.parametrize(
    ("runs", "enters"),
    [
        ([10_000.0] * 5, True),
        # The same mean of 10,000 s; the upper end of the band is beyond the four hours, 14,400 s.
        ([4_000.0, 6_000.0, 10_000.0, 14_000.0, 16_000.0], False),
        ([20_000.0] * 5, False),
    ],
)
def test_the_upper_end_of_the_band_decides_who_enters_a_zone(runs: list[float], enters: bool) -> None:
    """As in a replay: its like must nearly all end before the large gang comes."""
    state = queue_of(("llm-9", 3, {}), nodes=6)
    history = GangHistory(namespace=SPACE)
    for i, seconds in enumerate(runs):
        history = history.learnt(EndedRun(key(f"llm-{i}"), uid(f"llm {i}"), 24, seconds))
    state.put_history(history)
    reserve(state, "m0-0", "m0-1", "m0-2", "m0-3")
    assert found(state, Arnold()) == {"llm-9": enters}
    estimate = state.plans[key("llm-9")].estimate
    assert estimate is not None
    assert (estimate.seconds, estimate.high <= 4 * 3_600) == (pytest.approx(sum(runs) / 5), enters)


@pytest.mark.parametrize(
    ("notes", "policy", "enters"),
    [
        ({}, Arnold(), False),
        ({LENGTH: "36h"}, Arnold(), False),
        ({LENGTH: "3h59m"}, Arnold(), True),
        ({STOP: "true"}, Arnold(), True),
        ({LENGTH: "3h59m"}, NoJct(), False),
        ({STOP: "true"}, NoJct(), True),
        ({}, NoReserve(), True),
    ],
)
def test_who_may_enter_a_zone(notes: Json, policy: QueuePolicy, enters: bool) -> None:
    """The large gang comes in four hours; the two nodes outside its zone are too few for three pods."""
    state = queue_of(("g", 3, notes), nodes=6)
    reserve(state, "m0-0", "m0-1", "m0-2", "m0-3")
    assert found(state, policy) == {"g": enters}


def test_nodes_outside_a_zone_come_first() -> None:
    """Whoever may enter does so only where it has to."""
    state = queue_of(("g", 2, {LENGTH: "1h"}), nodes=6)
    reserve(state, "m0-0", "m0-1", "m0-2", "m0-3")
    plan_all(state, policy=Arnold())
    assert set(state.plans[key("g")].nodes) == {"m0-4", "m0-5"}


def test_who_is_kept_out_is_told_why() -> None:
    """For whom, when that comes, and what would let it in."""
    state = queue_of(("g", 3, {LENGTH: "36h"}), nodes=6)
    reserve(state, "m0-0", "m0-1", "m0-2", "m0-3")
    plan = plan_all(state, policy=Arnold())["g"].plan
    assert (plan.phase, plan.reason) == (PlanPhase.QUEUED, "Reserved")
    assert says(plan.message, f"{SPACE}/llm", "2026-11-21T16:00:00Z", "To fix:", "wait", LENGTH, STOP)


def test_the_gang_that_was_announced_lands_on_its_zone() -> None:
    """However early it comes, and although other nodes are as good."""
    state = queue_of(("llm", 3, {}), nodes=8)
    reserve(state, "m0-7", "m0-2", "m0-4")
    plan_all(state, policy=Arnold())
    assert set(state.plans[key("llm")].nodes) == {"m0-2", "m0-4", "m0-7"}


ASKS = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from([None, "2h", "4h", "4h1s", "x"]), st.booleans(), st.integers(0, 2)),
    min_size=1,
    max_size=5,
)


@given(ASKS, st.sets(st.integers(0, 9), min_size=1, max_size=6), st.sets(st.integers(0, 9), max_size=4), st.booleans())
@examples(40)
def test_nobody_is_in_a_zone_who_may_not_be(asks: list[Any], zone: set[int], busy: set[int], here: bool) -> None:
    """Whatever waits and runs: inside are those that end within the four hours, preemptible ones, and its own gang.

    Once that is there, whole, nobody else comes in before it has its nodes; here it has the highest priority.
    """
    running = [running_pod(f"r{i}", f"m0-{i}") for i in sorted(busy)]
    state = state_of(minipods(10), running)
    reserve(state, *(f"m0-{i}" for i in sorted(zone)))
    if here:
        for one in gang_pods("llm", len(zone), priority=9):
            state.put_pod(one)
    for i, (size, length, stop, priority) in enumerate(asks):
        notes = ({} if length is None else {LENGTH: length}) | ({STOP: "true"} if stop else {})
        for one in gang_pods(f"g{i}", size, notes, priority=priority, created=f"2026-11-21T11:{i:02d}:00Z"):
            state.put_pod(one)
    plan_all(state, policy=Arnold())
    inside = {f"m0-{i}" for i in zone}
    for i, (_, length, stop, _) in enumerate(asks):
        if inside & set(state.plans[key(f"g{i}")].nodes):
            assert stop or length in ("2h", "4h")
            assert not here or state.plans[key("llm")].holding
    if here and not zone & busy:
        assert set(state.plans[key("llm")].nodes) == inside


def test_a_repair_takes_no_node_of_a_zone() -> None:
    """A gang that runs and loses a node is subject to the same rule as one that waits."""
    state = state_of(minipods(5), gang_pods("g", 2))
    plan_all(state)
    plan = state.plans[key("g")].replace(phase=PlanPhase.BOUND)
    state.put_plan(plan)
    for rank, name in enumerate(plan.nodes):
        state.put_pod(decode_pod(member_json("g", rank, 2, gate=False, node=name, phase="Running")))
    spares = sorted({f"m0-{i}" for i in range(5)} - set(plan.nodes))
    reserve(state, *spares[:2])
    state.drop_node(plan.nodes[1])
    lost = [plan.nodes[1]]
    mended = answer_to(repair_question(state, plan, lost, NOW, Arnold()), LIMITS)
    assert (mended.placed, mended.plan.nodes[1]) == (True, spares[2])
    state.put_pod(pod("s", node=spares[2], phase="Running"))
    assert not answer_to(repair_question(state, plan, lost, NOW, Arnold()), LIMITS).placed


# Who is stopped


def occupied(**notes: str) -> ClusterCache:
    """A zone of four nodes, on two of which a gang is, and on one a single pod; the announced gang is there."""
    state = state_of(minipods(6), gang_pods("spare", 2, {STOP: "true"}))
    plan_all(state)
    plan = state.plans[key("spare")].replace(phase=PlanPhase.BOUND)
    state.put_plan(plan)
    for rank, name in enumerate(plan.nodes):
        more: Json = {"gate": False, "node": name, "phase": "Running"}
        state.put_pod(decode_pod(member_json("spare", rank, 2, {STOP: "true"}, **more)))
    others = sorted({f"m0-{i}" for i in range(6)} - set(plan.nodes))
    state.put_pod(decode_pod(pod_json("single", gpus=1, node=others[0], phase="Running", annotations=notes)))
    reserve(state, *plan.nodes, *others[:2])
    for one in gang_pods("llm", 4):
        state.put_pod(one)
    state.put_pod(pod("elsewhere", node=others[3], phase="Running"))
    return state


def asked_to_stop(state: ClusterCache, policy: QueuePolicy) -> Any:
    """The question about the announced gang and those that would be stopped for it; none when nothing would be."""
    round_ = PlanningRound([key("llm")], policy)
    question = round_.next(state, NOW)
    assert question is not None
    answer = answer_to(question, LIMITS)
    round_.tell(answer)
    assert not answer.placed
    return round_.next(state, NOW)


def test_those_that_may_be_stopped_are_when_only_they_are_left() -> None:
    """The whole gang and the single pod; on the cluster without them the announced gang lands on its zone."""
    state = occupied(**{STOP: "true"})
    question = asked_to_stop(state, Arnold())
    assert (question.stopping.gangs, [one.name for one in question.stopping.pods]) == ((key("spare"),), ["single"])
    answer = answer_to(question, LIMITS)
    (reservation,) = state.reservations.values()
    assert set(answer.plan.nodes) == set(reservation.zone)


def test_a_zone_that_is_being_emptied_is_waited_for() -> None:
    """The first pod of the stopped gang has gone, and with the nodes outside there would be room: it goes nowhere else.

    Where somebody is in the zone who does not go away for it, it goes where there is room.
    """
    state = occupied(**{STOP: "true"})
    state.drop_pod(next(one.uid for one in state.pods.values() if one.name == "elsewhere"))
    state.drop_pod(next(one.uid for one in state.pods.values() if one.name == "spare-0"))
    state.put_plan(state.plans[key("spare")].replace(phase=PlanPhase.QUEUED, nodes=(), pods=()))
    plan = plan_all(state, policy=Arnold())["llm"].plan
    assert (plan.phase, plan.reason) == (PlanPhase.QUEUED, "ZoneNotClear")
    assert says(plan.message, "reserved zone")
    state = occupied()
    state.drop_pod(next(one.uid for one in state.pods.values() if one.name == "elsewhere"))
    state.drop_pod(next(one.uid for one in state.pods.values() if one.name == "spare-0"))
    state.put_plan(state.plans[key("spare")].replace(phase=PlanPhase.QUEUED, nodes=(), pods=()))
    assert plan_all(state, policy=Arnold())["llm"].placed


def test_nobody_is_stopped_while_others_are_there() -> None:
    """The single pod does not say that it may be: stopping the gang would not help yet."""
    assert asked_to_stop(occupied(), Arnold()) is None


def test_who_leaves_is_not_stopped_again() -> None:
    """The pods are being deleted: there is nothing left to do but wait."""
    state = occupied(**{STOP: "true"})
    state.put_plan(state.plans[key("spare")].replace(phase=PlanPhase.QUEUED, nodes=(), pods=()))
    for one in list(state.pods.values()):
        if one.name.startswith(("spare", "single")):
            more: Json = {"node": one.node, "leaving": True, "phase": "Running", "annotations": {STOP: "true"}}
            leaving = pod_json(one.name, **more)
            leaving["metadata"]["labels"] = one.labels
            state.put_pod(decode_pod(leaving))
    assert asked_to_stop(state, Arnold()) is None


def test_a_policy_that_stops_by_priority_names_whole_gangs() -> None:
    """The same door serves any policy that stops: lower priority first, never an equal."""
    state = occupied()
    for one in gang_pods("llm", 4, priority=5):
        state.put_pod(one)
    stopping = asked_to_stop(state, PriorityPreempt()).stopping
    assert (stopping.gangs, stopping.pods) == ((key("spare"),), ())
    held = state.plans[key("spare")].nodes
    assert stopping.holding(held[-1:]) == stopping
    assert not stopping.holding([name for name in (f"m0-{i}" for i in range(6)) if name not in held]).gangs
