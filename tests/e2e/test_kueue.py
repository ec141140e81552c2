"""The real Kueue in front: it says when a gang may start, Arnold where; with its topology, Arnold obeys its hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.harness import peers
from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Client, Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import DOMAIN, level_labels, lose, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in, plan_of
from tests.e2e.harness.pods import GATE, bound, gated, indexed_job, pod
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate

QUEUE = "kueue.x-k8s.io/queue-name"
INDEX = "batch.kubernetes.io/job-completion-index"


@contextmanager
def _in_front(plane: ControlPlane, namespace: str, say: Callable[[str], None], *, tas: bool = False) -> Iterator[None]:
    """Kueue with a quota of 32 GPUs for the namespace, on 16 nodes of two minipods, and Arnold."""
    cluster = generate("minipods", minipods=2, nodes=8)
    make_real(plane.admin, cluster)
    labels = level_labels(cluster)
    with peers.running(peers.KUEUE, plane, say), running(plane, levels=labels), guarded(plane):
        plane.admin.create_all(peers.kueue_queue(labels, namespace, gpus=32, tas=tas))
        try:
            yield
        finally:  # Kueue's finalizers go with it
            plane.admin.delete_all("jobs", namespace)
            plane.admin.delete_all("pods", namespace)
            wait_until(lambda: not plane.admin.all("pods", namespace), "all pods to go")


def _job(name: str, namespace: str, **annotations: str) -> Object:
    """A gang of four nodes as an Indexed Job in the queue."""
    job = indexed_job(name, namespace, size=4, parallelism="tp=8,pp=2,dp=2")
    job["metadata"]["labels"] = {QUEUE: "team"}
    job["spec"]["suspend"] = True
    job["spec"]["template"]["metadata"]["annotations"] |= annotations
    return job


def test_a_job_waits_for_its_quota_and_is_placed_then(
    arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]
) -> None:
    """Of two jobs of 32 GPUs one is admitted, and has its pods placed; when it is gone, so is the other."""
    plane = arnold_plane
    with _in_front(plane, namespace, say):
        plane.admin.create(_job("first", namespace))
        first = wait_until(lambda: plan_in(plane.admin, "first", namespace, "Bound"), "the first on its nodes")
        plane.admin.create(_job("second", namespace))
        wait_until(lambda: len(plane.admin.all("workloads", namespace)) == 2, "both in the queue")
        assert plan_of(plane.admin, "second", namespace) is None
        assert plane.admin.get("jobs", "second", namespace)["spec"]["suspend"]
        plane.admin.delete("jobs", "first", namespace)
        second = wait_until(lambda: plan_in(plane.admin, "second", namespace, "Bound"), "the second in its place")
        assert len({*first.nodes}) == len({*second.nodes}) == 4
        assert _hosts_by_rank(plane, namespace, "second") == second.nodes


def test_pods_wait_behind_both_gates(arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]) -> None:
    """A pod group of Kueue's own: while there is no quota its plan says which gate holds it."""
    plane = arnold_plane
    with _in_front(plane, namespace, say):
        plane.admin.create(_job("first", namespace))
        wait_until(lambda: plan_in(plane.admin, "first", namespace, "Bound"), "the first on its nodes")
        labels = {QUEUE: "team", "kueue.x-k8s.io/pod-group-name": "llm"}
        notes = {"kueue.x-k8s.io/pod-group-total-count": "4"}
        for rank in range(4):
            ranked = {**labels, "arnold.dev/rank": str(rank)}
            held = pod(f"llm-{rank}", namespace, scheduler="arnold", labels=ranked, annotations=notes, gates=(GATE,))
            plane.admin.create(held)
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Waiting"), "it to say that it waits")
        assert "kueue.x-k8s.io/admission" in plan.message
        assert gated(plane.admin, namespace) == 4
        plane.admin.delete("jobs", "first", namespace)
        wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "all four on their nodes")


def test_the_hosts_that_kueue_chose_are_the_plan(
    arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]
) -> None:
    """With a topology Kueue writes a host into each pod; every rank is bound there, with the worth of that."""
    plane = arnold_plane
    with _in_front(plane, namespace, say, tas=True):
        job = _job("llm", namespace, **{"kueue.x-k8s.io/podset-required-topology": f"{DOMAIN}/minipod"})
        plane.admin.create(job)
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "four pods on their nodes")
        assert _hosts_by_rank(plane, namespace, "llm") == plan.nodes
        assert "its pods select" in plan.condition("Planned")["message"]


@pytest.mark.parametrize("fails", [lose, lambda client, name: client.delete("nodes", name)], ids=["away", "deleted"])
def test_a_rank_follows_the_host_that_kueue_gives_it_in_place_of_a_lost_one(
    arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None], fails: Callable[[Client, str], None]
) -> None:
    """Kueue replaces the node of an admitted workload: no second plan is made, that rank alone moves, as Kueue says."""
    plane = arnold_plane
    with _in_front(plane, namespace, say, tas=True):
        plane.admin.create(_job("llm", namespace, **{"kueue.x-k8s.io/podset-required-topology": f"{DOMAIN}/minipod"}))
        before = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "four pods on their nodes")
        fails(plane.admin, before.nodes[2])
        # what the taint and garbage controllers, which do not run here or not so soon, would do
        (pod_of_rank,) = plane.admin.all("pods", namespace, labelSelector=f"job-name=llm,{INDEX}=2")
        plane.admin.delete("pods", pod_of_rank["metadata"]["name"], namespace)

        def followed() -> bool:
            plan, there = plan_in(plane.admin, "llm", namespace, "Bound"), bound(plane.admin, namespace)
            moved = plan is not None and before.nodes[2] not in plan.nodes
            return plan is not None and moved and len(there) == 4 and {*there.values()} == {*plan.nodes}

        wait_until(followed, "the rank on another node")
        after = plan_of(plane.admin, "llm", namespace)
        assert after is not None
        assert [node for rank, node in enumerate(after.nodes) if rank != 2] == [*before.nodes[:2], before.nodes[3]]
        assert _hosts_by_rank(plane, namespace, "llm") == after.nodes
        assert after.condition("Healthy")["status"] == "True"
        (workload,) = plane.admin.all("workloads", namespace)
        conditions = {it["type"]: it["status"] for it in workload["status"]["conditions"]}
        assert (conditions["Admitted"], conditions.get("Evicted", "False")) == ("True", "False")


def _hosts_by_rank(plane: ControlPlane, namespace: str, job: str) -> tuple[str, ...]:
    """The node of each completion index; where its pod selects a host, that."""
    pods = plane.admin.all("pods", namespace, labelSelector=f"job-name={job}")
    pods.sort(key=lambda it: int(it["metadata"]["labels"][INDEX]))
    for it in pods:
        chosen = it["spec"].get("nodeSelector", {}).get("kubernetes.io/hostname")
        assert chosen in (None, it["spec"]["nodeName"])
    return tuple(it["spec"]["nodeName"] for it in pods)
