"""Gangs as users write them: Jobs and JobSets whose real controllers make, number and replace the pods."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.harness import peers
from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import Object
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import container, indexed_job
from tests.e2e.harness.waiting import wait_until
from topology.generate import fragment, generate

INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"


def test_indexed_job(arnold_plane: ControlPlane, namespace: str) -> None:
    """Index r of a Job lies on the node of rank r; a pod that fails is made anew and gets its index's node."""
    plane = arnold_plane
    cluster = fragment(generate("minipods", minipods=4, nodes=64), 0.4, seed=2)
    make_real(plane.admin, cluster)
    with running(plane, levels=level_labels(cluster)), guarded(plane):
        plane.admin.create(indexed_job("llm", namespace, size=24, parallelism="tp=8,pp=4,dp=6"))
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "24 pods on their nodes")
        assert _nodes(plane, namespace, lambda labels: int(labels[INDEX])) == dict(enumerate(plan.nodes))

        (seventh,) = [it for it in plane.admin.all("pods", namespace) if it["metadata"]["labels"][INDEX] == "7"]
        plane.admin.delete("pods", seventh["metadata"]["name"], namespace)
        wait_until(
            lambda: _nodes(plane, namespace, lambda labels: int(labels[INDEX])) == dict(enumerate(plan.nodes)),
            "the new pod of index 7 on the node of rank 7",
        )


def test_jobset(arnold_plane: ControlPlane, namespace: str, say: Callable[[str], None]) -> None:
    """Rank in a JobSet is job index x pods of a job + completion index."""
    plane = arnold_plane
    cluster = fragment(generate("minipods", minipods=4, nodes=64), 0.4, seed=2)
    make_real(plane.admin, cluster)
    with (
        peers.running(peers.JOBSET, plane, say),
        running(plane, levels=level_labels(cluster)),
        guarded(plane),
    ):
        plane.admin.create(_jobset("llm", namespace, jobs=6, pods=4))
        plan = wait_until(lambda: plan_in(plane.admin, "llm", namespace, "Bound"), "24 pods on their nodes")
        ranks = _nodes(plane, namespace, lambda labels: int(labels[JOB_INDEX]) * 4 + int(labels[INDEX]))
        assert ranks == dict(enumerate(plan.nodes))


def _nodes(plane: ControlPlane, namespace: str, rank: Callable[[dict[str, str]], int]) -> dict[int, str | None]:
    """Rank -> node, of the pods of a namespace."""
    return {rank(pod["metadata"]["labels"]): pod["spec"].get("nodeName") for pod in plane.admin.all("pods", namespace)}


def _jobset(name: str, namespace: str, *, jobs: int, pods: int) -> Object:
    """As in manifests/examples, smaller."""
    notes = {"arnold.dev/gang-size": str(jobs * pods), "arnold.dev/parallelism": f"tp=8,pp={pods},dp={jobs}"}
    template = {
        "metadata": {"labels": {"arnold.dev/gang": name}, "annotations": notes},
        "spec": {"restartPolicy": "Never", "containers": [container(8)]},
    }
    job = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": jobs, "template": {"spec": job}}]},
    }
