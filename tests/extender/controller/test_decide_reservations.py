"""Reservations: what becomes of them, decided from what is known and the time alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.controller.reservations import Next, decide_reservation
from extender.plans.gang_plan import GangPlan, PlanPhase
from extender.plans.reservation import Reservation, ReservationPhase, decode_reservation
from scheduler.queue.arnold import Arnold, NoReserve
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityAge
from tests.case_counts import examples
from tests.extender.things import NOW, gang_pods, key, minipods, node, pod, reservation_json, reserve, state_of
from tests.facts import says

LOST = timedelta(seconds=30)


def decided(
    state: ClusterCache, reservation: Reservation, *, minutes: float = 0, policy: QueuePolicy | None = None
) -> Next:
    """What becomes of a reservation some minutes from now."""
    now = NOW + timedelta(minutes=minutes)
    return decide_reservation(state, reservation, now, policy=policy or Arnold(), lost_after=LOST)


def status(found: Next, kind: str) -> str:
    """The status of one of its conditions."""
    return next(one.status for one in found.reservation.conditions if one.type == kind)


def test_a_new_reservation_wants_a_zone() -> None:
    """And is understood and heeded."""
    found = decided(state_of(minipods(4)), decode_reservation(reservation_json(nodes=2)))
    assert (found.wanted, found.lost, status(found, "Valid"), status(found, "Heeded")) == (True, (), "True", "True")


def test_others_in_the_zone_are_counted() -> None:
    """Pods that hold a GPU there, and gangs to whom a node of it is promised; its own gang's do not count."""
    state = state_of(minipods(4), [pod("s", gpus=1, node="m0-0", phase="Running")])
    state.put_plan(GangPlan(key("g"), PlanPhase.PLANNED, nodes=("m0-1",), pods=(None,)))
    reservation = reserve(state, "m0-0", "m0-1", "m0-2")
    found = decided(state, reservation).reservation
    assert (found.phase, found.held_by_others) == (ReservationPhase.HELD, 2)
    assert says(found.message, "2 of them")
    assert next(one for one in found.conditions if one.type == "Clear").status == "False"
    state.drop_plan(key("g"))
    state.drop_pod(next(iter(state.pods)))
    assert status(decided(state, found), "Clear") == "True"


def test_what_contradicts_itself_keeps_nothing() -> None:
    """Also when it did before."""
    state = state_of(minipods(4))
    wrong = decode_reservation(reservation_json(nodes=2, parallelism="tp=8,dp=3"))
    found = decided(state, wrong.replace(phase=ReservationPhase.HELD, zone=("m0-0", "m0-1")))
    assert (found.reservation.phase, found.reservation.zone, status(found, "Valid")) == ("Announced", (), "False")
    assert not found.wanted


@pytest.mark.parametrize("policy", [PriorityAge(), NoReserve()])
def test_a_policy_that_heeds_none_says_so(policy: QueuePolicy) -> None:
    """Nothing is kept, and the message says how it would be."""
    state = state_of(minipods(4))
    found = decided(state, reserve(state, "m0-0"), policy=policy)
    assert (found.reservation.zone, status(found, "Heeded")) == ((), "False")
    assert says(found.reservation.message, "--policy arnold")


def test_it_is_used_while_its_gang_has_nodes() -> None:
    """Planned is enough; what is given back again is held again; and when the gang has gone it is used still."""
    state = state_of(minipods(4), gang_pods("llm", 2))
    reservation = reserve(state, "m0-0", "m0-1")
    plan = GangPlan(key("llm"), PlanPhase.PLANNED, nodes=("m0-0", "m0-2"), pods=(None, None))
    state.put_plan(plan)
    used = decided(state, reservation).reservation
    assert used.phase == ReservationPhase.USED
    assert says(used.message, "team/llm", "1 of 2")
    assert decided(state, used).reservation == used
    state.put_plan(plan.replace(phase=PlanPhase.QUEUED, nodes=(), pods=()))
    assert decided(state, used).reservation.phase is ReservationPhase.HELD
    for uid in list(state.pods):
        state.drop_pod(uid)
    assert decided(state, used, minutes=600).reservation.phase is ReservationPhase.USED


def test_it_expires_when_its_gang_does_not_come() -> None:
    """An hour after the arrival where it says nothing else; with a later time it is held again."""
    state = state_of(minipods(4))
    reservation = reserve(state, "m0-0", "m0-1")
    assert decided(state, reservation, minutes=299).reservation.phase is ReservationPhase.HELD
    expired = decided(state, reservation, minutes=300).reservation
    assert (expired.phase, expired.zone, expired.spread) == (ReservationPhase.EXPIRED, (), (1, 1))
    later = decode_reservation(reservation_json(nodes=2, hours=9)).replace(phase=ReservationPhase.EXPIRED)
    assert decided(state, later, minutes=300).wanted


def test_lost_nodes_are_named() -> None:
    """Gone, cordoned, repelling, of another size, with a GPU less: at once; not Ready: after a while; in use: never."""
    state = state_of(
        [
            *minipods(2),
            node("cordoned", unschedulable=True),
            node("tainted", taints=[{"key": "x", "effect": "NoSchedule"}]),
            node("small", gpus=4),
            node("ill", allocatable=7),
            node("away", ready="Unknown", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]),
        ],
        [pod("s", node="m0-0", phase="Running")],
    )
    reservation = reserve(state, "m0-0", "m0-1", "gone", "cordoned", "tainted", "small", "ill", "away")
    # The node has not been Ready since 11:59:00.
    since = -1.0
    at_once = ("gone", "cordoned", "tainted", "small", "ill")
    assert decided(state, reservation, minutes=since + 0.4).lost == at_once
    assert decided(state, reservation, minutes=since + 0.5).lost == (*at_once, "away")


def test_another_size_wants_another_zone() -> None:
    """The spec was changed after the zone was found."""
    state = state_of(minipods(4))
    larger = decode_reservation(reservation_json(nodes=3)).replace(phase=ReservationPhase.HELD, zone=("m0-0", "m0-1"))
    assert decided(state, larger).wanted


PHASES = st.sampled_from(list(ReservationPhase))


@given(
    PHASES,
    st.booleans(),
    st.sampled_from([None, *PlanPhase]),
    st.integers(-10, 700),
    st.sampled_from([Arnold(), PriorityAge()]),
)
@examples(80)
def test_what_is_decided_stays_decided(
    phase: ReservationPhase, zoned: bool, planned: PlanPhase | None, minutes: int, policy: Any
) -> None:
    """Whatever was before: deciding again changes nothing, and nodes are kept exactly while it is held."""
    state = state_of(minipods(4), [] if planned is None else gang_pods("llm", 2))
    zone = ("m0-0", "m0-1") if zoned else ()
    before = decode_reservation(reservation_json(nodes=2)).replace(phase=phase, zone=zone)
    state.put_reservation(before)
    if planned is not None:
        state.put_plan(GangPlan(key("llm"), planned, nodes=("m0-2", "m0-3"), pods=(None, None)))
    first = decided(state, before, minutes=minutes, policy=policy)
    if first.wanted:
        return
    state.put_reservation(first.reservation)
    again = decided(state, first.reservation, minutes=minutes, policy=policy)
    assert (again.reservation, again.wanted) == (first.reservation, False)
    assert first.reservation.held is (first.reservation.phase is ReservationPhase.HELD)
    expected = policy.reserving and minutes < 300
    assert not first.reservation.held or expected
