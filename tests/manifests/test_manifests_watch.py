"""The component `health` on a real API server: the watch's token writes its annotations of nodes, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.harness.client import ApiError, Client
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.waiting import wait_until
from tests.facts import saying
from tests.manifests.accounts import Accounts
from tests.manifests.conftest import NODE, STRICT
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
    """A client with the token of the watch; the policy about it is heeded."""
    for thing in read("components/health/watch.yaml"):
        plane.admin.apply(thing, query=STRICT)
    client = accounts("arnold-watch")

    def is_refused() -> bool:
        try:
            annotate(client, FORBIDDEN["label"])
        except ApiError:
            return True
        return False

    wait_until(is_refused, "the policy to be heeded")
    return client


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


def test_rights_of_the_watch(watch_on_plane: Client) -> None:
    """What its program asks of the API server, and no more."""
    assert all(may(watch_on_plane, right) for right in (("list", "nodes", ""), ("list", "arnold.dev/gangplans", "")))
    beyond = (
        ("list", "secrets", ""),
        ("get", "pods", ""),
        ("update", "arnold.dev/gangplans", ""),
        ("delete", "nodes", ""),
    )
    assert not any(may(watch_on_plane, right) for right in beyond)
