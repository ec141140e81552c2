"""CapacityReservations read and written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.fleet.hosts import Demand
from extender.gangs.types import GangKey, InvalidGang
from extender.plans.reservation import ReservationPhase, decode_reservation, encode_reservation
from ground.errors import InvalidInput
from scheduler.job import Hold, Job
from tests.case_counts import examples
from tests.extender.things import NOW, SPACE, Json, reservation_json
from topology.kubernetes.objects import START_OF_TIME
from topology.taints import Taint


def test_what_is_written_is_read_again() -> None:
    """The whole status comes back: nothing else remembers it."""
    made = decode_reservation(json.dumps(reservation_json(parallelism="tp=8,pp=2,dp=2", alpha=0.3)).encode())
    made = made.replace(
        phase=ReservationPhase.HELD,
        zone=("b", "a", "d", "c"),
        spread=(1, 2),
        objective=1.7,
        bound=1.5,
        gap=0.1,
        held_by_others=1,
        reason="Held",
        message="4 nodes",
    ).with_condition("Clear", False, "HeldByOthers", "1 of 4", NOW)
    written = encode_reservation(made)
    assert written["status"]["summary"] == {"spread": "1/2", "clear": "3/4"}
    asked = reservation_json(parallelism="tp=8,pp=2,dp=2", alpha=0.3)
    assert written["metadata"].items() <= asked["metadata"].items()
    assert decode_reservation({**asked, "status": written["status"]}) == made


def test_the_job_is_read_as_a_gangs_annotations_are() -> None:
    """Degrees, weights, level and what to do about slow nodes; without degrees, one data-parallel group."""
    spec = {"parallelism": "tp=8,pp=2,dp=3", "alpha": 0.3, "level": "example.com/rack", "avoid": "strict"}
    job = decode_reservation(reservation_json(**spec)).understanding
    assert isinstance(job, Job)
    assert (job.grid.rows, job.grid.columns, job.alpha, job.level, job.avoid) == (
        3,
        2,
        0.3,
        "example.com/rack",
        "strict",
    )
    spec = {"parallelism": "tp=8,pp=2,dp=3", "order": "tp-pp-cp-ep-dp", "model": "24B dense on H800"}
    spec |= {"microbatches": 32, "constraints": "[{family: dp, within: example.com/rack}]"}
    job = decode_reservation(reservation_json(**spec)).understanding
    assert isinstance(job, Job)
    assert (job.parallelism.order, job.alpha, job.microbatches) == ("tp-pp-cp-ep-dp", 0.0, 32)
    assert job.holds == (Hold("dp", "example.com/rack"),)
    wrong = decode_reservation(reservation_json(nodes=5, order="tp-dp")).understanding
    assert (isinstance(wrong, InvalidGang), getattr(wrong, "where", "")) == (True, "spec.order")
    plain = decode_reservation(reservation_json(nodes=5, gpusPerNode=4)).understanding
    assert isinstance(plain, Job)
    assert (plain.grid.rows, plain.grid.columns, plain.gpus_per_node) == (5, 1, 4)


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({}, "NoSize", "give spec.nodes or spec.parallelism"),
        ({"parallelism": "8 by 8"}, "InvalidParallelism", "spec.parallelism"),
        ({"parallelism": "tp=8,dp=3", "nodes": 4}, "SizeContradictsParallelism", "set spec.nodes to 3"),
        # pods that share a node of 8 could have it; a reservation says the nodes themselves
        (
            {"parallelism": "tp=4,cp=2,dp=2", "order": "cp-tp-ep-dp-pp", "gpusPerNode": 4},
            "InvalidParallelism",
            "4 GPUs",
        ),
        ({"nodes": 2, "expires": "2026-11-21T12:00:00Z"}, "NeverHeld", "set spec.expires after spec.arrives"),
    ],
)
def test_what_contradicts_itself_is_a_reason(spec: Json, reason: str, words: str) -> None:
    """In the words of the spec; nothing raises."""
    problem = decode_reservation(reservation_json(**spec)).understanding
    assert isinstance(problem, InvalidGang)
    assert problem.reason == reason
    assert words in str(problem)


def test_what_is_not_said() -> None:
    """It expires an hour after the arrival, is for the gang of its name, and tolerates the taint of GPU nodes."""
    made = decode_reservation(reservation_json(nodes=2))
    assert made.expires == NOW + timedelta(hours=5)
    assert made.gang == GangKey(SPACE, "llm")
    assert made.demand.tolerates(Taint("nvidia.com/gpu", None, "NoSchedule"))
    assert not made.demand.tolerates(Taint("other", None, "NoSchedule"))
    more = decode_reservation(
        reservation_json(nodes=2, nodeSelector={"pool": "a"}, tolerations=[{"key": "other", "operator": "Exists"}])
    )
    assert isinstance(more.demand, Demand)
    assert more.demand.tolerates(Taint("other", None, "NoSchedule"))
    assert (more.demand.accepts("n", {"pool": "a"}), more.demand.accepts("n", {})) == (True, False)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"metadata": {}, "spec": {"nodes": "many"}}',
        b'{"spec": {}}',
        b'{"metadata": {}, "spec": {"gpusPerNode": 0}}',
    ],
)
def test_what_is_none_is_refused(raw: bytes) -> None:
    """The reflector leaves it out and says so."""
    with pytest.raises(InvalidInput, match="CapacityReservation cannot be read"):
        decode_reservation(raw)


STATUSES = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(ReservationPhase),
        "zone": st.lists(st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True), unique=True, max_size=5).map(tuple),
        "spread": st.none() | st.tuples(st.integers(1, 99), st.integers(1, 99)),
        "objective": st.none() | st.floats(0, 1000),
        "bound": st.none() | st.floats(0, 1000),
        "gap": st.none() | st.floats(0, 1),
        "held_by_others": st.none() | st.integers(0, 5),
        "reason": st.sampled_from(["", "Held", "NoZone"]),
        "message": st.text(max_size=20),
    }
)


@given(STATUSES)
@examples(100)
def test_any_status_survives_its_document(status: dict[str, Any]) -> None:
    """Whatever was decided: written as JSON beside the user's spec and read again, it is the same reservation."""
    asked = reservation_json(nodes=2, selector={"matchLabels": {"team": "a"}})
    made = decode_reservation(asked).replace(**status)
    stored = json.dumps({**asked, "status": encode_reservation(made)["status"]})
    assert decode_reservation(stored.encode()) == made
    assert decode_reservation(json.loads(stored)) == made


def test_the_spec_is_the_users() -> None:
    """What is written names object and version, so that a later edit of the spec is not overwritten; no spec."""
    written = encode_reservation(decode_reservation(reservation_json(nodes=2)))
    assert written.keys() == {"apiVersion", "kind", "metadata", "status"}
    assert (written["apiVersion"], written["kind"]) == ("arnold.dev/v1alpha1", "CapacityReservation")
    assert written["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion"}
    assert written["status"] == {"phase": "Announced", "conditions": [], "summary": {}}


def test_what_kubectl_shows() -> None:
    """Spread as S/R, and how many nodes of the zone nobody else has; nothing where nothing is known."""
    made = decode_reservation(reservation_json(nodes=3)).replace(zone=("a", "b", "c"), spread=(2, 1))
    assert encode_reservation(made)["status"]["summary"] == {"spread": "2/1"}
    assert encode_reservation(made.replace(held_by_others=0))["status"]["summary"] == {"spread": "2/1", "clear": "3/3"}


@pytest.mark.parametrize(
    ("spec", "gang", "labels"),
    [
        ({}, GangKey(SPACE, "llm"), {}),
        ({"gang": "other"}, GangKey(SPACE, "other"), {}),
        ({"selector": {"matchLabels": {"team": "a"}}}, None, {"team": "a"}),
        # a name says more than labels do
        ({"gang": "other", "selector": {"matchLabels": {"team": "a"}}}, GangKey(SPACE, "other"), {"team": "a"}),
    ],
)
def test_which_gang_it_is_for(spec: Json, gang: GangKey | None, labels: dict[str, str]) -> None:
    """The one that it names, or those with its labels, or the one of its own name."""
    made = decode_reservation(reservation_json(nodes=2, **spec))
    assert (made.gang, made.ask.labels) == (gang, labels)


def test_times_of_any_zone_are_one_instant() -> None:
    """Users write their own time zone; one hour of patience is counted from the instant."""
    made = decode_reservation(
        reservation_json(nodes=2) | {"spec": {"nodes": 2, "arrives": "2026-12-01T22:00:00+01:00"}}
    )
    assert made.ask.arrives == datetime(2026, 12, 1, 21, tzinfo=UTC)
    assert made.expires == datetime(2026, 12, 1, 22, tzinfo=UTC)
    assert made.announced == NOW


def test_an_arrival_at_the_end_of_all_times() -> None:
    """It expires with the year 9999, as no instant is later, and where it comes after that, it says so."""
    last = decode_reservation(reservation_json(arrives="9999-12-31T23:30:00Z", nodes=2))
    assert isinstance(last.understanding, Job)
    assert last.expires.year == 9999
    beyond = decode_reservation(reservation_json(arrives="9999-12-31T23:30:00-08:00", nodes=2)).understanding
    assert isinstance(beyond, InvalidGang)
    assert beyond.reason == "NeverHeld"


@pytest.mark.parametrize("phase", list(ReservationPhase))
def test_a_zone_is_kept_in_one_phase_only(phase: ReservationPhase) -> None:
    """Held, and only where there is a zone."""
    made = decode_reservation(reservation_json(nodes=2)).replace(phase=phase)
    assert not made.held
    assert made.replace(zone=("a",)).held is (phase is ReservationPhase.HELD)


def test_fields_of_later_versions_are_passed_over() -> None:
    """An older replica reads what a newer one wrote."""
    newer = reservation_json(nodes=2, later=[1], status={"phase": "Held", "zone": ["a"], "later": {"x": 1}})
    assert decode_reservation(newer).zone == ("a",)


def test_conditions_change_their_time_only_with_their_status() -> None:
    """Another reason for the same status is no transition; times are whole seconds, as metav1.Time has them."""
    later = NOW + timedelta(minutes=1, microseconds=5)
    made = decode_reservation(reservation_json(nodes=2)).with_condition("Clear", False, "HeldByOthers", "2", NOW)
    again = made.with_condition("Clear", False, "HeldByOthers", "1", later)
    assert [(one.message, one.since) for one in again.conditions] == [("1", NOW)]
    clear = again.with_condition("Clear", True, "Clear", "", later)
    assert [(one.status, one.since) for one in clear.conditions] == [("True", NOW + timedelta(minutes=1))]


def test_one_of_which_it_is_not_known_when_it_was_made() -> None:
    """It is older than all others, and can be written as any other."""
    bare = decode_reservation({"metadata": {"name": "llm"}, "spec": {"nodes": 2}})
    assert (bare.announced, bare.key.namespace) == (START_OF_TIME, "default")
    assert encode_reservation(bare)["status"] == {"phase": "Announced", "conditions": [], "summary": {}}
