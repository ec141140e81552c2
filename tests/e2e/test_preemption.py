"""A gang of high priority takes the nodes of others, on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.harness.arnold import component, running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import bound, gang, indexed_job, pod, priority_class
from tests.e2e.harness.waiting import wait_until
from tests.facts import says
from topology.generate import generate

ON = "--preemption=on"


@pytest.fixture(autouse=True)
def _may_evict(arnold_plane: ControlPlane) -> Iterator[None]:
    """The component is installed, and gone afterwards."""
    with component(arnold_plane, "preemption/rbac.yaml"):
        arnold_plane.admin.apply(priority_class("urgent", 1000))
        yield


def _budget(namespace: str, gang_name: str) -> Object:
    """One pod of the gang has to stay."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"arnold.dev/gang": gang_name}}}
    about = {"name": gang_name, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": about, "spec": spec}


def test_a_gang_is_stopped_whole_and_nobody_steals_its_nodes(arnold_plane: ControlPlane, namespace: str) -> None:
    """Eight nodes: a, a Job, and b, younger and so cheaper to stop, but kept by a disruption budget, have four each; a
    single pod waits for any.  The urgent gang gets the four nodes of a, which is told, and its Job counts no failure;
    the single pod gets none, and the extender was killed in the middle.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster), options=[ON]) as arnold, guarded(plane):
        plane.admin.create(indexed_job("a", namespace, size=4, parallelism="tp=8,dp=4", patient=True))
        a = wait_until(partial(plan_in, plane.admin, "a", namespace, "Bound"), "a to be on its nodes")
        plane.admin.create(_budget(namespace, "b"))
        plane.admin.create_all(gang("b", namespace, size=4))
        b = wait_until(partial(plan_in, plane.admin, "b", namespace, "Bound"), "b to be on its nodes")
        # what the disruption controller, which does not run here, would say
        counted = {"expectedPods": 4, "currentHealthy": 4, "desiredHealthy": 1, "disruptionsAllowed": 3}
        counted["observedGeneration"] = 1
        plane.admin.patch("poddisruptionbudgets", "b", {"status": counted}, namespace, subresource="status")
        plane.admin.create(pod("thief", namespace, scheduler="arnold"))
        plane.admin.create_all(gang("urgent", namespace, size=4, priority="urgent"))
        stopped = wait_until(lambda: _outranked(plane, namespace), "a to be told that it makes room")
        arnold.extender.kill()
        arnold.extender.start()
        plan = wait_until(partial(plan_in, plane.admin, "urgent", namespace, "Bound"), "the urgent gang on nodes")
        assert {*plan.nodes} == {*a.nodes}
        assert says(stopped, f"makes room for gang {namespace}/urgent", "priority 1000", "evicted at")
        assert b == plan_in(plane.admin, "b", namespace, "Bound")
        assert "thief" not in bound(plane.admin, namespace)
        assert "victims" not in plan.status
        wait_until(partial(plan_in, plane.admin, "a", namespace, "Queued"), "a to wait, whole")
        assert not plane.admin.get("jobs", "a", namespace)["status"].get("failed")
        (history,) = plane.admin.all("ganghistories", namespace)
        assert len(history["spec"]["preemptions"]) == 1


def _outranked(plane: ControlPlane, namespace: str) -> str:
    """What a is told once it is stopped."""
    plan = plan_in(plane.admin, "a", namespace, "Queued")
    return plan.message if plan is not None and plan.status["reason"] == "Preempted" else ""
