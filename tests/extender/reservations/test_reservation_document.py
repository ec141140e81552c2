"""CapacityReservations read and written."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from extender.fleet import Demand
from extender.gangs import GangKey
from extender.objects import Taint
from extender.reservations import ReservationPhase, decode_reservation, encode_status
from tests.extender.things import NOW, SPACE, Json, reservation_json
from topology.errors import InvalidInput


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
    written = encode_status(made)
    assert written["status"]["summary"] == {"spread": "1/2", "clear": "3/4"}
    asked = reservation_json(parallelism="tp=8,pp=2,dp=2", alpha=0.3)
    assert written["metadata"].items() <= asked["metadata"].items()
    assert decode_reservation({**asked, "status": written["status"]}) == made


def test_the_job_is_read_as_a_gangs_annotations_are() -> None:
    """Degrees, weights, level and what to do about slow nodes; without degrees, one data-parallel group."""
    spec = {"parallelism": "tp=8,pp=2,dp=3", "alpha": 0.3, "level": "example.com/rack", "avoid": "strict"}
    job = decode_reservation(reservation_json(**spec)).understanding.job
    assert job is not None
    assert (job.grid.rows, job.grid.columns, job.alpha, job.level, job.avoid) == (
        3,
        2,
        0.3,
        "example.com/rack",
        "strict",
    )
    plain = decode_reservation(reservation_json(nodes=5, gpusPerNode=4)).understanding.job
    assert plain is not None
    assert (plain.grid.rows, plain.grid.columns, plain.gpus_per_node) == (5, 1, 4)


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({}, "NoSize", "give spec.nodes or spec.parallelism"),
        ({"parallelism": "8 by 8"}, "InvalidParallelism", "spec.parallelism"),
        ({"parallelism": "tp=8,dp=3", "nodes": 4}, "SizeContradictsParallelism", "set spec.nodes to 3"),
        ({"nodes": 2, "expires": "2026-11-21T12:00:00Z"}, "NeverHeld", "set spec.expires after spec.arrives"),
    ],
)
def test_what_contradicts_itself_is_a_reason(spec: Json, reason: str, words: str) -> None:
    """In the words of the spec; nothing raises."""
    job, problem = decode_reservation(reservation_json(**spec)).understanding
    assert job is None
    assert problem is not None
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


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"metadata": {}, "spec": {"nodes": "many"}}', b'{"spec": {}}'])
def test_what_is_none_is_refused(raw: bytes) -> None:
    """The reflector leaves it out and says so."""
    with pytest.raises(InvalidInput, match="CapacityReservation cannot be read"):
        decode_reservation(raw)
