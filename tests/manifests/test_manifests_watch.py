"""The component `health` on a real API server: the watch's token writes annotations and incidents, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from extender.plans.gang_history import GangHistory, GangIncident, decode_history, encode_history
from tests.e2e.harness.client import ApiError, Client
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.waiting import wait_until
from tests.facts import saying
from tests.manifests.accounts import Accounts
from tests.manifests.conftest import NODE, STRICT, wait_for_policies
from tests.manifests.rendering import read
from tests.manifests.test_manifests_rights import may
from topology.kubernetes.nodes import SLOWDOWN, SLOWDOWN_UNTIL

FORBIDDEN: dict[str, dict[str, Any]] = {
    "cordon": {"spec": {"unschedulable": True}},
    "label": {"metadata": {"labels": {"zone": "x"}}},
    "another annotation": {"metadata": {"annotations": {"example.com/note": "x"}}},
    "both at once": {"metadata": {"annotations": {SLOWDOWN: "1.3", "example.com/note": "x"}}},
}


@pytest.fixture(scope="module")
def watch_on_plane(plane: ControlPlane, accounts: Accounts) -> Client:
    """A client with the token of the watch; the policies about it are heeded."""
    for thing in read("components/health/watch.yaml"):
        plane.admin.apply(thing, query=STRICT)
    wait_for_policies(plane)
    return accounts("arnold-watch")


def annotate(client: Client, patch: dict[str, Any]) -> Any:
    """Patch the node without keeping it, as the watch does it."""
    kind = "application/merge-patch+json"
    return client.request("PATCH", f"api/v1/nodes/{NODE}?dryRun=All", patch, content_type=kind)


def test_the_watch_annotates_nodes(watch_on_plane: Client) -> None:
    """A factor with its end, and off again."""
    written = {SLOWDOWN: "1.3", SLOWDOWN_UNTIL: "2030-01-01T00:00:00Z"}
    made = annotate(watch_on_plane, {"metadata": {"annotations": written}})
    assert made["metadata"]["annotations"].items() >= written.items()
    annotate(watch_on_plane, {"metadata": {"annotations": {SLOWDOWN: None, SLOWDOWN_UNTIL: None}}})


@pytest.mark.parametrize("patch", FORBIDDEN.values(), ids=FORBIDDEN)
def test_the_watch_writes_nothing_else(watch_on_plane: Client, patch: dict[str, Any]) -> None:
    """Whoever steals its token cannot take a node away, nor move it in the topology."""
    with pytest.raises(ApiError, match=saying(SLOWDOWN, "nothing else")):
        annotate(watch_on_plane, patch)


def written(client: Client, spec: dict[str, Any]) -> Any:
    """Make a history without keeping it, as the watch does where a namespace has none."""
    document = {
        "apiVersion": "arnold.dev/v1alpha1",
        "kind": "GangHistory",
        "metadata": {"name": "arnold"},
        "spec": spec,
    }
    return client.request("POST", "apis/arnold.dev/v1alpha1/namespaces/kube-public/ganghistories?dryRun=All", document)


def test_the_watch_keeps_incidents(watch_on_plane: Client) -> None:
    """A chain of evidence comes back as it was written; how long gangs run is not the watch's to say."""
    incident = GangIncident(gang="llm", since=datetime(2030, 1, 1, tzinfo=UTC), nodes=("n1",), ranks=(1,))
    history = GangHistory(namespace="kube-public", incidents=(incident.then(incident.since, "StandsStill", "it does"),))
    assert decode_history(written(watch_on_plane, encode_history(history)["spec"])).incidents == history.incidents
    runs = {"jobs": 1, "seconds": 60.0, "logs": 4.0, "squares": 0.0}
    forged = {"kinds": [{"pattern": "llm", "gpus": 8, "runTimes": runs}], "counted": []}
    with pytest.raises(ApiError, match=saying("incidents", "nothing else")):
        written(watch_on_plane, forged)


def test_rights_of_the_watch(plane: ControlPlane, watch_on_plane: Client) -> None:
    """What its program asks of the API server, and no more; pods are evicted by a component of their own."""
    needed = [("list", plural, "") for plural in ("nodes", "arnold.dev/gangplans", "arnold.dev/ganghistories")]
    needed += [("update", "arnold.dev/ganghistories", ""), ("create", "events.k8s.io/events", "")]
    assert all(may(watch_on_plane, right) for right in needed)
    beyond = (
        ("list", "secrets", ""),
        ("get", "pods", ""),
        ("update", "arnold.dev/gangplans", ""),
        ("delete", "nodes", ""),
        ("delete", "arnold.dev/ganghistories", ""),
    )
    assert not any(may(watch_on_plane, right) for right in beyond)
    acts = (("list", "pods", ""), ("create", "pods/eviction", ""))
    assert not any(may(watch_on_plane, right) for right in acts)
    for thing in read("components/health-act/rbac.yaml"):
        plane.admin.apply(thing, query=STRICT)
    try:
        wait_until(lambda: all(may(watch_on_plane, right) for right in acts), "the rights to act")
        assert not any(may(watch_on_plane, right) for right in (*beyond, ("delete", "pods", "")))
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            plane.admin.delete(kind, "arnold-watch-act")
