"""Room for a large gang that was announced: who may be there until it comes, and that it lands there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import judged, plan_in
from tests.e2e.harness.pods import bound, gang, gated, indexed_job, pod
from tests.e2e.harness.waiting import stays, wait_until
from tests.facts import says
from topology.generate import generate

ARNOLD = "--policy=arnold"


def reservation(name: str, namespace: str, **spec: Any) -> Object:
    """Twelve nodes for the gang of the same name, in two hours."""
    arrives = datetime.now(UTC) + timedelta(hours=2)
    about = {"parallelism": "tp=8,pp=2,dp=6", "arrives": arrives.isoformat(timespec="seconds").replace("+00:00", "Z")}
    return {
        "apiVersion": "arnold.dev/v1alpha1",
        "kind": "CapacityReservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**about, **spec},
    }


def status(plane: ControlPlane, name: str, namespace: str) -> dict[str, Any]:
    """What the controller says about a reservation."""
    found: dict[str, Any] = plane.admin.get("capacityreservations", name, namespace).get("status", {})
    return found


def in_phase(plane: ControlPlane, name: str, namespace: str, phase: str) -> dict[str, Any] | None:
    """The status of a reservation, if it is in a phase."""
    found = status(plane, name, namespace)
    return found if found.get("phase") == phase else None


def on_nodes(plane: ControlPlane, namespace: str, name: str) -> set[str]:
    """The nodes of a gang's pods."""
    return {node for one, node in bound(plane.admin, namespace).items() if one.startswith(f"{name}-")}


def submit(plane: ControlPlane, namespace: str, name: str, size: int, **annotations: str) -> None:
    """A gang with annotations, without their prefix and with underscores."""
    notes = {f"arnold.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    plane.admin.create_all(gang(name, namespace, size=size, annotations=notes))


def test_a_zone_is_emptied_for_the_gang_that_was_announced(arnold_plane: ControlPlane, namespace: str) -> None:
    """Short and preemptible gangs may use the zone, long ones and single pods may not; the large gang lands on it.

    24 nodes in two minipods; the zone of 12 is one of them, as the gang then has spread 1/1.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=24)
    make_real(plane.admin, cluster)
    minipod = {row.name: row.path[0] for row in cluster}
    with running(plane, levels=level_labels(cluster), options=[ARNOLD]) as arnold, guarded(plane):
        plane.admin.create(reservation("llm", namespace))
        held = wait_until(lambda: in_phase(plane, "llm", namespace, "Held"), "a zone")
        zone = set(held["zone"])
        assert (len(zone), len({minipod[name] for name in zone})) == (12, 1)
        assert (held["spread"], held["objective"], held["gap"]) == ({"dp": 1, "pp": 1}, 1.0, 0.0)
        assert held["heldByOthers"] == 0

        # Ten of the twelve other nodes: what comes next does not fit outside the zone.
        submit(plane, namespace, "filler", 10)
        wait_until(lambda: len(on_nodes(plane, namespace, "filler")) == 10, "the filler on nodes")
        assert not on_nodes(plane, namespace, "filler") & zone

        submit(plane, namespace, "short", 4, expected_duration="30m")
        wait_until(lambda: len(on_nodes(plane, namespace, "short")) == 4, "the short gang on nodes")
        inside = on_nodes(plane, namespace, "short") & zone
        assert inside
        wait_until(
            lambda: status(plane, "llm", namespace).get("heldByOthers") == len(inside), "the short gang to be counted"
        )

        submit(plane, namespace, "long", 4, expected_duration="36h")
        plan = wait_until(lambda: judged(plane.admin, "long", namespace), "the long gang to be told")
        assert f"reserved for {namespace}/llm" in plan.message
        stays(lambda: not on_nodes(plane, namespace, "long"), "the long gang waits")

        spare = indexed_job("spare", namespace, size=4, parallelism="tp=8,dp=4", patient=True)
        spare["spec"]["template"]["metadata"]["annotations"]["arnold.dev/preemptible"] = "true"
        plane.admin.create(spare)
        wait_until(lambda: len(on_nodes(plane, namespace, "spare")) == 4, "the preemptible gang on nodes")
        assert on_nodes(plane, namespace, "spare") & zone

        # Nothing is remembered but what is in etcd: after a restart the zone is the same.
        arnold.extender.kill()
        arnold.extender.start()

        # The short gang ends in time; the preemptible one has to go when the large one is there.
        for rank in range(4):
            plane.admin.delete("pods", f"short-{rank}", namespace)
        submit(plane, namespace, "llm", 12, parallelism="tp=8,pp=2,dp=6")
        wait_until(lambda: len(on_nodes(plane, namespace, "llm")) == 12, "the large gang on nodes", seconds=120)
        assert on_nodes(plane, namespace, "llm") == zone
        assert not on_nodes(plane, namespace, "spare")
        wait_until(lambda: in_phase(plane, "llm", namespace, "Used"), "the reservation to be used")

        # Its Job makes its pods anew, does not count them as failures, and the gang queues again.
        wait_until(
            lambda: plan_in(plane.admin, "spare", namespace, "Queued", "Waiting"), "the preemptible gang to queue"
        )
        wait_until(lambda: gated(plane.admin, namespace) == 8, "four new pods behind the gate, beside the long gang's")
        assert not plane.admin.get("jobs", "spare", namespace)["status"].get("failed")


def test_single_pods_stay_out_of_the_zone(arnold_plane: ControlPlane, namespace: str) -> None:
    """One goes outside; one that finds nothing there waits; one that ends in time goes inside; a policy may be deaf."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=4)
    make_real(plane.admin, cluster)
    levels = level_labels(cluster)
    with running(plane, levels=levels, options=[ARNOLD]):
        plane.admin.create(reservation("llm", namespace, parallelism="tp=8,dp=3"))
        zone = set(wait_until(lambda: in_phase(plane, "llm", namespace, "Held"), "a zone")["zone"])
        for name in ("first", "second"):
            plane.admin.create(pod(name, namespace, scheduler="arnold"))
        (outside,) = {row.name for row in cluster} - zone
        wait_until(lambda: len(bound(plane.admin, namespace)) == 1, "one pod on a node")
        assert set(bound(plane.admin, namespace).values()) == {outside}
        stays(lambda: len(bound(plane.admin, namespace)) == 1, "the other pod waits")
        ends = pod("ends", namespace, scheduler="arnold", annotations={"arnold.dev/expected-duration": "600"})
        plane.admin.create(ends)
        wait_until(lambda: "ends" in bound(plane.admin, namespace), "the short pod on a node")
        assert bound(plane.admin, namespace)["ends"] in zone
    with running(plane, levels=levels):
        plane.admin.create(reservation("deaf", namespace))
        told = wait_until(lambda: in_phase(plane, "deaf", namespace, "Announced"), "the reservation to be told")
        assert says(told["message"], "priority-age")
