"""Gangs that ask for what the nodes have not, or not where they were planned, on a real cluster."""

from __future__ import annotations

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.demands import apart, asking, claims_for, storage_class, volume
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import judged, plan_in
from tests.e2e.harness.pods import bound, gang, pod
from tests.e2e.harness.waiting import wait_until
from tests.facts import says
from topology.cluster import Cluster
from topology.generate import generate


@pytest.fixture
def cluster(arnold_plane: ControlPlane) -> Cluster:
    """Two minipods of 4 free nodes with 128 CPU each."""
    return make_real(arnold_plane.admin, generate("minipods", minipods=2, nodes=8))


@pytest.fixture
def storage(arnold_plane: ControlPlane, namespace: str) -> str:
    """The name of a storage class of the test's own, whose volumes are bound when their pods come."""
    arnold_plane.admin.apply(storage_class(namespace))
    return namespace


def test_cpu_that_the_nodes_have_not(arnold_plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
    """A gang of 500 CPU a pod has no nodes and keeps none; of 100 CPU it goes where others hold less than 28."""
    plane, levels = arnold_plane, level_labels(cluster)
    taken = [row.name for row in cluster][:4]
    tenants = [pod(f"web-{name}", namespace, gpus=0, node=name) for name in taken]
    plane.admin.create_all(asking(tenants, cpu="60"))
    with running(plane, levels=levels), guarded(plane):
        plane.admin.create_all(asking(gang("greedy", namespace, size=4), cpu="500"))
        greedy = wait_until(lambda: judged(plane.admin, "greedy", namespace), "it to be told")
        assert "8 with less than 500 CPU" in greedy.message
        plane.admin.create_all(asking(gang("modest", namespace, size=4), cpu="100"))
        plan = wait_until(lambda: plan_in(plane.admin, "modest", namespace, "Bound"), "the other gang to be bound")
        plane.admin.create_all(asking(gang("third", namespace, size=4), cpu="100"))
        third = wait_until(lambda: judged(plane.admin, "third", namespace), "the third to be told")
    assert not {*plan.nodes} & {*taken}
    assert says(third.message, "4 with less than 100 CPU free")


def test_rules_between_pods(arnold_plane: ControlPlane, namespace: str, cluster: Cluster) -> None:
    """One pod a minipod is refused, with the reason; one pod a node is what a plan of whole nodes does."""
    plane, levels = arnold_plane, level_labels(cluster)
    with running(plane, levels=levels), guarded(plane):
        plane.admin.create_all(apart(gang("apart", namespace, size=2), levels[0]))
        refused = wait_until(lambda: plan_in(plane.admin, "apart", namespace, "Invalid"), "it to be refused")
        plane.admin.create_all(apart(gang("alone", namespace, size=4), "kubernetes.io/hostname"))
        plan = wait_until(lambda: plan_in(plane.admin, "alone", namespace, "Bound"), "the other gang to be bound")
    assert says(refused.message, "podAntiAffinity", levels[0])
    assert len({*plan.nodes}) == 4


def test_volumes_go_where_the_pods_are_planned(
    arnold_plane: ControlPlane, namespace: str, cluster: Cluster, storage: str
) -> None:
    """Volumes that are bound when their pods come: every node has one, so the plan holds; it says what it left open."""
    plane, levels = arnold_plane, level_labels(cluster)
    plane.admin.create_all([volume(storage, row.name) for row in cluster])
    with running(plane, levels=levels), guarded(plane):
        pods = gang("g", namespace, size=4)
        plane.admin.create_all([*claims_for(pods, storage), *pods])
        plan = wait_until(lambda: plan_in(plane.admin, "g", namespace, "Bound"), "the gang to be bound")
    told = plan.condition("Checked")
    assert (told["status"], told["reason"]) == ("False", "LeftToScheduler")
    assert "the zone of volumes (data)" in told["message"]


def test_a_gang_that_never_binds_lets_others_pass(
    arnold_plane: ControlPlane, namespace: str, cluster: Cluster, storage: str
) -> None:
    """No node has a volume for its pods: its time runs out, it says what kube-scheduler says, and another gang that
    needs all nodes has them.  The extender is killed in between, and knows of the refusal when it is back.
    """
    plane, levels = arnold_plane, level_labels(cluster)
    with running(plane, levels=levels, options=["--bind-timeout=6"]) as arnold, guarded(plane):
        pods = gang("never", namespace, size=8)
        plane.admin.create_all([*claims_for(pods, storage), *pods])
        plan = wait_until(lambda: plan_in(plane.admin, "never", namespace, "Expired"), "its time to run out")
        assert says(plan.message, "0 of 8 pods")
        assert "persistent volumes to bind" in plan.message
        assert plan.status["expiries"] == 1
        arnold.extender.kill()
        plane.admin.create_all(gang("other", namespace, size=8))
        arnold.extender.start()
        wait_until(lambda: plan_in(plane.admin, "other", namespace, "Bound"), "the other gang to be bound", seconds=120)
        again = wait_until(
            lambda: plan_in(plane.admin, "never", namespace, "Expired", "Queued"), "the refused gang to be let go"
        )
    assert set(bound(plane.admin, namespace)) == {f"other-{rank}" for rank in range(8)}
    assert again.status["expiries"] >= 1


def test_a_single_pod_has_nodes_that_are_given_back(
    arnold_plane: ControlPlane, namespace: str, cluster: Cluster, storage: str
) -> None:
    """All nodes are promised to a gang for which no node has volumes, and a pod without a gang is refused.  When the
    gang's time runs out nothing happens to a pod or a node, and yet it is bound, long before kube-scheduler tries it
    again by itself, which is after five minutes.
    """
    plane, levels = arnold_plane, level_labels(cluster)
    with running(plane, levels=levels, options=["--bind-timeout=15"]), guarded(plane):
        pods = gang("never", namespace, size=8)
        plane.admin.create_all([*claims_for(pods, storage), *pods])
        wait_until(lambda: plan_in(plane.admin, "never", namespace, "Released"), "the gang to be released")
        plane.admin.create_all([pod("single", namespace, scheduler="arnold")])
        wait_until(lambda: plan_in(plane.admin, "never", namespace, "Expired"), "its time to run out")
        assert not bound(plane.admin, namespace)
        wait_until(lambda: bound(plane.admin, namespace).keys() == {"single"}, "the pod to be bound", seconds=90)
