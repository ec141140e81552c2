"""GPUs by ResourceClaim on a real cluster: slices of a driver that is not there, claims that are allocated."""

from __future__ import annotations

import pytest

from tests.allocation_objects import claiming, class_json, request, slice_json, template_json
from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Client
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, node
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang, indexed_job, pod
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate


def given(client: Client, namespace: str) -> dict[str, tuple[str, int]]:
    """The pool that each pod has devices of, and how many."""
    found = {}
    for claim in client.all("resourceclaims", namespace):
        if (allocation := claim.get("status", {}).get("allocation")) is not None:
            (user,) = claim["status"]["reservedFor"]
            results = allocation["devices"]["results"]
            (pool,) = {one["pool"] for one in results}
            found[user["name"]] = (pool, len(results))
    return found


def told(client: Client, namespace: str) -> list[str]:
    """Pods for which kube-scheduler has looked for a node in vain."""
    return [
        one["metadata"]["name"]
        for one in client.all("pods", namespace)
        if any(it.get("reason") == "Unschedulable" for it in one["status"].get("conditions") or ())
    ]


def test_gangs_and_pods_that_claim_gpus(arnold_plane: ControlPlane, namespace: str) -> None:
    """Two minipods of four nodes with eight GPUs each, in slices alone.

    *tenant*, a single pod, claims all GPUs of a node, however many these are.  *job*, an Indexed Job of four with
    nothing but the label, gets the other minipod, which is whole.  *held* is promised the three nodes that are left
    while the scheduler is away, so that *late*, a single pod with one GPU, may use none of them.
    """
    plane, admin = arnold_plane, arnold_plane.admin
    cluster = generate("minipods", minipods=2, nodes=8)
    levels = level_labels(cluster)
    minipod = {row.name: row.path[0] for row in cluster}
    admin.create_all(node(row.name, labels=dict(zip(levels, row.path, strict=True)), gpus=0) for row in cluster)
    admin.create_all(slice_json(row.name) for row in cluster)
    admin.apply(class_json())
    admin.create(template_json("eight", namespace, request(8)))
    admin.create(template_json("one", namespace, request(1)))
    admin.create(template_json("all", namespace, request(None)))
    with running(plane, levels=levels) as arnold, guarded(plane):
        admin.create(claiming(pod("tenant", namespace, gpus=0, scheduler="arnold"), template="all"))
        wait_until(lambda: "tenant" in bound(admin, namespace), "the single pod on a node")
        job = indexed_job("job", namespace, size=4, parallelism="tp=8,dp=4")
        del job["spec"]["template"]["metadata"]["annotations"]
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
        claiming(job["spec"]["template"], template="eight")
        admin.create(job)
        wait_until(lambda: len(bound(admin, namespace)) == 5, "four pods of the job on nodes")
        plan = wait_until(lambda: plan_in(admin, "job", namespace, "Bound"), "the plan to say that it is bound")

        arnold.scheduler.stop()
        admin.create_all(claiming(one, template="eight") for one in gang("held", namespace, size=3, gpus=0))
        promised = wait_until(lambda: plan_in(admin, "held", namespace, "Released"), "the nodes to be promised")
        late = admin.create(claiming(pod("late", namespace, gpus=0, scheduler="arnold"), template="one"))
        _, answer = arnold.ask("filter", {"Pod": late, "NodeNames": sorted(minipod)})
        where = bound(admin, namespace)
        arnold.scheduler.start()
        wait_until(lambda: plan_in(admin, "held", namespace, "Bound"), "the promised nodes to be used")
        wait_until(lambda: "late" in told(admin, namespace), "the late pod to be told that it has no node")

    assert answer["NodeNames"] == []
    refused = dict.fromkeys((*plan.nodes, *promised.nodes), "promised to a gang")
    assert answer["FailedAndUnresolvableNodes"] == refused
    assert len({minipod[name] for name in plan.nodes}) == 1
    assert minipod[where["tenant"]] not in {minipod[name] for name in plan.nodes}
    assert {*promised.nodes} == {*minipod} - {*where.values()}
    assert (plan.status["spread"], plan.status["objective"]) == ({"dp": 1, "pp": 1}, pytest.approx(1.0))
    # what kube-scheduler allocated is on the nodes that were planned, and there was none for the late pod
    final = bound(admin, namespace)
    assert len(final) == 8
    assert "late" not in final
    assert given(admin, namespace) == {name: (on, 8) for name, on in final.items()}
