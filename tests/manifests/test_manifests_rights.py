"""What each service account may do, with its own token, RBAC on: what it needs, and nothing else."""

from __future__ import annotations

import json

import pytest
import urllib3

from tests.e2e.harness.client import Client, Object
from tests.e2e.harness.plane import ControlPlane
from tests.manifests.accounts import Accounts
from tests.manifests.rendering import SYSTEM

Right = tuple[str, str, str]
"""Verb, resource (group/plural/subresource, or plural alone), namespace (empty = all)."""

NEEDED: dict[str, list[Right]] = {
    "arnold-extender": [
        *((verb, resource, "") for verb in ("list", "watch") for resource in (
            "pods", "nodes", "namespaces",
            "arnold.dev/gangplans", "arnold.dev/capacityreservations", "arnold.dev/ganghistories",
            "batch/jobs", "apps/statefulsets", "jobset.x-k8s.io/jobsets", "ray.io/rayclusters",
            "scheduling.k8s.io/podgroups", "scheduling.k8s.io/workloads",
            "scheduling.x-k8s.io/podgroups", "scheduling.volcano.sh/podgroups",
        )),
        ("get", "arnold.dev/ganghistories", ""),
        ("patch", "pods", ""),
        ("patch", "pods/status", ""),
        ("delete", "pods", ""),
        *((verb, "arnold.dev/gangplans", "") for verb in ("create", "update", "delete")),
        *((verb, "arnold.dev/ganghistories", "") for verb in ("create", "update")),
        *(("update", f"arnold.dev/{plural}/status", "") for plural in ("gangplans", "capacityreservations")),
        ("create", "events.k8s.io/events", ""),
        ("create", "coordination.k8s.io/leases", SYSTEM),
    ],
    "arnold-scheduler": [
        ("create", "pods/binding", ""),
        ("patch", "pods/status", ""),
        ("list", "nodes", ""),
        ("list", "persistentvolumeclaims", ""),
        ("create", "coordination.k8s.io/leases", SYSTEM),
    ],
}  # fmt: skip

DENIED: dict[str, list[Right]] = {
    "arnold-extender": [
        *((verb, "pods", "") for verb in ("get", "create", "update", "deletecollection")),
        *(("create", f"pods/{part}", "") for part in ("binding", "exec", "eviction", "ephemeralcontainers")),
        ("update", "pods/status", ""),
        *((verb, plural, "") for plural in ("nodes", "namespaces") for verb in ("create", "update", "patch", "delete")),
        *((verb, "secrets", namespace) for verb in ("get", "list", "watch") for namespace in ("", SYSTEM)),
        ("list", "configmaps", ""),
        ("deletecollection", "arnold.dev/gangplans", ""),
        *((verb, "arnold.dev/ganghistories", "") for verb in ("patch", "delete")),
        *((verb, "arnold.dev/capacityreservations", "") for verb in ("create", "update", "patch", "delete")),
        *((verb, "batch/jobs", "") for verb in ("create", "update", "patch", "delete")),
        ("list", "coordination.k8s.io/leases", SYSTEM),
        ("create", "coordination.k8s.io/leases", ""),
        ("create", "serviceaccounts/token", ""),
        ("impersonate", "users", ""),
        ("patch", "apiextensions.k8s.io/customresourcedefinitions", ""),
        ("patch", "admissionregistration.k8s.io/validatingadmissionpolicies", ""),
        ("create", "rbac.authorization.k8s.io/clusterrolebindings", ""),
    ],
    "arnold-scheduler": [
        ("patch", "pods", ""),
        ("list", "secrets", SYSTEM),
        ("get", "arnold.dev/gangplans", ""),
        ("get", "arnold.dev/capacityreservations", ""),
        ("update", "coordination.k8s.io/leases", SYSTEM),
    ],
    "arnold-certificates": [
        *((verb, "secrets", SYSTEM) for verb in ("create", "list", "watch", "delete", "update")),
        ("get", "pods", SYSTEM),
    ],
}


def may(client: Client, right: Right, name: str = "") -> bool:
    """Whether the API server would let an account do that, asked with its own token."""
    verb, resource, namespace = right
    group, plural, part = _parts(resource)
    asked = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": part,
        "namespace": namespace,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = client.create({**review, "metadata": {}})
    return bool(answer["status"]["allowed"])


def _parts(resource: str) -> tuple[str, str, str]:
    """Group, plural, subresource."""
    parts = resource.split("/")
    group = parts.pop(0) if "." in parts[0] or parts[0] in ("batch", "apps") else ""
    return group, parts[0], parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("account", NEEDED)
def test_an_account_may_do_what_it_needs(accounts: Accounts, account: str) -> None:
    """Every request that the program makes is allowed."""
    assert [right for right in NEEDED[account] if not may(accounts(account), right)] == []


@pytest.mark.parametrize("account", DENIED)
def test_an_account_may_do_nothing_else(accounts: Accounts, account: str) -> None:
    """What would let a stolen token read secrets, place pods, change nodes or give itself rights is refused."""
    assert [right for right in DENIED[account] if may(accounts(account), right)] == []


def test_rights_to_single_objects(accounts: Accounts) -> None:
    """Leases and Secrets are granted by name: one's own, and no other."""
    for account in ("arnold-extender", "arnold-scheduler"):
        for verb in ("get", "update"):
            right = (verb, "coordination.k8s.io/leases", SYSTEM)
            assert may(accounts(account), right, name=account)
            assert not may(accounts(account), right, name="another")
    for verb in ("get", "patch"):
        right = (verb, "secrets", SYSTEM)
        assert may(accounts("arnold-certificates"), right, name="arnold-extender-tls")
        assert may(accounts("arnold-certificates"), right, name="arnold-scheduler-tls")
        assert not may(accounts("arnold-certificates"), right, name="arnold-ca")


def test_viewers_see_plans_and_write_none(rendered: list[Object]) -> None:
    """Plans are added to the role view, for reading only; nothing is added to edit or admin."""
    roles = [thing for thing in rendered if thing["kind"] == "ClusterRole"]
    aggregated = {
        label.removeprefix("rbac.authorization.k8s.io/aggregate-to-"): {
            verb for rule in role["rules"] for verb in rule["verbs"]
        }
        for role in roles
        for label in role["metadata"]["labels"]
        if "aggregate-to" in label
    }
    assert aggregated == {"view": {"get", "list", "watch"}}


@pytest.mark.parametrize(
    ("account", "request_path", "schema"),
    [
        ("arnold-extender", "api/v1/nodes?limit=1", "arnold"),
        ("arnold-scheduler", "api/v1/nodes?limit=1", "arnold"),
        (
            "arnold-extender",
            f"apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/arnold-extender",
            "arnold-leader-election",
        ),
    ],
)
def test_requests_are_queued_as_a_schedulers(plane: ControlPlane, account: str, request_path: str, schema: str) -> None:
    """The API server sorts our requests into our flow schemas, Leases before all others."""
    schemas: list[Object] = plane.admin.request("GET", "apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")["items"]
    known = {one["metadata"]["uid"]: one["metadata"]["name"] for one in schemas}
    pool = urllib3.PoolManager(ca_certs=str(plane.certificates.authority))
    kubeconfig = json.loads(plane.service_account(account, SYSTEM).read_text(encoding="utf-8"))
    token = kubeconfig["users"][0]["user"]["token"]
    answer = pool.request("GET", f"{plane.server}/{request_path}", headers={"Authorization": f"Bearer {token}"})
    assert known[answer.headers["X-Kubernetes-PF-FlowSchema-UID"]] == schema
