"""A real API server takes every object, and knows every field of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import urllib3

from extender.gangs.types import GangKey
from extender.plans.custom_resource import Condition
from extender.plans.gang_history import MOST_KINDS, EndedRun, GangHistory, decode_history, encode_history
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, decode_plan, encode_plan
from extender.plans.reservation import ReservationPhase, decode_reservation, encode_reservation
from scheduler.job import Count, Hold
from scheduler.queue.run_times import Prediction
from tests.e2e.harness.client import ApiError, Object, path
from tests.e2e.harness.plane import ControlPlane
from tests.manifests.accounts import Accounts
from tests.manifests.rendering import MANIFESTS, OVERLAYS, SYSTEM, pod_template, read, render

DRY = "&dryRun=All&fieldValidation=Strict"
NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize("overlay", [*OVERLAYS, "components/all-gpu-pods", "components/whole-node-pods"])
def test_every_object_is_taken(foreign: ControlPlane, overlay: str) -> None:
    """A server-side dry run of each object, unknown fields being errors."""
    objects = render(overlay)
    assert objects
    for thing in objects:
        foreign.admin.apply(thing, query=DRY)


@pytest.mark.parametrize("file", sorted(file.name for file in (MANIFESTS / "examples").glob("*.yaml")))
def test_every_example_is_taken(foreign: ControlPlane, file: str) -> None:
    """The same for the examples, with the definitions of JobSet and PyTorchJob from their own projects."""
    for thing in read(f"examples/{file}"):
        thing["metadata"]["namespace"] = "default"
        foreign.admin.apply(thing, query=DRY)


def test_a_misspelt_field_is_refused(plane: ControlPlane) -> None:
    """The dry runs above can fail: a field that does not exist is an error."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "default"}}
    with pytest.raises(ApiError, match="portz"):
        plane.admin.apply({**service, "spec": {"portz": []}}, query=DRY)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_meet_the_restricted_standard(plane: ControlPlane, overlay: str) -> None:
    """Our namespace enforces the restricted pod security standard, and takes the pods of every Deployment and Job."""
    for thing in render(overlay):
        if thing["kind"] in ("Deployment", "Job"):
            plane.admin.request("POST", f"{path('pods', SYSTEM)}?dryRun=All", _pod(thing))
    loose = _pod(next(thing for thing in render(overlay) if thing["kind"] == "Deployment"))
    del loose["spec"]["securityContext"]["seccompProfile"]
    with pytest.raises(ApiError, match="violates PodSecurity"):
        plane.admin.request("POST", f"{path('pods', SYSTEM)}?dryRun=All", loose)


def _pod(maker: Object) -> Object:
    template = pod_template(maker)
    about = {**template["metadata"], "name": maker["metadata"]["name"], "namespace": SYSTEM}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": template["spec"]}


def _plan(ranks: int, phase: PlanPhase = PlanPhase.BOUND) -> GangPlan:
    """A plan in which every field says something."""
    return GangPlan(
        key=GangKey("default", f"llm-{ranks}"),
        phase=phase,
        spec=PlanSpec(
            dialect="jobset",
            size=ranks,
            gpus_per_pod=4,
            parallelism=f"tp=8,cp=1,ep=1,dp={ranks},pp=1",
            order="tp-pp-cp-ep-dp",
            alpha=0.3,
            level="topology.example.com/minipod",
            tp_level="topology.example.com/rack",
            avoid="strict",
            holds=(Hold("ep", "topology.example.com/rack"),),
            counts=(Count("cp", "topology.example.com/rack", 0.1),),
            microbatches=32,
            priority=1_000,
        ),
        nodes=tuple(f"node-{rank // 2:05}.region-1.compute.example.com" for rank in range(ranks)),
        pods_per_node=2,
        pods=tuple(None if rank == 3 else str(uuid4()) for rank in range(ranks)),
        spread=(8, 2),
        objective=3.8,
        bound=3.5,
        proved_to="objective",
        gap=0.3 / 3.8,
        expires=NOW + timedelta(minutes=5),
        bound_pods=ranks - 1,
        would_fit_if_empty=True,
        estimate=Prediction(5_400.0, 600.0, 86_400.5, 12),
        reason="PodsBound",
        message="95 of 96 pods are on their nodes",
        conditions=(Condition("Bound", "False", "PodMissing", "rank 3 has no pod", NOW),),
    )


def test_a_plan_comes_back_as_it_was_written(plane: ControlPlane, accounts: Accounts) -> None:
    """The resource definition knows every field of a plan, or the API server would drop it; 12,500 ranks fit."""
    plan = _plan(12_500)
    document = encode_plan(plan)
    extender = accounts("arnold-extender")
    made = extender.create(document)
    # The status is a resource of its own: creating an object does not set it.
    assert "status" not in made
    where = f"{path('gangplans', 'default')}/{document['metadata']['name']}"
    written = {**made, "status": document["status"]}
    extender.request("PUT", f"{where}/status?fieldValidation=Strict", written)
    found = plane.admin.get("gangplans", document["metadata"]["name"], "default")
    assert found["spec"] == document["spec"]
    assert found["status"] == document["status"]
    read_back = decode_plan(found)
    assert read_back.replace(uid="", resource_version="") == plan


@pytest.mark.parametrize("phase", list(PlanPhase))
def test_every_phase_can_be_written(accounts: Accounts, phase: PlanPhase) -> None:
    """The resource definition knows each phase, and refuses others."""
    document = encode_plan(_plan(8, phase))
    document["metadata"]["name"] = f"phase-{phase.value.lower()}"
    extender = accounts("arnold-extender")
    made = extender.create(document)
    where = f"{path('gangplans', 'default')}/{document['metadata']['name']}/status"
    made = extender.request("PUT", where, {**made, "status": document["status"]})
    with pytest.raises(ApiError, match="Unsupported value"):
        extender.request("PUT", where, {**made, "status": {"phase": "Happy"}})


def test_kubectl_shows_gang_phase_spread_gap_age(plane: ControlPlane, accounts: Accounts) -> None:
    """The columns of ``kubectl get gp`` and what a plan of 1,200 ranks fills them with."""
    document = encode_plan(_plan(1_200))
    extender = accounts("arnold-extender")
    made = extender.create(document)
    where = f"{path('gangplans', 'default')}/{document['metadata']['name']}"
    extender.request("PUT", f"{where}/status", {**made, "status": document["status"]})
    table = _table(plane, where)
    shown = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert shown == ["Name", "Gang", "Phase", "Spread", "Gap", "Proved", "Age"]
    cells = dict(zip([column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
    # (objective - bound) / objective = 0.3 / 3.8 = 7.9 %
    wanted = {
        "Gang": "llm-1200",
        "Phase": "Bound",
        "Spread": "8/2",
        "Gap": "7.9%",
        "Proved": "objective",
        "Bound": "1199/1200",
    }
    wanted["Estimate"] = "1.5 h (10 min to 1 d)"
    assert cells.items() >= wanted.items()
    resources = plane.admin.request("GET", "apis/arnold.dev/v1alpha1")["resources"]
    assert next(one for one in resources if one["name"] == "gangplans")["shortNames"] == ["gp"]


def test_a_history_comes_back_bit_for_bit(plane: ControlPlane, accounts: Accounts) -> None:
    """Sums go through the API server's own floating-point numbers, and through as many kinds of gangs as there can be.

    A pattern has 63 characters at most, some of them of several bytes; of one gang more a kind has to go.
    """
    extender, history = accounts("arnold-extender"), GangHistory(namespace="default")
    for number in range(MOST_KINDS + 1):
        key = GangKey("default", f"{chr(0x4E00 + number)}{'y' * 80}")
        history = history.learnt(EndedRun(key, str(uuid4()), 8 * number, 10.0 / 3.0 + number**3))
    where = f"{path('ganghistories', 'default')}"
    made = extender.request("POST", f"{where}?fieldValidation=Strict", encode_history(history))
    stored = decode_history(made)
    assert stored.replace(uid="", resource_version="") == history
    more = stored.learnt(EndedRun(GangKey("default", "llm-1"), str(uuid4()), 8, 0.1 + 0.2))
    extender.request("PUT", f"{where}/arnold?fieldValidation=Strict", encode_history(more))
    found = decode_history(plane.admin.get("ganghistories", "arnold", "default"))
    assert found.replace(resource_version="") == more.replace(resource_version="")
    assert len(found.kinds) == MOST_KINDS


def test_a_reservation_comes_back_as_it_was_written(plane: ControlPlane, accounts: Accounts) -> None:
    """A zone of 12,500 nodes, every field of the status; the columns of ``kubectl get capres``."""
    made = plane.admin.create(_reservation(parallelism="tp=8,pp=4,dp=3125", alpha=0.3))
    assert made["spec"]["gpusPerNode"] == 8
    held = decode_reservation(made).replace(
        phase=ReservationPhase.HELD,
        zone=tuple(f"gpu-node-{i:05d}.cluster.example.com" for i in range(12_500)),
        spread=(8, 2),
        objective=3.8,
        bound=3.5,
        gap=0.3 / 3.8,
        held_by_others=4_000,
        reason="Held",
        message="12500 nodes",
    )
    held = held.with_condition("Clear", False, "HeldByOthers", "4000 of 12500 nodes are held by others", NOW)
    where = f"{path('capacityreservations', 'default')}/announced"
    accounts("arnold-extender").request("PUT", f"{where}/status?fieldValidation=Strict", encode_reservation(held))
    found = plane.admin.get("capacityreservations", "announced", "default")
    assert decode_reservation(found).replace(resource_version="") == held.replace(resource_version="")
    table = _table(plane, where)
    cells = dict(zip([column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
    wanted = {"Arrives": "2026-12-01T22:00:00Z", "Phase": "Held", "Clear": "8500/12500", "Spread": "8/2"}
    assert cells.items() >= wanted.items()


@pytest.mark.parametrize("phase", list(ReservationPhase))
def test_every_phase_of_a_reservation_can_be_written(
    plane: ControlPlane, accounts: Accounts, phase: ReservationPhase
) -> None:
    """The resource definition knows each phase, and refuses others."""
    thing = _reservation(nodes=2)
    thing["metadata"]["name"] = f"phase-{phase.value.lower()}"
    made = decode_reservation(plane.admin.create(thing))
    where = f"{path('capacityreservations', 'default')}/{made.key.name}/status"
    extender = accounts("arnold-extender")
    written = extender.request("PUT", where, encode_reservation(made.replace(phase=phase)))
    with pytest.raises(ApiError, match="Unsupported value"):
        extender.request("PUT", where, {**written, "status": {"phase": "Happy"}})


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "give nodes or parallelism"),
        ({"nodes": 2, "expires": "2026-12-01T21:00:00Z"}, "expires is after arrives"),
        ({"nodes": 0}, "should be greater than or equal to 1"),
        ({"nodes": 2, "arrives": "tonight"}, "date-time"),
    ],
)
def test_what_cannot_be_reserved_is_refused_at_once(plane: ControlPlane, spec: Object, why: str) -> None:
    """By the API server, before anybody waits for it."""
    with pytest.raises(ApiError, match=why):
        plane.admin.create(_reservation(**spec))


def _reservation(**spec: Any) -> Object:
    """As a user writes it."""
    return {
        "apiVersion": "arnold.dev/v1alpha1",
        "kind": "CapacityReservation",
        "metadata": {"name": "announced", "namespace": "default"},
        "spec": {"arrives": "2026-12-01T22:00:00Z", **spec},
    }


def _table(plane: ControlPlane, where: str) -> Object:
    """What kubectl asks for and prints."""
    identity = plane.certificates.client("kubectl", "system:masters")
    pool = urllib3.PoolManager(
        ca_certs=str(plane.certificates.authority), cert_file=str(identity.certificate), key_file=str(identity.key)
    )
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    found: Object = msgspec.json.decode(pool.request("GET", f"{plane.server}/{where}", headers=accept).data)
    return found
