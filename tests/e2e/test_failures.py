"""What else fails on a cluster: schedulers, API servers, leaders, nodes, and pods that do not come in time."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, lose, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import all_plans, judged, plan_in
from tests.e2e.harness.pods import bound, gang, gated, indexed_job, pod
from tests.e2e.harness.waiting import stays, wait_until
from tests.facts import says
from topology.cluster import Cluster
from topology.generate import fragment, generate

SLOWLY = "--write-rate=10"
"""Writes a second, so that there is time for something to fail while a gang is being released."""


def test_scheduler_restarts_during_a_gang(arnold_plane: ControlPlane, namespace: str) -> None:
    """kube-scheduler dies while the gang binds; started again, it binds the rest where the plan says."""
    plane = arnold_plane
    cluster = _cluster(plane)
    with running(plane, levels=level_labels(cluster), options=[SLOWLY]) as arnold, guarded(plane):
        plane.admin.create_all(gang("llm", namespace, size=48, parallelism="tp=8,pp=4,dp=12"))
        wait_until(lambda: bound(plane.admin, namespace), "the first pod on its node", every=0.01)
        arnold.scheduler.kill()
        assert len(bound(plane.admin, namespace)) < 48
        arnold.scheduler.start()
        wait_until(lambda: len(bound(plane.admin, namespace)) == 48, "48 pods on nodes")


def test_api_server_restarts_during_a_gang(arnold_plane: ControlPlane, namespace: str) -> None:
    """The API server dies while the gang is released; back again, the gang goes on where it was."""
    plane = arnold_plane
    cluster = _cluster(plane)
    with running(plane, levels=level_labels(cluster), options=[SLOWLY]) as arnold, guarded(plane):
        plane.admin.create_all(gang("llm", namespace, size=48, parallelism="tp=8,pp=4,dp=12"))
        wait_until(lambda: gated(plane.admin, namespace) < 48, "the first gate to come off", every=0.01)
        plane.api_server.kill()
        plane.api_server.start()
        wait_until(lambda: len(bound(plane.admin, namespace)) == 48, "48 pods on nodes")
        # Nothing gave up meanwhile: the extender is the same process.
        assert arnold.extender.alive


def test_leader_loses_its_lease(arnold_plane: ControlPlane, namespace: str) -> None:
    """A leader that stands still loses its Lease; another finishes the gang, and the old one, awake, spoils nothing."""
    plane = arnold_plane
    cluster = _cluster(plane)
    with running(plane, levels=level_labels(cluster), replicas=2, options=[SLOWLY]) as arnold, guarded(plane):
        old = wait_until(arnold.leader, "a leader")
        plane.admin.create_all(gang("llm", namespace, size=48, parallelism="tp=8,pp=4,dp=12"))
        wait_until(lambda: gated(plane.admin, namespace) < 48, "the first gate to come off", every=0.01)
        os.kill(old.pid, signal.SIGSTOP)
        arnold.service.targets.remove(
            arnold.ports[arnold.replicas.index(old)]
        )  # a Service leaves out what is not ready
        arnold.service.cut()
        new = wait_until(lambda: (found := arnold.leader()) is not old and found, "another leader")
        wait_until(lambda: gated(plane.admin, namespace) == 0, "all gates to come off")
        os.kill(old.pid, signal.SIGCONT)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 48, "48 pods on nodes")
        stays(lambda: arnold.leader() is new, "the new leader leads")


def test_node_dies_under_a_running_gang(arnold_plane: ControlPlane, namespace: str) -> None:
    """The rank that ran there gets another node in place of it; no other rank moves."""
    plane = arnold_plane
    cluster = _cluster(plane)
    with running(plane, levels=level_labels(cluster), options=["--lost-after=1"]), guarded(plane):
        plane.admin.create_all(gang("llm", namespace, size=24, parallelism="tp=8,pp=2,dp=12"))
        before = wait_until(lambda: _all_bound(plane, namespace, 24), "24 pods on nodes")
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the plan to say that it is bound")
        lose(plane.admin, before["llm-7"])
        plane.admin.delete("pods", "llm-7", namespace)
        plane.admin.create(gang("llm", namespace, size=24, parallelism="tp=8,pp=2,dp=12")[7])
        after = wait_until(lambda: _all_bound(plane, namespace, 24), "all 24 ranks on nodes again")
        assert after["llm-7"] != before["llm-7"]
        assert {pod: node for pod, node in after.items() if pod != "llm-7"} == {
            pod: node for pod, node in before.items() if pod != "llm-7"
        }


def test_node_dies_before_its_pod_is_there(arnold_plane: ControlPlane, namespace: str) -> None:
    """A planned node that dies before its rank is bound is replaced; the ranks that could go on have not moved."""
    plane = arnold_plane
    cluster = _cluster(plane)
    with running(plane, levels=level_labels(cluster), options=["--lost-after=1"]) as arnold, guarded(plane):
        arnold.scheduler.kill()
        plane.admin.create(indexed_job("llm", namespace, size=24, parallelism="tp=8,pp=2,dp=12"))
        before = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Released"), "the gang to be released")
        lose(plane.admin, before.nodes[7])
        arnold.scheduler.start()
        wait_until(lambda: len(bound(plane.admin, namespace)) >= 23, "the other 23 pods on nodes")
        after = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "all 24 pods on nodes")
        moved = [rank for rank in range(24) if before.nodes[rank] != after.nodes[rank]]
        assert moved == [7]


@pytest.mark.parametrize("bare", [False, True], ids=["job", "bare pods"])
def test_two_thirds_of_the_nodes_are_lost_before_the_binding(
    arnold_plane: ControlPlane, namespace: str, *, bare: bool
) -> None:
    """Of twelve nodes four are gone and four have pods of another scheduler: these eight ranks move, and their pods
    with them, be they of a Job that would fail at the first failure or such that nobody would make anew.
    """
    plane = arnold_plane
    cluster = _cluster(plane)
    with running(plane, levels=level_labels(cluster)) as arnold, guarded(plane):
        arnold.scheduler.kill()
        degrees = "tp=8,pp=2,dp=6"
        job = indexed_job("llm", namespace, size=12, parallelism=degrees)
        job["spec"]["backoffLimit"] = 0
        plane.admin.create_all(gang("llm", namespace, size=12, parallelism=degrees) if bare else [job])
        before = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Released"), "the gang to be released")
        uids = {thing["metadata"]["uid"] for thing in plane.admin.all("pods", namespace)}
        for name in before.nodes[:4]:
            plane.admin.delete("nodes", name)
        plane.admin.create_all([pod(f"stranger-{name}", "default", node=name) for name in before.nodes[4:8]])
        arnold.scheduler.start()
        after = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "all 12 pods on nodes")
        assert [rank for rank in range(12) if before.nodes[rank] != after.nodes[rank]] == [*range(8)]
        assert {thing["metadata"]["uid"] for thing in plane.admin.all("pods", namespace)} == uids
        assert sorted(bound(plane.admin, namespace).values()) == sorted(after.nodes)
        if not bare:
            status = plane.admin.get("jobs", "llm", namespace)["status"]
            assert (status.get("failed", 0), status.get("conditions", [])) == (0, [])


def test_a_plan_is_lost_while_another_gang_waits_for_its_nodes(arnold_plane: ControlPlane, namespace: str) -> None:
    """While no extender runs the GangPlan goes and three pods of six are made anew, and the next in the queue wants all
    nodes: neither would ever end if the first waited for the second.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    pods = gang("llm", namespace, size=6, parallelism="tp=8,pp=2,dp=3")
    with running(plane, levels=level_labels(cluster)) as arnold, guarded(plane):
        plane.admin.create_all(pods)
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes")
        plane.admin.create_all(gang("all", namespace, size=16, parallelism="tp=8,pp=2,dp=8"))
        wait_until(lambda: judged(plane.admin, "all", namespace), "the other gang to wait for room")
        arnold.extender.kill()
        plane.admin.delete("gangplans", "llm", namespace)
        for thing in pods[:3]:
            plane.admin.delete("pods", thing["metadata"]["name"], namespace)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 3, "three of its pods to go")
        others = bound(plane.admin, namespace)
        plane.admin.create_all(pods[:3])
        arnold.extender.start()
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "the gang on its nodes again")
        assert others.items() < bound(plane.admin, namespace).items()


def test_a_plan_is_lost_while_a_released_pod_is_missing(arnold_plane: ControlPlane, namespace: str) -> None:
    """Of 32 nodes 20 are a's, four of its pods are on theirs; one is deleted, and its GangPlan.  Gang b of 20 comes,
    gets none of them, and waits whole; the missing pod comes again and a runs whole.
    """
    plane = arnold_plane
    cluster = generate("minipods", minipods=4, nodes=32)
    make_real(plane.admin, cluster)
    pods = gang("a", namespace, size=20, parallelism="tp=8,pp=2,dp=10")
    with running(plane, levels=level_labels(cluster)) as arnold, guarded(plane):
        arnold.scheduler.kill()
        plane.admin.create_all(pods)
        before = wait_until(lambda: plan_in(plane.admin, "a", namespace, "Released"), "a to be released")
        for rank in range(4):
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"a-{rank}", "namespace": namespace}}
            where = f"api/v1/namespaces/{namespace}/pods/a-{rank}/binding"
            plane.admin.request("POST", where, {**binding, "target": {"kind": "Node", "name": before.nodes[rank]}})
        wait_until(lambda: len(bound(plane.admin, namespace)) == 4, "four pods of a on their nodes")
        plane.admin.delete("pods", "a-19", namespace)
        plane.admin.delete("gangplans", "a", namespace)
        wait_until(lambda: plan_in(plane.admin, "a", namespace, "Waiting"), "a to be told that a pod is missing")
        plane.admin.create_all(gang("b", namespace, size=20, parallelism="tp=8,pp=2,dp=10"))
        wait_until(lambda: judged(plane.admin, "b", namespace), "b to wait for room")
        plane.admin.create(pods[19])
        wait_until(lambda: plan_in(plane.admin, "a", namespace, "Released"), "a to be released again")
        arnold.scheduler.start()
        after = wait_until(lambda: plan_in(plane.admin, "a", namespace, "Bound"), "a on its nodes")
        assert after.nodes[:19] == before.nodes[:19]
        there = bound(plane.admin, namespace)
        assert (len(there), {name.partition("-")[0] for name in there}) == (20, {"a"})


def test_plan_expires(arnold_plane: ControlPlane, namespace: str) -> None:
    """Pods that no scheduler binds lose their nodes to a gang that can use them, and say why; later they run too."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster), options=["--bind-timeout=4"]) as arnold, guarded(plane):
        arnold.scheduler.kill()
        plane.admin.create(indexed_job("late", namespace, size=12, parallelism="tp=8,pp=2,dp=6"))
        # the plan itself may be anew in the queue, or promised again, when it is looked at
        told = wait_until(
            lambda: [it for it in plane.admin.all("events", namespace) if it["reason"] == "Expired"],
            "the plan to expire",
        )
        assert says(told[0]["message"], "0 of 12 pods")
        assert bound(plane.admin, namespace) == {}
        arnold.scheduler.start()
        wait_until(lambda: _all_bound(plane, namespace, 12), "12 pods on nodes", seconds=120.0)


def test_gang_deleted_in_the_middle(arnold_plane: ControlPlane, namespace: str) -> None:
    """A gang that is deleted while it is released gives everything back: the next one gets the same nodes."""
    plane = arnold_plane
    cluster = generate("minipods", minipods=2, nodes=24)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster), options=[SLOWLY]), guarded(plane):
        plane.admin.create_all(gang("first", namespace, size=24, parallelism="tp=8,pp=2,dp=12"))
        wait_until(lambda: gated(plane.admin, namespace) < 24, "the first gate to come off", every=0.01)
        plane.admin.delete_all("pods", namespace)
        wait_until(lambda: not all_plans(plane.admin, namespace), "the plan to go with its gang")
        plane.admin.create_all(gang("second", namespace, size=24, parallelism="tp=8,pp=2,dp=12"))
        wait_until(lambda: _all_bound(plane, namespace, 24), "the second gang on all nodes")


def _cluster(plane: ControlPlane) -> Cluster:
    """Six minipods of 16 nodes, 40 % in use: 58 free nodes."""
    cluster = fragment(generate("minipods", minipods=6, nodes=96), 0.4, seed=5)
    make_real(plane.admin, cluster)
    return cluster


def _all_bound(plane: ControlPlane, namespace: str, size: int) -> dict[str, str] | None:
    found = bound(plane.admin, namespace)
    return found if len(found) == size else None
