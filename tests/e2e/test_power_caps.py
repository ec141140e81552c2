"""Caps of power domains on a real cluster: a gang whose peak does not fit waits, although nodes are free."""

from __future__ import annotations

from collections import Counter

from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import judged, plan_in
from tests.e2e.harness.pods import bound, gang
from tests.e2e.harness.waiting import stays, wait_until
from tests.facts import says
from topology.generate import generate

FEED = "example.com/feed"
CAP, PEAK = 50_000, 12_000
"""Watts of a feed, and of a pod: four pods draw 48 kW."""


def test_a_gang_waits_for_power(arnold_plane: ControlPlane, namespace: str) -> None:
    """Two feeds of eight nodes each, of which four may be at their peak.  Eight pods run, four on each feed: four more
    wait beside eight free nodes, are told why, and run when the first are gone.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    feed = {name: f"feed-{i % 2}" for i, name in enumerate(cluster.names)}
    for name, label in feed.items():
        plane.admin.patch("nodes", name, {"metadata": {"labels": {FEED: label}}})

    def drawn() -> Counter[str]:
        return Counter(feed[node] for node in bound(plane.admin, namespace).values())

    options = (f"--domains=power={FEED}", f"--power-caps=power={CAP}")
    with running(plane, levels=level_labels(cluster), options=options), guarded(plane):
        plane.admin.create_all(first := _drawing("first", namespace, 8))
        wait_until(lambda: plan_in(plane.admin, "first", namespace, "Bound"), "the first gang on its nodes")
        assert drawn() == {"feed-0": 4, "feed-1": 4}
        plane.admin.create_all(_drawing("second", namespace, 4))
        plan = wait_until(lambda: judged(plane.admin, "second", namespace), "the second gang to wait")
        assert says(plan.message, "8 whose power domain")
        stays(lambda: len(bound(plane.admin, namespace)) == 8, "no pod of the second gang comes to a node")
        for thing in first:
            plane.admin.delete("pods", thing["metadata"]["name"], namespace)
        wait_until(lambda: plan_in(plane.admin, "second", namespace, "Bound"), "the second gang on its nodes")
        assert max(drawn().values()) * PEAK <= CAP


def _drawing(name: str, namespace: str, size: int) -> list[Object]:
    """The pods of a gang that say what they draw."""
    return gang(name, namespace, size=size, annotations={"arnold.dev/peak-watts": str(PEAK)})
