"""What the admission policies keep from people, whatever rights they have in their namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender import kubernetes_names as names
from extender.gangs.types import GangKey
from extender.plans.gang_history import EndedRun, GangHistory, decode_history, encode_history
from tests.e2e.harness.client import ApiError, Client, Object, path
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import container
from tests.e2e.harness.waiting import wait_until
from tests.facts import saying
from tests.manifests.accounts import Accounts
from tests.manifests.rendering import SYSTEM
from topology.kubernetes.pods import RELEASED

TEAM = "team"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
RBAC = "rbac.authorization.k8s.io"


def pod(name: str, namespace: str = TEAM, *, labels: dict[str, str] | None = None, **spec: object) -> Object:
    """A pod without GPUs."""
    about = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [container(0)], **spec}}


def plan(name: str, gang: str = "llm") -> Object:
    """A GangPlan."""
    about = {"name": name, "namespace": TEAM}
    return {"apiVersion": "arnold.dev/v1alpha1", "kind": "GangPlan", "metadata": about, "spec": {"gang": gang}}


@pytest.fixture(scope="module")
def owner(plane: ControlPlane) -> Client:
    """The owner of a namespace: a Role with all verbs on everything in it."""
    plane.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    about = {"name": "everything", "namespace": TEAM}
    plane.admin.apply({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": about, "rules": rules})
    binding: Object = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": about}
    binding["roleRef"] = {"apiGroup": RBAC, "kind": "Role", "name": "everything"}
    binding["subjects"] = [{"apiGroup": RBAC, "kind": "User", "name": "owner"}]
    plane.admin.apply(binding)
    client = plane.client("owner")

    def refused() -> bool:
        try:
            client.request("POST", f"{path('gangplans', TEAM)}?dryRun=All", plan("probe"))
        except ApiError as error:
            return "only Arnold's extender" in str(error)
        return False

    wait_until(refused, "rights and policies to be heeded")
    return client


@pytest.fixture
def written(plane: ControlPlane, accounts: Accounts) -> Iterator[Object]:
    """A GangPlan of the owner's namespace, as the extender wrote it."""
    yield accounts("arnold-extender").create(plan("ours"))
    plane.admin.delete("gangplans", "ours", TEAM)


def test_an_owner_writes_no_plan(owner: Client) -> None:
    """All rights in a namespace are none to say which nodes a gang has."""
    with pytest.raises(ApiError, match=saying("GangPlans", "extender")) as error:
        owner.create(plan("forged"))
    assert error.value.status == 403


def test_an_owner_changes_no_plan(owner: Client, written: Object) -> None:
    """Neither what a gang asked, nor what was decided, nor what keeps the object or ends it."""
    where = f"{path('gangplans', TEAM)}/ours"
    refused = "only Arnold's extender writes GangPlans"
    with pytest.raises(ApiError, match=refused):
        owner.request("PATCH", where, {"spec": {"gang": "other"}}, content_type=MERGE)
    with pytest.raises(ApiError, match=refused):
        owner.request("PATCH", f"{where}/status", {"status": {"phase": "Bound"}}, content_type=MERGE)
    with pytest.raises(ApiError, match=refused):
        owner.request("PUT", f"{where}/status", {**written, "status": {"phase": "Bound"}})
    everywhere = "only who may do so in all namespaces"
    with pytest.raises(ApiError, match=everywhere):
        owner.request("PATCH", where, {"metadata": {"finalizers": ["example.com/keep"]}}, content_type=MERGE)
    with pytest.raises(ApiError, match=everywhere):
        owner.delete("gangplans", "ours", TEAM)
    with pytest.raises(ApiError, match=everywhere):
        owner.delete_all("gangplans", TEAM)


def test_an_owner_writes_no_history(owner: Client, accounts: Accounts, plane: ControlPlane) -> None:
    """How long gangs ran is what Arnold saw: who owns a namespace reads it there, and neither writes nor deletes it."""
    made = GangHistory(namespace=TEAM).learnt(EndedRun(GangKey(TEAM, "llm-1"), "u", 8, 60.0))
    with pytest.raises(ApiError, match=saying("GangPlans, GangHistories", "extender")):
        owner.create(encode_history(made))
    accounts("arnold-extender").create(encode_history(made))
    assert decode_history(owner.get("ganghistories", "arnold", TEAM)).kinds == made.kinds
    where = f"{path('ganghistories', TEAM)}/arnold"
    with pytest.raises(ApiError, match=saying("GangPlans, GangHistories", "extender")):
        owner.request("PATCH", where, {"spec": {"kinds": []}}, content_type=MERGE)
    with pytest.raises(ApiError, match=saying("all namespaces")):
        owner.delete("ganghistories", "arnold", TEAM)
    plane.admin.delete("ganghistories", "arnold", TEAM)


def test_an_owner_reads_plans(owner: Client, written: Object) -> None:
    """What the policies keep is writing."""
    assert owner.get("gangplans", "ours", TEAM)["metadata"]["uid"] == written["metadata"]["uid"]


def test_an_administrator_deletes_plans_and_writes_none(
    plane: ControlPlane, accounts: Accounts, written: Object
) -> None:
    """``kubectl delete gangplan`` works, with finalizers that others left; what is decided is the extender's alone."""
    where = f"{path('gangplans', TEAM)}/ours"
    with pytest.raises(ApiError, match="only Arnold's extender"):
        plane.admin.request("PATCH", f"{where}/status", {"status": {"phase": "Bound"}}, content_type=MERGE)
    plane.admin.request("PATCH", where, {"metadata": {"finalizers": ["example.com/keep"]}}, content_type=MERGE)
    plane.admin.delete("gangplans", "ours", TEAM)
    plane.admin.request("PATCH", where, {"metadata": {"finalizers": []}}, content_type=MERGE)
    assert plane.admin.find("gangplans", "ours", TEAM) is None
    accounts("arnold-extender").create(plan("ours"))
    plane.admin.delete_all("gangplans", TEAM)
    assert plane.admin.all("gangplans", TEAM) == []


def test_a_reservation_is_the_users_and_its_status_is_not(owner: Client, accounts: Accounts) -> None:
    """Who may reserve writes and deletes reservations; which nodes are kept is not his to say."""
    about = {"name": "big", "namespace": TEAM}
    spec = {"nodes": 2, "arrives": "2026-12-01T22:00:00Z"}
    thing = {"apiVersion": "arnold.dev/v1alpha1", "kind": "CapacityReservation", "metadata": about, "spec": spec}
    made = owner.create(thing)
    where = f"{path('capacityreservations', TEAM)}/big"
    owner.request("PATCH", where, {"spec": {"nodes": 3}}, content_type=MERGE)
    forged = {"status": {"phase": "Held", "zone": ["node-0"]}}
    with pytest.raises(ApiError, match="only Arnold's extender"):
        owner.request("PATCH", f"{where}/status", forged, content_type=MERGE)
    found = owner.get("capacityreservations", "big", TEAM)
    accounts("arnold-extender").request("PUT", f"{where}/status", {**found, **forged})
    assert owner.get("capacityreservations", "big", TEAM)["status"]["zone"] == ["node-0"]
    assert made["spec"]["nodes"] == 2
    owner.delete("capacityreservations", "big", TEAM)


MARK = {RELEASED: "0123456789abcdef0123456789abcdef"}


def test_the_mark_of_a_release_cannot_be_forged(owner: Client) -> None:
    """Not with a new pod, not on one that is there, not with its status, and not with a binding in either place."""
    refused = "leave them out"
    with pytest.raises(ApiError, match=refused):
        owner.create(pod("forged", labels=MARK))
    owner.create(pod("honest"))
    where = f"{path('pods', TEAM)}/honest"
    for part in ("", "/status"):
        with pytest.raises(ApiError, match=refused):
            owner.request("PATCH", f"{where}{part}", {"metadata": {"labels": MARK}}, content_type=STRATEGIC)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    binding: Object = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "honest", "labels": MARK}}
    for place in (f"{where}/binding", f"api/v1/namespaces/{TEAM}/bindings"):
        with pytest.raises(ApiError, match=refused):
            owner.request("POST", place, {**binding, "target": target})
    assert RELEASED not in owner.get("pods", "honest", TEAM)["metadata"].get("labels", {})


def test_a_marked_pod_lives_as_any_other(owner: Client, accounts: Accounts) -> None:
    """Its mark stays; labels, annotations and status beside it are written by whoever may, and it can be deleted."""
    gate = {"schedulerName": names.SCHEDULER, "schedulingGates": [{"name": names.GATE}]}
    owner.create(pod("marked", labels={"team": "a"}, **gate))
    release = [
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/metadata/labels/arnold.dev~1released", "value": MARK[RELEASED]},
    ]
    accounts("arnold-extender").patch("pods", "marked", release, TEAM)
    where = f"{path('pods', TEAM)}/marked"
    change = {"metadata": {"labels": {"team": "b"}, "annotations": {"note": "x"}}}
    owner.request("PATCH", where, change, content_type=STRATEGIC)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    owner.request("PATCH", f"{where}/status", {"status": ready}, content_type=STRATEGIC)
    for value in (None, "false"):
        with pytest.raises(ApiError, match="leave them out"):
            owner.request("PATCH", where, {"metadata": {"labels": {RELEASED: value}}}, content_type=STRATEGIC)
    assert owner.get("pods", "marked", TEAM)["metadata"]["labels"] == {"team": "b", **MARK}
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    owner.request(
        "POST",
        f"{where}/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "marked"}, "target": target},
    )
    owner.delete("pods", "marked", TEAM)
    assert owner.find("pods", "marked", TEAM) is None


def test_the_priority_class_is_arnolds(plane: ControlPlane, owner: Client) -> None:
    """10^9 is above every training job: only pods of Arnold's namespace have it, whoever makes them."""
    refused = "for pods of the namespace arnold-system"
    with pytest.raises(ApiError, match=refused):
        owner.create(pod("vip", priorityClassName="arnold"))
    with pytest.raises(ApiError, match=refused):
        plane.admin.create(pod("vip", priorityClassName="arnold"))
    owner.create(pod("plain"))
    where = f"{path('pods', SYSTEM)}?dryRun=All"
    secure = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    box = container(0) | {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    ours = pod("ours", SYSTEM, priorityClassName="arnold", securityContext=secure, containers=[box])
    assert plane.admin.request("POST", where, ours)["spec"]["priority"] == 1_000_000_000


def test_kubelets_report_what_they_run(plane: ControlPlane, owner: Client) -> None:
    """The mirror pod of a static pod that names the class is a report: it is let be, from kubelets alone."""
    mirror = pod("static-node-0", priorityClassName="arnold", nodeName="node-0")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    where = f"{path('pods', TEAM)}?dryRun=All"
    with pytest.raises(ApiError, match=saying("namespace arnold-system")):
        owner.request("POST", where, mirror)
    binding: Object = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "kubelets"}}
    binding["roleRef"] = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:node"}
    binding["subjects"] = [{"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"}]
    plane.admin.apply(binding)
    plane.kubeconfig("system:node:node-0", "system:nodes")
    kubelet = plane.client("system:node:node-0")

    def admitted() -> Object | None:
        try:
            made: Object = kubelet.request("POST", where, mirror)
        except ApiError as error:
            if "cannot create resource" not in str(error):
                raise
            # The role takes a moment to be heeded.
            return None
        return made

    wait_until(admitted, "the kubelet's report to be taken")
