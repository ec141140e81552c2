"""What the admission policies do to pods, in the API server."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from extender import kubernetes_names as names
from extender.controller.actions import release_patch
from extender.objects import decode_pod
from tests.e2e.harness.client import ApiError, Object, path
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import container
from tests.e2e.harness.waiting import wait_until
from tests.facts import saying
from tests.manifests.accounts import Accounts
from tests.manifests.rendering import read
from topology.kubernetes.pods import NODE, RELEASED

GATE = {"name": names.GATE}
MARK = "0123456789abcdef0123456789abcdef"
RELEASE = [
    {"op": "remove", "path": "/spec/schedulingGates/0"},
    {"op": "add", "path": "/metadata/annotations", "value": {NODE: "node-0"}},
    {"op": "add", "path": "/metadata/labels/arnold.dev~1released", "value": MARK},
]
"""What the extender writes: the gate goes, the pod is marked, and its node named."""

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "00000000-0000-4000-8000-000000000000"}
PREFERENCE = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
PREFERRED = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}}


def pod(name: str, *, member: bool = True, gpus: int = 8, **spec: Any) -> Object:
    """A pod with what a user must write, and no more."""
    labels = {names.GANG: "llm", names.RANK: "0"} if member else {}
    about = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [container(gpus)], **spec}}


def admitted(plane: ControlPlane, thing: Object) -> Object:
    """The spec of a pod as the API server would store it."""
    made: Object = plane.admin.request("POST", f"{path('pods', 'default')}?dryRun=All", thing)["spec"]
    return made


def test_label_brings_gate_and_scheduler(plane: ControlPlane) -> None:
    """A pod that has nothing but the label waits for its gang's plan, and for our scheduler."""
    spec = admitted(plane, pod("bare"))
    assert spec["schedulerName"] == names.SCHEDULER
    assert spec["schedulingGates"] == [GATE]


def test_what_is_there_already_stays(plane: ControlPlane) -> None:
    """The policy is idempotent: gate and scheduler that a template wrote are not doubled, gates of others stay."""
    whole = admitted(plane, pod("whole", schedulerName=names.SCHEDULER, schedulingGates=[GATE]))
    assert (whole["schedulerName"], whole["schedulingGates"]) == (names.SCHEDULER, [GATE])
    other = {"name": "example.com/quota"}
    held = admitted(plane, pod("held", schedulingGates=[other]))
    assert sorted(gate["name"] for gate in held["schedulingGates"]) == [names.GATE, "example.com/quota"]


def test_another_scheduler_is_respected(plane: ControlPlane) -> None:
    """A pod that names a scheduler of its own choice is not ours, whatever its labels: no gate would ever be lifted."""
    spec = admitted(plane, pod("volcano", schedulerName="volcano"))
    assert spec["schedulerName"] == "volcano"
    assert "schedulingGates" not in spec


def test_bound_pod_is_left_alone(plane: ControlPlane) -> None:
    """A pod that comes with its node, as static pods do, may not have a gate; it is taken as it is."""
    spec = admitted(plane, pod("static", nodeName="node-0"))
    assert spec["schedulerName"] == "default-scheduler"
    assert "schedulingGates" not in spec


def test_pods_without_the_label_are_left_alone(plane: ControlPlane) -> None:
    """The cluster's other pods, with GPUs or without, stay with the cluster's scheduler."""
    for gpus in (0, 8):
        spec = admitted(plane, pod("other", member=False, gpus=gpus))
        assert spec["schedulerName"] == "default-scheduler"
        assert "schedulingGates" not in spec


def test_component_sends_all_gpu_pods_to_us(plane: ControlPlane) -> None:
    """The component gives a pod with GPUs our scheduler and no gate, unless it names another."""
    objects = read("components/all-gpu-pods/admission.yaml")
    for thing in objects:
        plane.admin.apply(thing)
    try:
        alone = pod("alone", member=False, gpus=1)
        wait_until(
            lambda: admitted(plane, alone)["schedulerName"] == names.SCHEDULER, "the component's policy to be heeded"
        )
        assert "schedulingGates" not in admitted(plane, alone)
        assert admitted(plane, pod("cpu", member=False, gpus=0))["schedulerName"] == "default-scheduler"
        assert (
            admitted(plane, pod("kai", member=False, schedulerName="kai-scheduler"))["schedulerName"] == "kai-scheduler"
        )
        early = pod("early", member=False, gpus=0, initContainers=[{**container(1), "name": "check"}])
        assert admitted(plane, early)["schedulerName"] == names.SCHEDULER
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        assert (
            admitted(plane, pod("dra", member=False, gpus=0, resourceClaims=claims))["schedulerName"] == names.SCHEDULER
        )
        assert admitted(plane, pod("member"))["schedulingGates"] == [GATE]
    finally:
        for thing in reversed(objects):
            kind = {"MutatingAdmissionPolicy": "mutatingadmissionpolicies"}.get(
                thing["kind"], "mutatingadmissionpolicybindings"
            )
            where = f"apis/admissionregistration.k8s.io/v1/{kind}/{thing['metadata']['name']}"
            plane.admin.request("DELETE", where)


def test_component_queues_pods_of_whole_nodes(plane: ControlPlane) -> None:
    """The component makes a pod of 8 GPUs a gang of its own; others, and members of gangs, stay as they are."""
    whole = pod("whole", member=False, gpus=8)
    for thing in read("components/whole-node-pods/admission.yaml"):
        plane.admin.apply(thing)
    try:
        wait_until(
            lambda: admitted(plane, whole).get("schedulingGates") == [GATE], "the component's policy to be heeded"
        )
        assert admitted(plane, whole)["schedulerName"] == names.SCHEDULER
        for other in (
            pod("part", member=False, gpus=4),
            pod("kai", member=False, gpus=8, schedulerName="kai-scheduler"),
            pod("group", member=False, gpus=8, schedulingGroup={"podGroupName": "g"}),
        ):
            assert "schedulingGates" not in admitted(plane, other)
        assert admitted(plane, pod("member"))["schedulingGates"] == [GATE]
    finally:
        for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            plane.admin.request("DELETE", f"apis/admissionregistration.k8s.io/v1/{kind}/arnold-whole-node-pods")
        wait_until(lambda: "schedulingGates" not in admitted(plane, whole), "the component's policy to be gone")


def test_component_refuses_gangs_without_the_gate(plane: ControlPlane) -> None:
    """On servers without mutating policies the label alone is refused, and what is missing is said; with gate and
    scheduler, with another scheduler's name, or with a node, a pod is taken, and so is one without the label.
    """
    mutating = read("base/admission.yaml")
    where = "apis/admissionregistration.k8s.io/v1"
    plane.admin.request("DELETE", f"{where}/mutatingadmissionpolicybindings/arnold-gang")
    for thing in read("components/before-1.36/admission.yaml"):
        plane.admin.apply(thing)

    def refused(thing: Object) -> str:
        try:
            admitted(plane, thing)
        except ApiError as error:
            return str(error)
        return ""

    try:
        bare = wait_until(lambda: refused(pod("bare")), "the component's policy to be heeded")
        assert all(part in bare for part in (names.GATE, f"schedulerName: {names.SCHEDULER}", "To fix: "))
        assert refused(pod("ungated", schedulerName=names.SCHEDULER))
        assert refused(pod("unheard", schedulingGates=[GATE]))
        for taken in (
            pod("whole", schedulerName=names.SCHEDULER, schedulingGates=[GATE]),
            pod("kai", schedulerName="kai-scheduler"),
            pod("static", nodeName="node-0"),
            pod("single", member=False),
        ):
            assert not refused(taken)
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            plane.admin.request("DELETE", f"{where}/{kind}/arnold-gang-gate")
        for thing in mutating:
            plane.admin.apply(thing)
        wait_until(
            lambda: not refused(pod("bare")) and admitted(plane, pod("bare")).get("schedulingGates") == [GATE],
            "the policy of every cluster to be heeded again",
        )


def test_extender_releases_a_pod(plane: ControlPlane, accounts: Accounts) -> None:
    """With its own token the extender sends what it sends in a cluster: nomination, then gate and marks."""
    extender = accounts("arnold-extender")
    for name, written in (("bare", None), ("annotated", {"team": "a", NODE: "of-the-user"})):
        thing = pod(f"released-{name}")
        thing["metadata"]["annotations"] = written
        plane.admin.create(thing)
        nominated = extender.patch(
            "pods", f"released-{name}", {"status": {"nominatedNodeName": "node-0"}}, "default", subresource="status"
        )
        change = release_patch(decode_pod(nominated), "node-0", MARK, version=nominated["metadata"]["resourceVersion"])
        made = extender.patch("pods", f"released-{name}", change, "default")
        assert "schedulingGates" not in made["spec"]
        assert "managedFields" not in made["metadata"]
        assert made["status"]["nominatedNodeName"] == "node-0"
        assert made["metadata"]["labels"][RELEASED] == MARK
        assert made["metadata"]["annotations"] == (written or {}) | {NODE: "node-0"}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("image", {"op": "replace", "path": "/spec/containers/0/image", "value": "miner"}),
        ("early-image", {"op": "replace", "path": "/spec/initContainers/0/image", "value": "miner"}),
        ("label", {"op": "add", "path": "/metadata/labels/team", "value": "other"}),
        ("mark", {"op": "add", "path": "/metadata/labels/arnold.dev~1released", "value": "no"}),
        ("note", {"op": "add", "path": "/metadata/annotations/x", "value": "z"}),
        ("unnote", {"op": "remove", "path": "/metadata/annotations/x"}),
        ("finalizer", {"op": "add", "path": "/metadata/finalizers", "value": ["x.com/y"]}),
        ("owner", {"op": "add", "path": "/metadata/ownerReferences", "value": [OWNER]}),
        ("taint", {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}),
        ("gates", {"op": "remove", "path": "/spec/schedulingGates/0"}),
        ("unlabel", {"op": "remove", "path": "/metadata/labels/arnold.dev~1rank"}),
        ("relabel", {"op": "replace", "path": "/metadata/labels/arnold.dev~1rank", "value": "1"}),
        ("deadline", {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}),
        ("selector", {"op": "add", "path": "/spec/nodeSelector", "value": {"no": "node"}}),
        ("affinity", {"op": "add", "path": "/spec/affinity", "value": PREFERRED}),
    ],
)
@pytest.mark.parametrize("released", [False, True], ids=["alone", "released"])
def test_extender_changes_nothing_else(
    plane: ControlPlane, accounts: Accounts, name: str, change: Object, released: bool
) -> None:
    """What RBAC cannot forbid to whoever may patch pods, the policy does: same token, same pod, another change.

    It may stand alone, or beside what a release changes.
    """
    thing = pod(f"kept-{name}-{released}".lower(), schedulingGates=[{"name": "example.com/quota"}, GATE])
    thing["spec"]["initContainers"] = [{**container(0), "name": "early"}]
    thing["metadata"]["annotations"] = {"x": "y"}
    name = plane.admin.create(thing)["metadata"]["name"]
    gate = {"op": "remove", "path": "/spec/schedulingGates/1"}
    node = {"op": "add", "path": "/metadata/annotations/arnold.dev~1node", "value": "node-0"}
    changes = [gate, node, RELEASE[2], change] if released else [change]
    with pytest.raises(ApiError, match="it changes nothing else"):
        accounts("arnold-extender").patch("pods", name, changes, "default")
    if change["path"].endswith("released"):
        return  # a mark is nobody else's to write
    # It is the policy that says no: an administrator makes the same change.
    plane.admin.patch("pods", name, [change], "default")


def test_extender_leaves_other_peoples_pods_alone(plane: ControlPlane, accounts: Accounts) -> None:
    """A pod that our gate does not hold is none of the extender's."""
    plane.admin.create(pod("theirs", member=False))
    change = [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}]
    with pytest.raises(ApiError, match=saying("behind the gate")):
        accounts("arnold-extender").patch("pods", "theirs", change, "default")
    mark = [{"op": "add", "path": "/metadata/labels", "value": {RELEASED: MARK}}]
    with pytest.raises(ApiError, match=saying("behind the gate")):
        accounts("arnold-extender").patch("pods", "theirs", mark, "default")


def test_extender_deletes_no_pod_of_which_it_is_not_said(plane: ControlPlane, accounts: Accounts) -> None:
    """Not even one that it has released."""
    plane.admin.create(pod("stays"))
    accounts("arnold-extender").patch("pods", "stays", RELEASE, "default")
    with pytest.raises(ApiError, match=saying("may be stopped")):
        accounts("arnold-extender").delete("pods", "stays", "default")


def test_only_the_extender_moves_a_released_pod(plane: ControlPlane, accounts: Accounts) -> None:
    """It may as long as the pod is on no node; whoever may write all of a pod may neither move it nor take its mark."""
    extender = accounts("arnold-extender")
    plane.admin.create(pod("moves"))
    extender.patch("pods", "moves", RELEASE, "default")
    moved = {"metadata": {"annotations": {NODE: "node-1"}}, "status": {"nominatedNodeName": "node-1"}}
    for where in ("", "status"):
        with pytest.raises(ApiError, match=NODE):
            plane.admin.patch("pods", "moves", moved, "default", subresource=where)
    made = extender.patch("pods", "moves", moved, "default", subresource="status")
    assert (made["metadata"]["annotations"][NODE], made["status"]["nominatedNodeName"]) == ("node-1", "node-1")


def test_extender_deletes_a_running_pod_that_may_be_stopped(plane: ControlPlane, accounts: Accounts) -> None:
    """The pod itself says so, by its annotation: it is told that it is disrupted, and deleted; no other is."""
    extender = accounts("arnold-extender")
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptedByArnold", "message": "makes room"}
    cases: list[tuple[str, str, str]] = [
        ("spare", names.SCHEDULER, "true"),
        ("unsure", names.SCHEDULER, "yes"),
        ("foreign", "volcano", "true"),
    ]
    for name, scheduler, preemptible in cases:
        thing = pod(f"stop-{name}", schedulerName=scheduler, nodeName="node-0")
        thing["metadata"]["annotations"] = {names.PREEMPTIBLE: preemptible}
        plane.admin.create(thing)
        where = f"{path('pods', 'default')}/stop-{name}/status"
        change = {"status": {"conditions": [disrupted]}}
        if name == "spare":
            extender.request("PATCH", where, change, content_type="application/strategic-merge-patch+json")
            extender.delete("pods", f"stop-{name}", "default")
            assert plane.admin.find("pods", f"stop-{name}", "default") is None
            continue
        with pytest.raises(ApiError, match=saying("on no node")):
            extender.request("PATCH", where, change, content_type="application/strategic-merge-patch+json")
        with pytest.raises(ApiError, match=saying("may be stopped")):
            extender.delete("pods", f"stop-{name}", "default")


def test_extender_tells_a_pod_that_it_has_a_node(plane: ControlPlane, accounts: Accounts) -> None:
    """Into the status of a pod of our scheduler without a node it writes its own condition, and nothing else."""
    extender = accounts("arnold-extender")
    plane.admin.create(pod("told", member=False, schedulerName=names.SCHEDULER))
    plane.admin.create(pod("not-ours", member=False, schedulerName="volcano"))
    planned = {"type": names.PLANNED, "status": "True", "reason": "Planned", "message": "planned on node node-0"}
    where = f"{path('pods', 'default')}/{{}}/status"
    strategic = "application/strategic-merge-patch+json"

    def tell(name: str, status: Object) -> Object:
        made: Object = extender.request("PATCH", where.format(name), {"status": status}, content_type=strategic)
        return made

    attempts = itertools.count()

    def refuses() -> bool:
        # A patch that changes nothing is not put before the policies.
        try:
            tell("not-ours", {"conditions": [{**planned, "message": f"attempt {next(attempts)}"}]})
        except ApiError:
            return True
        return False

    wait_until(refuses, "the policy to be heeded")
    conditions = tell("told", {"conditions": [planned]})["status"]["conditions"]
    assert [one["message"] for one in conditions if one["type"] == names.PLANNED] == ["planned on node node-0"]
    refused: list[tuple[str, Object]] = [
        ("not-ours", {"conditions": [planned]}),
        ("told", {"conditions": [{**planned, "type": "Ready"}]}),
        ("told", {"phase": "Failed"}),
    ]
    for name, status in refused:
        with pytest.raises(ApiError, match="nothing else"):
            tell(name, status)


def test_extender_makes_no_pod_one_that_may_be_stopped(plane: ControlPlane, accounts: Accounts) -> None:
    """With a status comes metadata: labels and annotations stay as they are there too, on pods that run and others."""
    extender = accounts("arnold-extender")
    strategic = "application/strategic-merge-patch+json"
    for name, spec in (("runs", {"nodeName": "node-0"}), ("waits", {})):
        plane.admin.create(pod(f"meta-{name}", member=False, schedulerName=names.SCHEDULER, **spec))
        where = f"{path('pods', 'default')}/meta-{name}/status"
        change = {"metadata": {"annotations": {names.PREEMPTIBLE: "true"}}}
        with pytest.raises(ApiError, match="nothing else of status and metadata"):
            extender.request("PATCH", where, change, content_type=strategic)
        assert "annotations" not in plane.admin.get("pods", f"meta-{name}", "default")["metadata"]
