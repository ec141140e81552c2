"""Pods of the kinds that users train with come from the real controllers."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.harness.nodes import make_real
from tests.e2e.harness.peers import JOBSET, LEADER_WORKER_SET, running
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import bound, container
from tests.e2e.harness.waiting import wait_until
from topology.generate import generate


def test_jobset_makes_its_pods(plane: ControlPlane, namespace: str, say: Callable[[str], None]) -> None:
    """A JobSet of 2 jobs of 3 pods gives six pods that know their job and their index in it."""
    make_real(plane.admin, generate("minipods", minipods=2, nodes=8))
    template = {"spec": {"restartPolicy": "Never", "containers": [container(8)]}}
    job = {"spec": {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": job}]},
    }
    with running(JOBSET, plane, say):
        plane.admin.create(jobset)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 6, "six pods on nodes")
        labels = [pod["metadata"]["labels"] for pod in plane.admin.all("pods", namespace)]
    ranks = {(it["jobset.sigs.k8s.io/job-index"], it["batch.kubernetes.io/job-completion-index"]) for it in labels}
    assert ranks == {(job, index) for job in "01" for index in "012"}


def test_leader_worker_set_makes_its_pods(plane: ControlPlane, namespace: str, say: Callable[[str], None]) -> None:
    """A LeaderWorkerSet of one group of four gives a leader and three workers, numbered."""
    make_real(plane.admin, generate("minipods", minipods=2, nodes=8))
    template = {"spec": {"containers": [container(8)]}}
    workers = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "namespace": namespace},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template}},
    }
    with running(LEADER_WORKER_SET, plane, say):
        plane.admin.create(workers)
        wait_until(lambda: len(bound(plane.admin, namespace)) == 4, "four pods on nodes")
        labels = [pod["metadata"]["labels"] for pod in plane.admin.all("pods", namespace)]
    assert sorted(it["leaderworkerset.sigs.k8s.io/worker-index"] for it in labels) == ["0", "1", "2", "3"]
