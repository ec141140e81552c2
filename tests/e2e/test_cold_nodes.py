"""Images that nodes have, as kubelets write them into the status of nodes: gangs go where theirs is."""

from __future__ import annotations

from collections.abc import Iterable

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import gang
from tests.e2e.harness.waiting import wait_until
from tests.facts import says
from topology.generate import generate

IMAGE = "docker.io/library/train:latest"
"""What the pods of these tests call ``train``, as container runtimes list it."""


def test_gangs_go_where_their_image_is(arnold_plane: ControlPlane, namespace: str) -> None:
    """Two minipods of two racks of four nodes: the last rack has it, and a gang of four lies there.  One of six that
    comes after it has the other minipod, with the two nodes that pulled it since; its plan says what the others pull.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    first, second = (list(cluster.names[i : i + 8]) for i in (0, 8))
    _pull(plane, second[4:])
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create_all(gang("four", namespace, size=4))
        plan = wait_until(lambda: plan_in(plane.admin, "four", namespace, "Bound"), "the first gang on its nodes")
        assert set(plan.nodes) == set(second[4:])
        assert "would pull" not in plan.condition("Planned")["message"]
        _pull(plane, first[6:])
        plane.admin.create_all(gang("six", namespace, size=6))
        plan = wait_until(lambda: plan_in(plane.admin, "six", namespace, "Bound"), "the second gang on its nodes")
        assert set(first[6:]) < set(plan.nodes) < set(first)
        assert says(plan.condition("Planned")["message"], "proved best", "4 of 6 nodes", "18 GB")


def _pull(plane: ControlPlane, nodes: Iterable[str]) -> None:
    """Nodes have pulled the image, and say so."""
    status = {"images": [{"names": [IMAGE], "sizeBytes": 18 * 10**9}]}
    for name in nodes:
        plane.admin.patch("nodes", name, {"status": status}, subresource="status")
